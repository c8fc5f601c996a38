"""The log of a run: a JSON object a line, only ever appended to."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Log:
    """Appends to a log file.

    Attributes:
        path: the file, made when the first line is written.
    """

    path: Path

    def write(self, event: str, **values: object) -> None:
        """Append one line."""
        line = json.dumps({"event": event, **values}, allow_nan=False)
        with self.path.open("ab+") as file:
            # a killed run can leave half a line: what follows starts on a new one
            torn = file.tell() > 0 and not _ends_a_line(self.path)
            file.write(f"{chr(10) if torn else ''}{line}\n".encode())


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def read_log(path: str | Path, event: str | None = None) -> list[Record]:
    """Return what happened in a run, in order: steps that a resumed run did again stand once.

    Args:
        path: log.jsonl.
        event: only records of this kind: `start`, `step`, `validation`, `checkpoint`, `resume`, `end`, `stop`.
    """
    records: list[Record] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # half a line, from a killed run
            continue
        if record["event"] == "resume":
            records = [kept for kept in records if kept.get("step", 0) <= record["step"]]
        records.append(record)
    return [record for record in records if event in (None, record["event"])]
