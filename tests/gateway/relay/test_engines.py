"""The agent's own engines call their models through the gateway of their daemon."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.storage.layout import Layout
from tests.agent.served import ServedAgent
from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Call, Say, Think, Tokens

THOUGHT = {
    "by-messages": ('"signature"', '"cache_control"'),
    "by-responses": ('"encrypted_content"', '"prompt_cache_key"'),
}
"""What a supplier of each dialect must get: the sealed thinking, and what is to be cached."""

USED = Tokens(input=1000, cached=100, output=200)


def test_an_engine_reaches_its_model_through_the_gateway_and_the_sums_agree(
    setup: GatewaySetup, tmp_path: Path
) -> None:
    models = {
        "proxy": setup.models,
        "models": [
            {"name": "m", "engine": "native", "supplier": "agentd", "model": "by-messages"},
        ],
    }
    served = ServedAgent(tmp_path, models)
    setup.layout = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    setup.write()
    Path(setup.layout.models).write_text(setup.encode_yaml(models))
    (served.workspace / "notes.txt").write_text("hello\n")
    setup.supplier.script(
        Answer((Call("read_file", {"path": "notes.txt"}),), USED),
        Answer((Say("It says hello."),), USED),
    )
    with served.running() as caller:
        chat = caller.create_chat("What do the notes say?", model="m")
        said = caller.wait_until_idle(chat)
        cost = Decimal(str(caller.client.status(chat)["totalCost"]))
    assert said[-1]["content"] == "It says hello."
    entries = setup.wait_for_records(2)
    assert [entry.key_name for entry in entries] == ["the agent's engines"] * 2
    assert sum(entry.cost for entry in entries) == cost > 0


@pytest.mark.parametrize("through", THOUGHT)
def test_the_gateway_is_spoken_to_in_the_dialect_of_the_models_channel(
    setup: GatewaySetup, tmp_path: Path, through: str
) -> None:
    model = {"name": "m", "engine": "native", "supplier": "agentd", "model": through}
    models = {"proxy": setup.models, "models": [{**model, "web_search": True}]}
    served = ServedAgent(tmp_path, models)
    setup.layout = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    setup.write()
    Path(setup.layout.models).write_text(setup.encode_yaml(models))
    setup.supplier.script(
        [Think("Look."), Call("list_files", {})],
        Say("Nothing."),
    )
    with served.running() as caller:
        chat = caller.create_chat("What is here?", model="m")
        said = caller.wait_until_idle(chat)
    assert said[-1]["content"] == "Nothing."
    first, second = (json.dumps(request.body) for request in setup.supplier.requests)
    sealed, cached = THOUGHT[through]
    assert cached in first
    assert '"type": "web_search' in first
    assert sealed in second
    assert "c2lnbmVk" in second
