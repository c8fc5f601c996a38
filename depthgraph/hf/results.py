"""Losses of routes on windows of a text, in a file that an interrupted run goes on from.

The file is written whole each time, so that a killed run leaves the last one and no half line. It says what its
figures depend on; figures of another model, text or setting are refused, not mixed with.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from depthgraph.errors import ConfigError
from depthgraph.whole_file import write_whole

FILE = "results.json"


@dataclass
class Done:
    """What was computed under one route.

    Attributes:
        losses: the sum of each window's losses, in nats, from the first window on.
        seconds: what each took.
    """

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass
class Results:
    """The losses so far.

    Attributes:
        path: of the file; None for results that are kept in memory alone.
        settings: what the losses depend on.
        notes: what else the file says.
        routes: by canonical text.
    """

    path: Path | None
    settings: Mapping[str, Any]
    notes: Mapping[str, Any] = field(default_factory=dict)
    routes: dict[str, Done] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path | None, settings: Mapping[str, Any], notes: Mapping[str, Any]) -> "Results":
        """Return the results in a folder, which is made; empty ones where it has none.

        Raises:
            ConfigError: `results-mismatch`; `missing-file`, for a folder that cannot be.
        """
        if folder is None:
            return cls(None, settings, notes)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot make the folder {str(folder)!r}: {error.strerror or error}"
            raise ConfigError("missing-file", message, help="name a folder that you may write to") from None
        path = folder / FILE
        if not path.exists():
            return cls(path, settings, notes)
        stored = _read(path)
        for name in sorted({*settings, *stored.settings}):
            if stored.settings.get(name) != settings.get(name):
                raise _mismatch(path, name, stored, settings, notes)
        return cls(path, settings, notes, stored.routes)

    def count(self, route: str) -> int:
        """Return how many windows are done under a route, from the first on."""
        return len(self.routes[route].losses) if route in self.routes else 0

    def put(self, route: str, first: int, losses: list[float], seconds: float) -> None:
        """Add the losses of windows.

        Args:
            route: its canonical text.
            first: the first of the windows; those before it are done.
            losses: of one or more.
            seconds: for all of them.
        """
        done = self.routes.setdefault(route, Done())
        assert first <= len(done.losses)
        done.losses[first : first + len(losses)] = losses
        done.seconds[first : first + len(losses)] = [seconds / len(losses)] * len(losses)

    def save(self) -> None:
        """Write the file.

        Raises:
            ConfigError: `missing-file`.
        """
        if self.path is None:
            return
        routes = {
            text: {"losses": [loss if math.isfinite(loss) else None for loss in done.losses], "seconds": done.seconds}
            for text, done in self.routes.items()
        }
        content = {"settings": dict(self.settings), "notes": dict(self.notes), "routes": routes}
        write_whole(self.path, json.dumps(content, allow_nan=False).encode(), ConfigError)


def _read(path: Path) -> Results:
    """Read a file of results.

    Raises:
        ConfigError: `results-mismatch`: it is none.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        routes = {
            text: Done([math.nan if loss is None else float(loss) for loss in done["losses"]], list(done["seconds"]))
            for text, done in stored["routes"].items()
        }
        return Results(path, dict(stored["settings"]), dict(stored["notes"]), routes)
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = "it is no file of results"
    raise ConfigError("results-mismatch", f"cannot go on from {path}: {reason}", help="give another folder: --out")


def _mismatch(
    path: Path, name: str, stored: Results, settings: Mapping[str, Any], notes: Mapping[str, Any]
) -> ConfigError:
    """Return the error for results of something else; hashes are not shown, but what they are of."""
    before, now = stored.settings.get(name), settings.get(name)
    if name in notes:
        what = f"of {stored.notes.get(name)} as it was, and {notes[name]} is another {name} now"
    else:
        what = f"with the {name} {before}, and {now} is asked for"
    message = f"the results in {path} were computed {what}"
    help = "ask for what was computed before, or give another folder: --out"
    return ConfigError("results-mismatch", message, help=help)
