"""The command and environment with which Codex is started."""

import tomllib

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.codex.launch import build_launch
from agentd.agent.engines.external.common import KEY_VARIABLE, ModelEndpoint

SECRET = "sk-very-secret"
ENDPOINT = ModelEndpoint('http://host:1/"odd"', SECRET)


GIVEN = (
    *("-c", "features.default_mode_request_user_input=true"),
    *("-c", "features.goals=false"),
)


def test_with_its_own_sign_in_nothing_is_added_but_that_the_model_may_ask() -> None:
    made = build_launch(TurnRequest(1, "p"), ("codex",), None)
    assert made.command == ("codex", "app-server", *GIVEN)
    assert not made.environment


def test_a_model_may_bring_its_own_command() -> None:
    made = build_launch(TurnRequest(1, "p", command=("/opt/codex", "--x")), ("codex",), None)
    assert made.command == ("/opt/codex", "--x", "app-server", *GIVEN)


def test_a_supplier_is_reported_in_toml_and_its_key_in_the_environment_alone() -> None:
    made = build_launch(TurnRequest(1, "p", supplier='a "name"'), ("codex",), ENDPOINT)
    settings = "\n".join(made.command[number + 1] for number in range(2, len(made.command), 2))
    result = tomllib.loads(settings)
    assert result["model_provider"] == "agentd"
    provider = result["model_providers"]["agentd"]
    assert provider["name"] == 'a "name"'
    assert provider["base_url"] == 'http://host:1/"odd"/v1'
    assert provider["env_key"] == KEY_VARIABLE
    assert result["shell_environment_policy"] == {"ignore_default_excludes": False}
    assert not any(SECRET in word for word in made.command)
    assert made.environment == {KEY_VARIABLE: SECRET}


def test_a_supplier_without_a_key_needs_none() -> None:
    made = build_launch(TurnRequest(1, "p"), ("codex",), ModelEndpoint("http://host:1"))
    assert not made.environment
    assert not any("env_key" in word for word in made.command)
