"""The catalogue of published routes: every row counts right, and runs what a plain transcription of its source runs."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transcriptions import TRANSCRIPTIONS

import depthgraph as dg
from depthgraph.cli.schemes import schemes as command

from layers import Residual

WIDTH = 6
ROWS = dg.catalogue()
IDS = [row.title for row in ROWS]


def test_every_row_has_its_transcription():
    assert list(TRANSCRIPTIONS) == IDS
    assert len({row.title for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_row_counts_right_and_says_where_it_comes_from(row):
    route = dg.route(row.text)
    assert (route.parameter_depth, route.execution_depth) == (row.parameter_depth, row.execution_depth)
    assert row.origin
    assert dg.route(str(route), N=route.parameter_depth) == route


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_compiled_route_computes_what_the_source_computes(row):
    torch.manual_seed(0)
    layers = [Residual(WIDTH) for _ in range(row.parameter_depth)]
    model = dg.compile(dg.route(row.text), layers, width=WIDTH)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("layers."):
                parameter.add_(torch.randn(parameter.shape) / 4)

    def mix(number, h, a):
        return nn.functional.linear(torch.cat((h, a), -1), getattr(model, f"mix_{number}").weight)

    def gate(number, h, a):
        return h + getattr(model, f"gate_{number}").weight * a

    h = torch.randn(2, 3, WIDTH)
    expected = TRANSCRIPTIONS[row.title](layers, h, mix, gate)
    found = model(h)
    if not isinstance(expected, tuple):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        return
    assert torch.equal(found[0], expected[0])
    assert len(found[1]) == len(expected[1])
    assert all(map(torch.equal, found[1], expected[1]))


DOCS = Path(__file__).parent.parent / "docs"


def test_the_gallery_in_the_docs_is_what_the_command_writes(tmp_path):
    command(draw=tmp_path)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(DOCS): path.read_bytes() for path in [DOCS / "gallery.md", *(DOCS / "gallery").iterdir()]}
    assert written == kept, "run: depthgraph schemes --draw docs"
    assert len(written) == len(ROWS) + 1
