"""Each stage of each example config, against golden files.

After a change that is meant, `python tests/test_stages.py` writes them anew; read the difference.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given

import depthgraph as dg
from depthgraph.cli.inputs import read_one
from depthgraph.cli.stages import STAGES, graph_text, route_data, route_text
from depthgraph.draw.folded import folded_dot
from depthgraph.draw.mermaid import folded_mermaid
from depthgraph.draw.staircase_text import staircase_text
from depthgraph.operations import walk

from strategies import flow_routes

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
    assert [example.stem for example in EXAMPLES] == ["block", "huginn", "ilr", "lft", "own_layers", "where"]


FLOW = "1 save(a) mean(2 exit | 3 gate(a)) stopgrad save(b) load(a) 4 add(b)"


def test_the_listing_of_a_route_has_every_operation_of_data_flow():
    route = dg.route(FLOW)
    assert route_text(dg.parse(FLOW), route).splitlines()[1:] == [
        "       1      1      1",
        "          save(a)",
        "          branch 1",
        "       2      2      1",
        "          exit 1",
        "          branch 2",
        "       3      3      1",
        "          gate(a) 1",
        "          mean",
        "          stopgrad",
        "          save(b)",
        "          load(a)",
        "       4      4      1",
        "          add(b)",
    ]


def test_the_listing_of_a_graph_says_what_its_edges_carry():
    lines = graph_text(dg.parse(FLOW), dg.route(FLOW)).splitlines()
    assert {
        "L1.1 -> L4.1  (loaded from a)",
        "stopgrad.1 -> add.1  (register b)",
        "gate.1 -> mean.1  (branch 2)",
    } <= set(lines)
    assert len(lines) == dg.graph(dg.route(FLOW)).number_of_edges()


@given(flow_routes())
def test_the_data_of_a_route_has_every_operation(route):
    def words(rows):
        for row in rows:
            for branch in row.get("branches", ()):
                yield from words(branch)
            yield row.get("operation", "execution")

    kinds = [type(each).__name__.lower() for each in walk(route.operations)]
    assert [{"stopgradient": "stopgrad"}.get(kind, kind) for kind in kinds] == list(words(route_data(None, route)))
    assert json.loads(json.dumps(route_data(None, route)))


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for each in EXAMPLES:
        for name, content in stages(each).items():
            golden(each, name).write_text(content.rstrip() + "\n", encoding="utf-8")
