"""The command line. One file a command; what a command needs is imported when it runs."""

import sys
from collections.abc import Sequence

import typer

from depthgraph.cli.check import check
from depthgraph.cli.draw import draw
from depthgraph.cli.explore import explore
from depthgraph.cli.export import export
from depthgraph.cli.hf import hf
from depthgraph.cli.import_ import import_
from depthgraph.cli.schemes import schemes
from depthgraph.cli.show import show
from depthgraph.cli.train import train
from depthgraph.errors import DepthGraphError

HELP = (
    "Which layers of a transformer run, in which order, how often.\n\n"
    "A SPEC is a text of the route language: `lft(5)`, `ilr[4,2,1,1]`, `block(2..4)x2`; `-` reads one from standard "
    "input, and for `check` one from each line. Names of it are bound after it: "
    'depthgraph show "1..2 (3..6)x r 7..8" r=4\n\n'
    "Exit status: 0, 1 for an invalid route or file, 2 for wrong usage."
)

app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
for command in (check, show, draw, schemes, explore, train, export):
    app.command()(command)
app.command("import")(import_)
app.add_typer(hf, name="hf")


def version(value: bool) -> None:
    """Print the version and stop."""
    if value:
        from depthgraph import __version__

        typer.echo(f"depthgraph {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Print the version and exit."),
) -> None:
    """Hold the options that stand before a command."""


options.__doc__ = HELP


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: `depthgraph` and `python -m depthgraph`."""
    try:
        app(args=None if arguments is None else list(arguments))
    except DepthGraphError as error:
        from depthgraph.cli.console import report, status

        report(error)
        sys.exit(status(error))
    except BrokenPipeError:
        # the reader has gone (`depthgraph schemes | head`): nothing is left to say, not even at exit
        sys.stderr.close()
        sys.exit(1)
