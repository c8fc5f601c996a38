"""pydantic-settings: a route is read from environment variables, .env files and command lines.

It takes a `Route`, as every dataclass, for a thing to decode as JSON first; `NoDecode` says that the text is the value.
"""

from typing import Annotated

import pytest
from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, CliApp, NoDecode, SettingsConfigDict, SettingsError

import depthgraph as dg

#: A route as the text that a person writes.
RouteText = Annotated[dg.Route, NoDecode]


class Model(BaseModel):
    """A part of the settings."""

    route: RouteText = dg.route("1..4")


class Settings(BaseSettings):
    """Settings of a run."""

    model_config = SettingsConfigDict(env_prefix="RUN_", env_nested_delimiter="__")

    route: RouteText = dg.route("1..4")
    routes: list[dg.Route] = []
    other: Annotated[dg.Route | None, NoDecode] = None
    model: Model = Model()


@pytest.mark.parametrize(
    "text", ["ilr[4,2,1,1]", "lft(4)", "1 -> 2 -> 1", "1", "1..2 mean(3 | 4)", "1 save(e) 2 add(e)"]
)
def test_an_environment_variable_is_a_route(text, monkeypatch):
    monkeypatch.setenv("RUN_ROUTE", text)
    monkeypatch.setenv("RUN_OTHER", text)
    monkeypatch.setenv("RUN_MODEL__ROUTE", text)
    settings = Settings()
    assert settings.route == settings.other == settings.model.route == dg.route(text)


def test_without_nodecode_the_variable_is_json(monkeypatch):
    class Plain(BaseSettings):
        model_config = SettingsConfigDict(env_prefix="RUN_")
        route: dg.Route

    monkeypatch.setenv("RUN_ROUTE", '"lft(4)"')
    assert Plain().route == dg.route("lft(4)")
    monkeypatch.setenv("RUN_ROUTE", "lft(4)")
    with pytest.raises(SettingsError, match="route"):
        Plain()


def test_a_class_that_decodes_nothing_takes_text_everywhere(monkeypatch):
    class Plain(BaseSettings):
        model_config = SettingsConfigDict(env_prefix="RUN_", enable_decoding=False)
        route: dg.Route

    monkeypatch.setenv("RUN_ROUTE", "lft(4)")
    assert Plain().route == dg.route("lft(4)")


def test_a_list_of_routes_is_json(monkeypatch):
    monkeypatch.setenv("RUN_ROUTES", '["ilr[2,1]", "(1..2)x2"]')
    assert Settings().routes == [dg.route("ilr[2,1]"), dg.route("(1..2)x2")]


def test_a_dotenv_file_gives_a_route(tmp_path):
    (tmp_path / ".env").write_text('RUN_ROUTE="lft(4)"\nRUN_OTHER=ilr[4,2,1,1]\n', encoding="utf-8")
    settings = Settings(_env_file=tmp_path / ".env")
    assert (settings.route, settings.other) == (dg.route("lft(4)"), dg.route("ilr[4,2,1,1]"))


@pytest.mark.parametrize("text", ["lft(4)", "ilr[4,2,1,1]", "1 -> 2 -> 1"])
def test_a_command_line_gives_a_route(text):
    settings = CliApp.run(Settings, ["--route", text, "--model.route", text])
    assert settings.route == settings.model.route == dg.route(text)


def test_settings_are_written_as_text_and_read_again():
    settings = Settings(route="lft(4)", routes=["(1..2)x2"])
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


def test_a_wrong_route_is_a_validation_error_with_its_place(monkeypatch):
    monkeypatch.setenv("RUN_ROUTE", "1..4 (2..3)x")
    with pytest.raises(ValidationError, match=r"(?s)route.*1\.\.4 \(2\.\.3\)x"):
        Settings()
