"""exllamav3's own parser reads a layer map as we do.

The package itself needs CUDA: importing it compiles its kernels. What turns the text into layers is one function of
a file that needs none, and is run here as it was installed; that the model runs the layers in the order of that
list was read in its source, not run.
"""

import importlib.util
from importlib.metadata import distribution

import pytest
from routes import RANDOM, sayable

import depthgraph as dg


@pytest.fixture(scope="module")
def parse():
    path = distribution("exllamav3").locate_file("exllamav3/util/misc.py")
    spec = importlib.util.spec_from_file_location("exllamav3_misc", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda text, depth: [layer + 1 for layer in module.parse_int_list(text, min_value=0, max_value=depth - 1)]


@pytest.mark.parametrize("route", sayable("exllamav3"), ids=str)
def test_a_layer_map_says_the_route(route, parse):
    assert parse(dg.formats.write("exllamav3", route), route.parameter_depth) == list(route.path)


def _random_map():
    depth = RANDOM.randint(1, 9)
    ends = ["", *map(str, range(depth)), "+0"]
    parts = [RANDOM.choice([*ends[1:], f"{RANDOM.choice(ends)} .. {RANDOM.choice(ends)}"]) for _ in range(4)]
    return depth, " , ".join(parts)


@pytest.mark.parametrize(("depth", "text"), [(32, "..15,11..15,11.."), (3, ".."), *(_random_map() for _ in range(40))])
def test_layer_maps_are_read_as_exllamav3_reads_them(depth, text, parse):
    assert list(dg.formats.read("exllamav3", text, N=depth).path) == parse(text, depth)
