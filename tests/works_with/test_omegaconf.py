"""OmegaConf: a route is a plain string in it, and may be put together from others."""

from dataclasses import dataclass, field

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError
from yaml import YAMLError

import depthgraph as dg
from depthgraph.config import TrainConfig

ROUTES = [
    "ilr[4,2,1,1]",
    "lft(4)",
    "(1..4)x2",
    "1..2 save(e) (mix(e) 3)x2 4",
    "1..2 mean(3 | 4)",
    "1 -> 2 → 3 4",
    "1 ... 4",
]


@dataclass
class Model:
    """Settings with a route."""

    route: str = "..."


@dataclass
class App:
    """A config that says a route once."""

    model: Model = field(default_factory=Model)
    route: str = "${model.route}"


@pytest.mark.parametrize("text", ROUTES)
def test_an_interpolated_route_is_the_route(text):
    config = OmegaConf.create(f"model:\n  route: {text}\nroute: ${{model.route}}\n")
    assert config.route == text
    assert dg.route(config.route, N=4) == dg.route(text, N=4)


def test_a_route_is_put_together_from_parts_of_the_config():
    config = OmegaConf.create("core: lft(3..5)\nr: 4\nroute: 1..2 (${core})x${r} 6\n")
    assert dg.route(config.route) == dg.route("1..2 (lft(3..5))x4 6")


def test_a_name_may_stay_open_and_be_bound_from_the_config():
    config = OmegaConf.create("bindings: {r: 4}\nroute: 1..2 (3..5)x r 6\n")
    assert dg.route(config.route, config.bindings) == dg.route("1..2 (3..5)x4 6")


@pytest.mark.parametrize("text", ROUTES)
def test_a_route_on_the_command_line_of_omegaconf_needs_no_quotes(text):
    config = OmegaConf.merge(OmegaConf.structured(App), OmegaConf.from_cli([f"model.route={text}"]))
    assert config.route == text


def test_a_route_that_begins_with_a_fill_needs_quotes_on_the_command_line_of_omegaconf():
    # to YAML, three dots at the very beginning end a document; as a value of a file they are a text
    assert OmegaConf.create("route: ... (2..3)x2 ...\n").route == "... (2..3)x2 ..."
    assert OmegaConf.from_cli(['route="... (2..3)x2 ..."']).route == "... (2..3)x2 ..."
    with pytest.raises(YAMLError):
        OmegaConf.from_cli(["route=... (2..3)x2 ..."])


def test_a_field_that_is_declared_as_text_keeps_a_lone_number():
    untyped = OmegaConf.create({"model": {"route": 1}})
    assert OmegaConf.merge(OmegaConf.structured(App), untyped).route == "1"
    with pytest.raises(dg.SpecError, match="found int"):
        dg.route(untyped.model.route)


def test_a_list_of_routes_is_no_route():
    with pytest.raises(ValidationError):
        OmegaConf.merge(OmegaConf.structured(App), OmegaConf.create({"model": {"route": ["1", "2"]}}))


@pytest.mark.parametrize("text", ROUTES)
def test_a_canonical_text_comes_back_from_a_file(text, tmp_path):
    route = dg.route(text, N=4)
    OmegaConf.save(OmegaConf.create({"route": str(route)}), tmp_path / "config.yaml")
    assert dg.route(OmegaConf.load(tmp_path / "config.yaml").route, N=4) == route


def test_a_config_that_omegaconf_made_trains(tmp_path):
    text = "core: (2..5)\nmodel: {preset: lft-2.5m, route: '1 ${core}x r 6'}\nbindings: {r: 2}\n"
    rest = {"batch": 1, "length": 8, "steps": 1, "out": str(tmp_path / "run")}
    config = OmegaConf.to_container(OmegaConf.merge(OmegaConf.create(text), rest), resolve=True)
    config.pop("core")
    assert TrainConfig.model_validate(config).route == dg.route("1 (2..5)x2 6")
