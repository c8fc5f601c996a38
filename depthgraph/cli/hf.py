"""`depthgraph hf`: Hugging Face models under routes. One file a command."""

import inspect
from collections.abc import Callable

import typer

from depthgraph.cli.hf_eval import eval_
from depthgraph.cli.hf_scan import scan
from depthgraph.cli.hf_show import show

HELP = (
    "Hugging Face models under routes.\n\n"
    "MODEL_DIR is a folder with config.json, weights and a tokenizer, as save_pretrained writes it. N is the number of "
    "its layers; other names of a spec are bound behind it. Nothing is trained, and nothing in the folder changes."
)

hf = typer.Typer(help=HELP, no_args_is_help=True)
COMMANDS: dict[str, Callable[..., None]] = {"show": show, "eval": eval_, "scan": scan}
for name, command in COMMANDS.items():
    # a paragraph of the docstring is one line of the help, which wraps it to the screen
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    hf.command(name, help="\n\n".join(" ".join(text.split()) for text in paragraphs))(command)
