"""How Codex is started."""

import tomllib

from agentd.agent.codex.launch import launch
from agentd.agent.engine import Assignment
from agentd.agent.foreign import KEY_VARIABLE, Endpoint

SECRET = "sk-very-secret"
ENDPOINT = Endpoint('http://host:1/"odd"', SECRET)


def test_with_its_own_sign_in_nothing_is_added() -> None:
    made = launch(Assignment(1, "p"), ("codex",), None)
    assert made.command == ("codex", "app-server")
    assert not made.environment


def test_a_model_may_bring_its_own_command() -> None:
    made = launch(Assignment(1, "p", command=("/opt/codex", "--x")), ("codex",), None)
    assert made.command == ("/opt/codex", "--x", "app-server")


def test_a_supplier_is_told_in_toml_and_its_key_in_the_environment_alone() -> None:
    made = launch(Assignment(1, "p", supplier='a "name"'), ("codex",), ENDPOINT)
    settings = "\n".join(made.command[number + 1] for number in range(2, len(made.command), 2))
    told = tomllib.loads(settings)
    assert told["model_provider"] == "agentd"
    provider = told["model_providers"]["agentd"]
    assert provider["name"] == 'a "name"'
    assert provider["base_url"] == 'http://host:1/"odd"/v1'
    assert provider["env_key"] == KEY_VARIABLE
    assert told["shell_environment_policy"] == {"ignore_default_excludes": False}
    assert not any(SECRET in word for word in made.command)
    assert made.environment == {KEY_VARIABLE: SECRET}


def test_a_supplier_without_a_key_needs_none() -> None:
    made = launch(Assignment(1, "p"), ("codex",), Endpoint("http://host:1"))
    assert not made.environment
    assert not any("env_key" in word for word in made.command)
