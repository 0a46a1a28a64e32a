"""What a channel's supplier offers, and models that are created from it, managed by a program."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.catalogue.samples import write_catalogue
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.supplier.steps import Answer, Say
from tests.support.daemon import Client, Serving

MODELS = "/api/agent/models"


def get_path(channel: str) -> str:
    return f"/api/agent/channels/{channel}/models"


@pytest.fixture
def offering(setup: GatewaySetup) -> None:
    """A supplier with three models, of which the catalogue knows two."""
    write_catalogue(setup.layout, re.escape(setup.supplier.url))
    setup.supplier.models = ["scripted-large", "scripted-small", "unheard-of"]


@pytest.mark.parametrize("channel", ["chat", "responses", "messages", "gemini"])
def test_the_suppliers_own_list_is_shown_in_every_dialect(
    offering: None, manager: Client, setup: GatewaySetup, channel: str
) -> None:
    setup.supplier.pages = 2
    found = manager.get(get_path(channel))
    assert found.status == 200, found.body
    assert (found["channel"], found["complete"]) == (channel, True)
    assert [one["model"] for one in found["items"]] == setup.supplier.models
    assert [one["models"] for one in found["items"]] == [[f"by-{channel}"], [], []]
    large, _, other = found["items"]
    assert (large["listed"]["prices"]["input"], large["listed"]["context"]) == (2.0, 200_000)
    assert other["listed"] is None


def test_what_the_supplier_says_of_a_models_size_is_shown(
    offering: None, manager: Client, setup: GatewaySetup
) -> None:
    setup.supplier.about = {
        "scripted-large": {
            "max_input_tokens": 300_000,
            "max_tokens": 64_000,
            "inputTokenLimit": 300_000,
            "outputTokenLimit": 64_000,
        },
        "scripted-small": {"context_length": "many"},
        "unheard-of": {"supportedGenerationMethods": ["embedContent"]},
    }
    for channel in ("messages", "gemini", "chat"):
        found = manager.get(get_path(channel))["items"]
        assert (found[0]["context"], found[0]["maxOutput"]) == (300_000, 64_000)
        assert found[1]["context"] is None
    assert [one["model"] for one in manager.get(get_path("gemini"))["items"]] == [
        "scripted-large",
        "scripted-small",
    ]


def test_picked_models_are_created_with_their_prices_and_undone(
    offering: None, manager: Client, setup: GatewaySetup
) -> None:
    picked = {
        "models": [
            {"model": "scripted-small"},
            {"model": "scripted-large", "name": "big", "context": 100_000, "maxOutput": 5000},
            {"model": "unheard-of"},
        ]
    }
    tried = manager.post(f"{get_path('chat')}?dry_run=true", picked)
    assert tried.status == 201, tried.body
    assert manager.get(f"{MODELS}/big").status == 404
    made = manager.post(get_path("chat"), picked)
    assert made.json() == tried.json()
    small, big, other = made["items"]
    assert (small["name"], small["prices"]["input"]) == ("scripted-small", 0.5)
    assert (small["routes"][0]["channel"], small["routes"][0]["model"]) == ("chat", "")
    assert (big["name"], big["routes"][0]["model"]) == ("big", "scripted-large")
    assert (big["context"], big["maxOutput"]) == (100_000, 5000)
    assert other["prices"] is None
    assert manager.get(f"{MODELS}/big").json() == big
    here = [one["models"] for one in manager.get(get_path("chat"))["items"]]
    assert here == [["by-chat", "big"], ["scripted-small"], ["unheard-of"]]
    (change,) = manager.get("/api/agent/changes")["items"]
    assert change["action"] == "create"
    assert change["name"] == "scripted-small, big, unheard-of"
    assert manager.send("POST", f"/api/agent/changes/{change['number']}/undo").status == 200
    assert len(manager.get(MODELS)["items"]) == 4


def test_a_created_model_answers(offering: None, manager: Client, setup: GatewaySetup) -> None:
    setup.supplier.answer_always(Answer((Say("Hello."),)))
    manager.post(get_path("chat"), {"models": [{"model": "scripted-small"}]})
    check = manager.post(f"{MODELS}/scripted-small/check?paid=true", None)
    assert check["ok"], check.body
    assert setup.supplier.requests[-1].body["model"] == "scripted-small"


def test_prices_of_the_catalogue_can_be_left_out(offering: None, manager: Client) -> None:
    picked = {"models": [{"model": "scripted-small"}], "cataloguePrices": False}
    (made,) = manager.post(get_path("chat"), picked)["items"]
    assert made["prices"] is None


@pytest.mark.parametrize(
    ("models", "status"),
    [
        ([{"model": "scripted-small"}, {"model": "x", "name": "by-chat"}], 409),
        ([{"model": "scripted-small"}, {"model": "x", "name": "scripted-small"}], 400),
        ([{"model": "scripted-small"}, {"model": "not a name"}], 400),
        ([], 400),
    ],
)
def test_of_models_that_cannot_all_be_created_none_is(
    setup: GatewaySetup, manager: Client, models: list[dict[str, str]], status: int
) -> None:
    before = Path(setup.layout.models).read_text()
    assert manager.post(get_path("chat"), {"models": models}).status == status
    assert Path(setup.layout.models).read_text() == before
    assert manager.get("/api/agent/changes")["items"] == []


def test_without_a_catalogue_models_are_created_without_prices(manager: Client) -> None:
    (made,) = manager.post(get_path("chat"), {"models": [{"model": "scripted-small"}]})["items"]
    assert made["prices"] is None


def test_a_supplier_that_cannot_be_asked_is_told_without_its_key(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], manager: Client
) -> None:
    manager.post(
        "/api/agent/channels",
        {
            "name": "nowhere",
            "dialects": ["anthropic"],
            "url": "http://127.0.0.1:9",
            "local": True,
            "key": SECRET,
        },
    )
    reply = manager.get(get_path("nowhere"))
    assert (reply.status, reply["error"]) == (503, "Unavailable")
    assert 'channel "nowhere" cannot be listed' in reply["message"]
    assert SECRET.encode() not in reply.body
    assert manager.get(get_path("chatt")).status == 404
    assert manager.post(get_path("chatt"), {"models": [{"model": "x"}]}).status == 404
