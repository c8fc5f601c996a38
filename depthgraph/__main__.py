"""`python -m depthgraph` is the command line."""

from depthgraph.cli import main

main()
