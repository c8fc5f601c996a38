"""The page on notations agrees with the notations."""

import re
from pathlib import Path

from depthgraph.formats import NOTATIONS

PAGE = (Path(__file__).parent.parent / "docs" / "formats.md").read_text(encoding="utf-8")


def test_the_page_has_a_row_for_each_notation_with_its_base_and_example():
    rows = {
        re.match(r"\| `([a-z0-9-]+)`", row)[1]: row
        for row in PAGE.splitlines()
        if re.match(r"\| `[a-z0-9-]+`(:| \| `base)", row)
    }
    assert list(rows) == list(NOTATIONS)
    for name, notation in NOTATIONS.items():
        _, base, _, example, needs = [cell.strip() for cell in rows[name].strip("|").split("|")]
        assert base == str(notation.base) if notation.base is not None else "no default" in base
        assert notation.example in example.replace("`", "") or notation.inline == example.replace("`", "").replace(
            ", [2", ", then [2"
        )
        assert (needs != "no") == (notation.needs_depth or name == "exllamav3")
        assert (f"`{notation.key}`" in rows[name]) == (notation.key is not None)


def test_what_was_checked_is_on_the_page_in_the_same_versions():
    pins = (Path(__file__).parent / "peers" / "constraints.txt").read_text(encoding="utf-8")
    for project in ("x-transformers", "peft", "mergekit", "exllamav3"):
        version = re.search(rf"(?m)^{project}==(.*)$", pins)[1]
        assert f"{project} {version}" in PAGE
        assert NOTATIONS[project].checked.startswith(f"{project} {version}")
