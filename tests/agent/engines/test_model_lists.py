"""The models of programs: pages, hidden ones, refusals and lines that mean nothing."""

import json
from typing import Any

import pytest

from agentd.agent.engines.acp.model_list import AcpModelListing
from agentd.agent.engines.acp.session import list_offered_models
from agentd.agent.engines.claude_code.model_list import ClaudeModelListing
from agentd.agent.engines.codex.model_list import CodexModelListing
from agentd.agent.engines.external.conversation import SendLine, TurnDone
from agentd.agent.engines.external.model_list import MOST_MODELS, ModelListing


def answer(listing: ModelListing, **message: Any) -> list[Any]:
    """Give the listing a message; return what it says to it."""
    return list(listing.on_line(json.dumps(message).encode()))


def get_id(step: Any) -> Any:
    """Return the id of a request that was sent."""
    assert isinstance(step, SendLine)
    return json.loads(step.line).get("id")


def test_codex_is_asked_for_all_pages() -> None:
    listing = CodexModelListing()
    (first,) = listing.on_start()
    _, second = answer(listing, id=get_id(first), result={})
    page = [{"model": "a", "hidden": False}, {"model": "b", "hidden": True}, {"id": "c"}]
    (third,) = answer(listing, id=get_id(second), result={"data": page, "nextCursor": "x"})
    assert json.loads(third.line)["params"] == {"cursor": "x"}
    end = answer(listing, id=get_id(third), result={"data": [{"model": "a"}, {"model": "d"}]})
    assert end == [TurnDone()]
    assert listing.names == ["a", "c", "d"]


@pytest.mark.parametrize("make", [CodexModelListing, lambda: AcpModelListing("/work")])
def test_a_refusal_ends_it(make: Any) -> None:
    listing = make()
    (first,) = listing.on_start()
    assert answer(listing, id=get_id(first), error={"code": -1, "message": "no"}) == [TurnDone()]
    assert listing.names == []


def test_claude_code_has_them_in_its_greeting() -> None:
    listing = ClaudeModelListing()
    (first,) = listing.on_start()
    number = json.loads(first.line)["request_id"]
    assert list(listing.on_line(b"no JSON")) == []
    assert answer(listing, type="system", subtype="init") == []
    models = {"response": {"models": [{"value": "opus"}, {"value": "opus"}, {"value": "haiku"}]}}
    given = {"subtype": "success", "request_id": number, **models}
    assert answer(listing, type="control_response", response=given) == [TurnDone()]
    assert listing.names == ["opus", "haiku"]


def test_an_acp_agent_offers_them_as_options_or_beside_them() -> None:
    grouped = {"group": "g", "options": [{"value": "b", "name": "B"}]}
    option = {"id": "model", "category": "model", "options": [{"value": "a"}, grouped]}
    assert list_offered_models({"configOptions": [{"id": "mode"}, option]}) == ["a", "b"]
    beside = {"models": {"availableModels": [{"modelId": "x"}], "currentModelId": "x"}}
    assert list_offered_models(beside) == ["x"]
    assert list_offered_models(None) == []


def test_an_endless_list_is_cut() -> None:
    listing = CodexModelListing()
    for number in range(2 * MOST_MODELS):
        listing.add(str(number))
    assert len(listing.names) == MOST_MODELS
