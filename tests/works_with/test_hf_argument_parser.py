"""HfArgumentParser, transformers' command line: routes are text, and a list of them is as many words as the shell gives."""

import json
from dataclasses import dataclass, field

import pytest
import yaml
from transformers import HfArgumentParser, TrainingArguments
from trl import TrlParser

import depthgraph as dg

ROUTES = ["ilr[4,2,1,1]", "lft(4)", "1 2 -> 3 4", "block(2..3)x2", "1..2 save(e) (mix(e) 3)x2 4", "mean(1 | 2) 3..4"]


@dataclass
class RouteArguments:
    """What a script that re-routes a model asks for."""

    route: str = field(default="...", metadata={"help": "the order in which the layers run, e.g. block(2..3)x2"})
    routes: list[str] = field(default_factory=list, metadata={"help": "routes to compare"})
    depth: int = 4

    def __post_init__(self):
        self.program = dg.route(self.route, N=self.depth)


def parsed(*words):
    (arguments,) = HfArgumentParser(RouteArguments).parse_args_into_dataclasses(list(words))
    return arguments


@pytest.mark.parametrize("text", ROUTES)
def test_a_route_is_one_word_of_the_command_line(text):
    arguments = parsed("--route", text)
    assert arguments.route == text
    assert arguments.program == dg.route(text, N=4)
    assert parsed(f"--route={text}").program == arguments.program


def test_a_list_of_routes_is_as_many_words():
    assert parsed("--routes", *ROUTES, "--depth", "4").routes == ROUTES


def test_the_help_shows_the_default_and_the_help(capsys):
    with pytest.raises(SystemExit, match="0"):
        parsed("--help")
    shown = capsys.readouterr().out
    assert "block(2..3)x2" in shown
    assert "--routes" in shown


def test_the_arguments_stand_beside_those_of_the_trainer(tmp_path):
    parser = HfArgumentParser((RouteArguments, TrainingArguments))
    words = ["--output_dir", str(tmp_path), "--route", "lft(4)", "--learning_rate", "0.1", "--use_cpu", "True"]
    ours, theirs = parser.parse_args_into_dataclasses(words)
    assert ours.program.path == (1, 2, 1, 2, 3, 2, 3, 4)
    assert theirs.learning_rate == 0.1


def test_a_file_of_json_or_yaml_or_a_dict_says_the_same(tmp_path):
    config = {"route": "lft(4)", "routes": ROUTES}
    (tmp_path / "run.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    parser = HfArgumentParser(RouteArguments)
    (expected,) = parser.parse_dict(config)
    assert expected.routes == ROUTES
    assert parser.parse_json_file(str(tmp_path / "run.json")) == (expected,)
    assert parser.parse_yaml_file(str(tmp_path / "run.yaml")) == (expected,)


def test_a_wrong_route_is_refused_where_it_is_parsed():
    with pytest.raises(dg.SpecError, match="layer 9"):
        parsed("--route", "1..4 9")


def test_trls_parser_takes_the_route_from_its_config_file_and_the_command_line_wins(tmp_path):
    (tmp_path / "run.yaml").write_text("route: ilr[4,2,1,1]\nroutes: [lft(4), '1..4']\n", encoding="utf-8")
    parser = TrlParser(RouteArguments)
    (said,) = parser.parse_args_and_config(["--config", str(tmp_path / "run.yaml")])
    (changed,) = parser.parse_args_and_config(["--config", str(tmp_path / "run.yaml"), "--route", "(1..4)x2"])
    assert (said.route, said.routes) == ("ilr[4,2,1,1]", ["lft(4)", "1..4"])
    assert changed.program == dg.route("(1..4)x2")
