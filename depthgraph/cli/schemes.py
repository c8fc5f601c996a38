"""`depthgraph schemes`: the catalogue of named routes."""

from pathlib import Path
from typing import Annotated

import typer

from depthgraph.cli.console import console, data, data_json, plain, show_table
from depthgraph.cli.inputs import JsonOption
from depthgraph.errors import ConfigError, meant
from depthgraph.schemes import Published, Scheme, catalogue, library

NameArgument = Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False, help="One scheme in full.")]
PublishedOption = Annotated[bool, typer.Option("--published", help="The published routes instead, each with N and E.")]
DrawOption = Annotated[
    Path | None,
    typer.Option(
        "--draw", metavar="DIR", help="Draw the published routes: DIR/gallery.md, and an SVG for each in DIR/gallery."
    ),
]


def schemes(
    name: NameArgument = None,
    published: PublishedOption = False,
    draw: DrawOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the named families of routes, with their execution counts and sources; or the published routes."""
    if name is not None and (published or draw):
        message = f"`{name}` is one scheme; --published and --draw are for all routes"
        raise ConfigError("wrong-usage", message, help="leave NAME out, or the option")
    if draw is not None:
        _draw(draw, as_json)
    elif published:
        _show_published(as_json)
    else:
        _show(name, as_json)


def _show(name: str | None, as_json: bool) -> None:
    known = library()
    if name is not None and name not in known:
        help = meant(name, known, f"the schemes are {', '.join(known)}")
        raise ConfigError("wrong-usage", f"there is no scheme `{name}`", help=help)
    chosen = list(known.values()) if name is None else [known[name]]
    if as_json:
        data_json([_as_data(scheme) for scheme in chosen])
    elif name is None:
        _list(chosen)
    else:
        _full(chosen[0])


def _list(chosen: list[Scheme]) -> None:
    rows = ((each.signature, each.executions, each.summary.partition(":")[0], each.origin) for each in chosen)
    show_table(["scheme", "E", "what it runs", "source"], rows)


def _full(scheme: Scheme) -> None:
    from depthgraph.draw.staircase_text import staircase_text
    from depthgraph.expand import route_from_text

    data(f"{scheme.text}\n\n{scheme.summary}\n\nE = {scheme.executions}\nsource: {scheme.origin}\n")
    picture = staircase_text(route_from_text(scheme.example), width=console().width, ascii=plain())
    data(f"{scheme.example}:\n{picture}")


def _show_published(as_json: bool) -> None:
    if as_json:
        data_json([_row(each) for each in catalogue()])
        return
    rows = ((f"{each.title}", each.text, f"{each.parameter_depth} → {each.execution_depth}") for each in catalogue())
    show_table(["published route", "spec", "N → E"], rows)


def _draw(folder: Path, as_json: bool) -> None:
    """Write the pictures first and the page last, so that a page shows pictures that are there."""
    from depthgraph.draw import gallery
    from depthgraph.expand import route_from_text
    from depthgraph.whole_file import write_whole

    beside = folder / "gallery"
    beside.mkdir(parents=True, exist_ok=True)
    entries = [(each.title, each.origin, each.text, route_from_text(each.text)) for each in catalogue()]
    pictures = gallery(entries, beside)
    page = folder / f"{beside.name}.md"
    write_whole(page, gallery_page(pictures).encode(), ConfigError)
    if as_json:
        data_json({"page": str(page), "pictures": [str(picture) for picture in pictures]})
    else:
        data(f"{page}, and {len(pictures)} pictures in {beside}")


def gallery_page(pictures: list[Path]) -> str:
    """Return the Markdown page that shows the pictures of the published routes, which stand in a folder beside it."""
    lines = ["# Published routes", "", INTRODUCTION, ""]
    for each, picture in zip(catalogue(), pictures, strict=True):
        lines += [
            f"## {each.title}",
            "",
            f"![{each.title}]({picture.parent.name}/{picture.name})",
            "",
            "```",
            each.text,
            "```",
            "",
        ]
        facts = f"N = {each.parameter_depth}, E = {each.execution_depth}. Source: {each.origin}."
        lines += [f"{facts} {each.note[:1].upper()}{each.note[1:]}{'.' * bool(each.note)}".rstrip(), ""]
    return "\n".join(lines)


INTRODUCTION = (
    "Every route is one line of `grammars/catalogue.route`. A test compiles it over small layers and compares it, to "
    "the last bit, with a plain Python transcription of its source. A row of a picture is a layer, a column an "
    "execution. This page is what `depthgraph schemes --draw docs` writes."
)


def _row(each: Published) -> dict[str, object]:
    return {
        "title": each.title,
        "spec": each.text,
        "parameter_depth": each.parameter_depth,
        "execution_depth": each.execution_depth,
        "source": each.origin,
        "note": each.note,
    }


def _as_data(scheme: Scheme) -> dict[str, object]:
    return {
        "name": scheme.definition.name,
        "parameters": list(scheme.definition.parameters),
        "definition": scheme.text,
        "summary": scheme.summary,
        "executions": scheme.executions,
        "source": scheme.origin,
        "example": scheme.example,
    }
