"""Files and folders that appear whole or not at all: written beside their place, then moved there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path

from depthgraph.errors import DepthGraphError


@contextmanager
def refusals(target: Path, kind: type[DepthGraphError]) -> Iterator[None]:
    """Turn what the system says about a file into our error `missing-file`; a name with a NUL is a ValueError there."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        help = "name a file in a folder that you may write to"
        raise kind("missing-file", f"cannot write {str(target)!r}: {reason}", help=help) from None


def check_place(target: Path, kind: type[DepthGraphError]) -> None:
    """Refuse what can be known before anything is made to be written there.

    Raises:
        DepthGraphError: `missing-file`, of the caller's kind: it is a folder, or is in none.
    """
    with refusals(target, kind):
        if target.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")
        if not target.parent.is_dir():
            message = f"the folder {target.parent} does not exist, so {target.name} cannot be saved in it"
            raise kind("missing-file", message, help="make the folder first")


def write_whole(target: Path, content: bytes, kind: type[DepthGraphError]) -> None:
    """Write a file, so that a reader finds the old one or the new one and never a part.

    Raises:
        DepthGraphError: `missing-file`, of the caller's kind: it cannot be written.
    """
    with refusals(target, kind):
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            aside.write_bytes(content)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)


def check_new_folder(target: Path, kind: type[DepthGraphError]) -> None:
    """Refuse a folder that has something in it, before anything is made to be written there.

    Raises:
        DepthGraphError: of the caller's kind: `existing-files`; `missing-file`, for a name that none can have.
    """
    with refusals(target, kind):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            message = f"{str(target)!r} exists already, and nothing is written over"
            raise kind("existing-files", message, help="name a new folder, or an empty one")


@contextmanager
def whole_folder(target: Path, kind: type[DepthGraphError]) -> Iterator[Path]:
    """Give a new folder to write to, which becomes `target` at the end; after an error nothing is left of it.

    Raises:
        DepthGraphError: of the caller's kind: `missing-file`, it cannot be written; `existing-files`, it is a file, or
            a folder with something in it.
    """
    check_new_folder(target, kind)
    with refusals(target, kind):
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        aside.mkdir(parents=True)
    try:
        yield aside
        with refusals(target, kind):
            aside.replace(target)  # over an empty folder too
    finally:
        shutil.rmtree(aside, ignore_errors=True)
