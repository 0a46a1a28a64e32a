"""The command and environment with which an ACP agent is started."""

import json
from decimal import Decimal
from pathlib import Path

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.acp.launch import build_launch
from agentd.agent.engines.external.common import ModelEndpoint
from agentd.agent.engines.external.conversation import SECRET_DESCRIPTOR
from agentd.llm.price import Prices

SECRET = "sk-very-secret"
OPENCODE = ("/opt/bin/opencode", "acp")
CONTENT = "OPENCODE_CONFIG_CONTENT"


def test_any_agent_is_started_as_it_is_given() -> None:
    made = build_launch(
        TurnRequest(1, "p"), ("gemini", "--acp"), ModelEndpoint("http://host:1", SECRET)
    )
    assert (made.command, dict(made.environment)) == (("gemini", "--acp"), {})
    assert (
        build_launch(TurnRequest(1, "p", command=("kimi", "acp")), OPENCODE, None).command[0]
        == "kimi"
    )


def test_opencode_is_made_to_ask_before_it_does_anything() -> None:
    made = build_launch(TurnRequest(1, "p"), OPENCODE, None)
    result = json.loads(made.environment[CONTENT])
    assert result["permission"]["*"] == "ask"
    assert not {"bash", "edit", "webfetch", "external_directory"} & set(result["permission"])
    assert "provider" not in result and "model" not in result


def test_opencode_reaches_the_supplier_and_nobody_else() -> None:
    assignment = TurnRequest(1, "p", model="large", supplier="acme", context=100_000)
    made = build_launch(assignment, OPENCODE, ModelEndpoint("http://host:1", SECRET))
    assert made.secret == SECRET
    assert SECRET not in " ".join([*made.command, *made.environment.values()])
    result = json.loads(made.environment[CONTENT])
    assert (result["model"], result["enabled_providers"]) == ("agentd/large", ["agentd"])
    provider = result["provider"]["agentd"]
    assert provider["options"]["baseURL"] == "http://host:1/v1"
    assert provider["options"]["apiKey"] == f"{{file:/proc/self/fd/{SECRET_DESCRIPTOR}}}"
    assert provider["models"]["large"]["limit"]["context"] == 100_000


def test_opencode_asks_for_no_titles_which_its_costs_do_not_tell() -> None:
    result = json.loads(build_launch(TurnRequest(1, "p"), OPENCODE, None).environment[CONTENT])
    assert result["agent"] == {"title": {"disable": True}}


def test_opencode_knows_what_the_model_costs() -> None:
    assignment = TurnRequest(1, "p", model="large", supplier="acme")
    prices = Prices(input=Decimal(3), output=Decimal("15.5"))
    made = build_launch(assignment, OPENCODE, ModelEndpoint("http://host:1"), prices)
    result = json.loads(made.environment[CONTENT])
    cost = result["provider"]["agentd"]["models"]["large"]["cost"]
    assert cost == {"input": 3, "output": 15.5, "cache_read": 3, "cache_write": 3}


def test_opencode_writes_its_errors_where_they_are_received_once() -> None:
    result = ("--print-logs", "--log-level", "ERROR")
    assert build_launch(TurnRequest(1, "p"), OPENCODE, None).command == (*OPENCODE, *result)
    for own in (("opencode", "acp", "--print-logs"), ("opencode", "acp", "--log-level=DEBUG")):
        assert build_launch(TurnRequest(1, "p"), own, None).command == own


def test_opencode_has_the_plugins_that_tell_of_each_call_and_ask() -> None:
    result = json.loads(build_launch(TurnRequest(1, "p"), OPENCODE, None).environment[CONTENT])
    texts = [Path(plugin.removeprefix("file://")).read_text() for plugin in result["plugin"]]
    wanted = ["_agentd/usage", "settings.permission", "session/request_permission"]
    wanted += ["_agentd/servers"]
    assert all(word in text for word, text in zip(wanted, texts, strict=True))
