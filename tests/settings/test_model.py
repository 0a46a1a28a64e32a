"""The nearest source wins; what is no hash of a key is refused at start with a reason."""

import re
from typing import Any

import msgspec
import pytest

from agentd.auth.password import make_decoy_hash
from agentd.core.errors import ConfigError
from agentd.settings.model import (
    DOTENV_VARIABLES,
    Settings,
    collect_overrides,
    explain_invalid_hash,
    get_administrator,
    iter_documented,
    resolve_settings,
)
from agentd.settings.status import RESTART
from tests.support.paths import REPOSITORY

SOURCES = ("options", "environ", "dotenv", "file")
HASH = "0123456789abcdef" * 4
README = (REPOSITORY / "config" / "README.md").read_text()


def resolve(options=None, environ=None, dotenv=None, file=None) -> Settings:
    return resolve_settings(
        collect_overrides(options or {}, environ or {}, dotenv or {}),
        file or Settings(),
        "agentd.yml",
    )


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("AGENTD_HOST", "host"),
        ("AGENTD_STATE", "state"),
        ("AGENTD_WORKSPACE", "workspace"),
        ("AGENT_API_KEY", "agent_api_key"),
        ("PROXY_APP_HASH", "proxy_app_hash"),
    ],
)
def test_the_nearest_source_wins(variable, name):
    said = {source: f"{number}" * 64 for number, source in enumerate(SOURCES)}
    sources = {
        "options": {name: said["options"]},
        "environ": {variable: said["environ"]},
        "dotenv": {variable: said["dotenv"]},
        "file": Settings(**{name: said["file"]}),
    }
    if variable not in DOTENV_VARIABLES:
        assert getattr(resolve(dotenv=sources.pop("dotenv")), name) == getattr(Settings(), name)
    while sources:
        nearest = next(iter(sources))
        assert getattr(resolve(**sources), name) == said[nearest]
        del sources[nearest]
    assert getattr(resolve(), name) == getattr(Settings(), name)


def test_an_empty_value_counts_as_not_given():
    variable = "AGENT_API_KEY"
    settings = resolve({"agent_api_key": ""}, {variable: ""}, {variable: "c" * 64})
    assert settings.agent_api_key == "c" * 64


def test_a_port_is_a_number():
    assert resolve(environ={"AGENTD_PORT": "0"}).port == 0
    for wrong in ("65536", "-1", "x", "٣", "8_0", "80 "):
        with pytest.raises(ConfigError, match="AGENTD_PORT: is not a port"):
            resolve(environ={"AGENTD_PORT": wrong})
        with pytest.raises(ConfigError, match="--port: "):
            resolve(options={"port": wrong})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (HASH.upper(), "upper case"),
        (HASH + "\n", "white space or a line break"),
        (" " + HASH, "white space or a line break"),
        (HASH[:-1], "has 63 characters"),
        (HASH + "0", "has 65 characters"),
        ("g" + HASH[1:], "other than 0-9 and a-f"),
        ("٣" + HASH[1:], "other than 0-9 and a-f"),
        ("agent_" + "Ab3" * 10 + "xy", "looks like a key itself"),
        ("sha256:" + HASH, "has 71 characters"),
    ],
)
@pytest.mark.parametrize("source", ["options", "environ", "dotenv", "file"])
def test_what_is_no_hash_is_refused_at_start_with_a_reason_and_never_repeated(value, why, source):
    given_ = {
        "options": {"options": {"agent_api_key": value}},
        "environ": {"environ": {"AGENT_API_KEY": value}},
        "dotenv": {"dotenv": {"AGENT_API_KEY": value}},
        "file": {"file": Settings(agent_api_key=value)},
    }[source]
    with pytest.raises(ConfigError) as caught:
        resolve(**given_)
    (problem,) = caught.value.problems
    assert why in problem.what
    assert value.strip() not in str(problem)


def test_a_hash_is_a_hash():
    assert explain_invalid_hash(HASH) == ""
    assert resolve(environ={"AGENT_API_KEY": HASH}).agent_api_key == HASH


def test_every_mistake_is_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        resolve({"port": "x"}, {"AGENT_API_KEY": "y"})
    assert [problem.where for problem in caught.value.problems] == ["--port", "AGENT_API_KEY"]


PASSWORD = make_decoy_hash(None)


def test_the_environment_names_an_administrator():
    environ = {"AGENTD_ADMIN_USER": "ada", "AGENTD_ADMIN_PASSWORD_HASH": PASSWORD}
    found = get_administrator(resolve(environ=environ))
    assert found
    assert (found.name, found.role, found.password) == ("ada", "administrator", PASSWORD)
    assert get_administrator(resolve()) is None


@pytest.mark.parametrize(
    ("name", "kept", "result"),
    [
        ("ada", "", "admin_password_hash: is missing"),
        ("", PASSWORD, "admin_user: is missing"),
        ("a b", PASSWORD, "AGENTD_ADMIN_USER: admin_user: found no name"),
        ("ada", "my own password", "AGENTD_ADMIN_PASSWORD_HASH: .* is no hash"),
        ("ada", PASSWORD.replace("ln=15", "ln=1"), "is no hash of a password"),
    ],
)
def test_half_an_administrator_is_refused_at_start_and_no_password_reported(name, kept, result):
    environ = {"AGENTD_ADMIN_USER": name, "AGENTD_ADMIN_PASSWORD_HASH": kept}
    with pytest.raises(ConfigError, match=result) as caught:
        resolve(environ=environ)
    assert not kept or kept not in caught.value.message


def test_the_readme_shows_each_setting_with_its_default_and_what_it_does():
    table = README.split("| setting | default | what it does |\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| `(.*)` \| (.*) \|$", table, re.MULTILINE)
    shown = {name: (msgspec.yaml.decode(default, type=Any), said) for name, default, said in rows}
    assert shown == {
        name: (list(default) if isinstance(default, tuple) else default, said)
        for name, default, said in iter_documented()
    }


def test_the_readme_names_the_settings_that_wait_for_the_next_start():
    [listed] = re.findall(r"Only these wait for the next start:([^.]*)\.", README)
    assert set(re.findall(r"`(\w+)`", listed)) == RESTART


def test_every_setting_is_documented():
    assert [name for name, _, _ in iter_documented()] == list(Settings.__struct_fields__)
    assert all(description.endswith(".") for _, _, description in iter_documented())
