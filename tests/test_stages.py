"""Each stage of each example config, against golden files.

After a change that is meant, `python tests/test_stages.py` writes them anew; read the difference.
"""

from pathlib import Path

import pytest

from depthgraph.cli.inputs import read_one
from depthgraph.cli.stages import STAGES
from depthgraph.draw.folded import folded_dot
from depthgraph.draw.mermaid import folded_mermaid
from depthgraph.draw.staircase_text import staircase_text

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.yaml"))
GOLDEN = Path(__file__).parent / "golden" / "stages"


def stages(example):
    """Return stage → its text, from the spec to the generated code and the pictures that need no Graphviz."""
    spec, route = read_one(str(example)).route({})
    texts = {name: as_text(spec, route) for name, (as_text, _) in STAGES.items()}
    return {
        "spec": str(spec),
        **texts,
        "canonical": str(route),
        "dot": folded_dot(route, None),
        "mermaid": folded_mermaid(route, None),
        "staircase": staircase_text(route),
    }


def golden(example, stage):
    return GOLDEN / f"{example.stem}.{stage}.txt"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_every_stage_is_as_it_was(example):
    for stage, text in stages(example).items():
        assert golden(example, stage).read_text(encoding="utf-8").rstrip() == text.rstrip(), stage


def test_the_examples_are_those_of_the_readme():
    assert [example.stem for example in EXAMPLES] == ["block", "ilr", "lft", "own_layers", "where"]


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for each in EXAMPLES:
        for name, content in stages(each).items():
            golden(each, name).write_text(content.rstrip() + "\n", encoding="utf-8")
