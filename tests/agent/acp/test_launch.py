"""How an ACP agent is started."""

import json
from decimal import Decimal

from agentd.agent.acp.launch import launch
from agentd.agent.conversation import SECRET_DESCRIPTOR
from agentd.agent.engine import Assignment
from agentd.agent.foreign import Endpoint
from agentd.proxy.price import Prices

SECRET = "sk-very-secret"
OPENCODE = ("/opt/bin/opencode", "acp")
CONTENT = "OPENCODE_CONFIG_CONTENT"


def test_any_agent_is_started_as_it_is_given() -> None:
    made = launch(Assignment(1, "p"), ("gemini", "--acp"), Endpoint("http://host:1", SECRET))
    assert (made.command, dict(made.environment)) == (("gemini", "--acp"), {})
    assert launch(Assignment(1, "p", command=("kimi", "acp")), OPENCODE, None).command[0] == "kimi"


def test_opencode_is_made_to_ask_before_it_does_anything() -> None:
    made = launch(Assignment(1, "p"), OPENCODE, None)
    told = json.loads(made.environment[CONTENT])
    assert told["permission"]["*"] == "ask"
    assert not {"bash", "edit", "webfetch", "external_directory"} & set(told["permission"])
    assert "provider" not in told and "model" not in told


def test_opencode_reaches_the_supplier_and_nobody_else() -> None:
    assignment = Assignment(1, "p", model="large", supplier="acme", context=100_000)
    made = launch(assignment, OPENCODE, Endpoint("http://host:1", SECRET))
    assert made.secret == SECRET
    assert SECRET not in " ".join([*made.command, *made.environment.values()])
    told = json.loads(made.environment[CONTENT])
    assert (told["model"], told["enabled_providers"]) == ("agentd/large", ["agentd"])
    provider = told["provider"]["agentd"]
    assert provider["options"]["baseURL"] == "http://host:1/v1"
    assert provider["options"]["apiKey"] == f"{{file:/proc/self/fd/{SECRET_DESCRIPTOR}}}"
    assert provider["models"]["large"]["limit"]["context"] == 100_000


def test_opencode_asks_for_no_titles_which_its_costs_do_not_tell() -> None:
    told = json.loads(launch(Assignment(1, "p"), OPENCODE, None).environment[CONTENT])
    assert told["agent"] == {"title": {"disable": True}}


def test_opencode_knows_what_the_model_costs() -> None:
    assignment = Assignment(1, "p", model="large", supplier="acme")
    prices = Prices(input=Decimal(3), output=Decimal("15.5"))
    made = launch(assignment, OPENCODE, Endpoint("http://host:1"), prices)
    told = json.loads(made.environment[CONTENT])
    cost = told["provider"]["agentd"]["models"]["large"]["cost"]
    assert cost == {"input": 3, "output": 15.5, "cache_read": 3, "cache_write": 3}
