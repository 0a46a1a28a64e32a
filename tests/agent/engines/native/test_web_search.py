"""Searches that the supplier carries out itself: asked for, shown, sent back and paid for."""

import asyncio
import json
from contextlib import aclosing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentd.agent.engine import (
    EngineEvent,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.native.supplier import RetryPolicy
from agentd.agent.engines.native.web_search import CITATIONS, MOST_PAGES
from agentd.llm.conversation import Conversation, ModelMessage, SupplierItem, TextPart
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.upstream.client import HttpUpstream
from tests.agent.engines.native.scene import PRICES, Scene, join_deltas, read_replies
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Break, Call, Made, Refuse, Say, Search, Tokens
from tests.supplier.supplier import Supplier

DIALECTS = ("openai-responses", "anthropic")
TOOLS = {
    "openai-responses": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
}
DOCS = ("https://docs.example/tornado", "Tornado's documentation")
BLOG = ("https://blog.example/6.6", "What is new")
FOUND = Search("tornado version", (DOCS, BLOG))


@pytest.fixture
def supplier():
    with Supplier() as it:
        yield it


@pytest.fixture
def scene(tmp_path: Path, supplier) -> Scene:
    root = tmp_path / "work"
    root.mkdir()
    return Scene(root, supplier, kept=tmp_path / "state")


def offered(*parts: Any, **more: Any):
    """Return a step that searches only if the request offers a search."""

    def answer(request: Request) -> Made:
        if any(tool in TOOLS.values() for tool in request.body["tools"]):
            return Answer(parts, **more)
        return Refuse(400, "No web search is offered")

    return answer


def test_a_reply_is_paid_whose_pages_are_written_down_as_it_is_stopped(scene, supplier):
    """A stop reaches the engine at the event that is being recorded."""
    request = TurnRequest(1, "Go.", model="large", supplier="acme", web_search=True)

    async def run() -> list[EngineEvent]:
        upstream = HttpUpstream()
        left: list[EngineEvent] = []
        async with aclosing(scene.build_engine(upstream).run(request, scene.person)) as told:
            async for event in told:
                if isinstance(event, ToolUsed) and event.name == CITATIONS:
                    break
            coming = told.athrow(asyncio.CancelledError())
            with suppress(asyncio.CancelledError):
                while True:
                    left.append(await coming)
                    coming = anext(told)
        await upstream.close()
        return left

    scene.dialect = "anthropic"
    used = Tokens(input=1000, output=0)
    supplier.script(offered(FOUND, Say("It is 6.6.", cites=(DOCS,)), usage=used))
    (spent,) = asyncio.run(run())
    assert isinstance(spent, UsageReported)
    assert (spent.usage.input, spent.cost) == (1000, Decimal("0.002"))


def list_tools(told) -> list[tuple[str, str, str, bool]]:
    uses = (one for one in told if isinstance(one, ToolUsed))
    return [(one.name, one.input, one.outcome, one.ok) for one in uses]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_search_and_what_the_reply_cites_are_in_the_history(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script(offered(Say("I look."), FOUND, Say("It is 6.6.", cites=(DOCS,))))
    told = scene.run(web_search=True)
    # OpenAI tells the addresses of all pages, and the titles of those that are cited.
    pages = (
        [f"{title} <{url}>" for url, title in (DOCS, BLOG)]
        if dialect == "anthropic"
        else [DOCS[0], BLOG[0]]
    )
    assert list_tools(told) == [
        ("web_search", "tornado version", "\n".join(pages), True),
        ("web_citations", "1 page", f"{DOCS[1]} <{DOCS[0]}>", True),
    ]
    assert [one.name for one in told if isinstance(one, ToolStarted)] == ["web_search"]
    assert read_replies(told) == [join_deltas(told)] == ["I look.\n\nIt is 6.6."]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_search_is_offered_unless_the_model_has_it(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script(Say("Yes."))
    scene.run()
    body = supplier.requests[0].body
    assert "web_search" not in json.dumps(body["tools"])
    assert "web_search_call.action.sources" not in body.get("include", ())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_search_is_sent_back_as_it_was_in_this_turn_and_the_next(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script(
        offered(FOUND, Call("list_files", {})), offered(Say("It is 6.6.")), offered(Say("Yes."))
    )
    scene.run("Which?", web_search=True, message=1)
    scene.run("Sure?", web_search=True, message=5)
    for request in supplier.requests[1:]:
        if dialect == "anthropic":
            blocks = request.body["messages"][1]["content"]
            assert [block["type"] for block in blocks] == [
                "server_tool_use",
                "web_search_tool_result",
                "tool_use",
            ]
            assert blocks[0]["id"] == blocks[1]["tool_use_id"]
            assert blocks[0]["input"] == {"query": "tornado version"}
            assert [one["encrypted_content"] for one in blocks[1]["content"]] == ["c2VjcmV0"] * 2
        else:
            assert request.body["input"][1] == {
                "type": "web_search_call",
                "id": "ws_1_0",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "tornado version",
                    "queries": ["tornado version"],
                },
            }


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("change", [{"web_search": False}, {"model": "other"}])
def test_a_search_is_not_sent_back_to_a_model_without_it_or_to_another(
    scene, supplier, dialect, change
):
    scene.dialect = dialect
    supplier.script(offered(FOUND, Say("It is 6.6.")), Say("Yes."))
    scene.run("Which?", web_search=True, message=1)
    scene.run("Sure?", **{"web_search": True, "message": 3, **change})
    body = supplier.requests[1].body
    sent = json.dumps(body.get("messages") or body["input"])
    assert "It is 6.6." in sent
    assert "tornado version" not in sent


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_search_costs_what_the_model_says_beside_its_tokens(scene, supplier, dialect):
    scene.dialect = dialect
    used = Tokens(input=1000, output=100)
    supplier.script(offered(FOUND, FOUND, Say("It is 6.6."), usage=used))
    told = scene.run(web_search=True, web_search_price=Decimal("0.01"))
    (reply,) = (one for one in told if isinstance(one, ReplyCompleted))
    tokens = (1000 * PRICES.input + 100 * PRICES.output) / 1_000_000
    assert reply.cost == tokens + Decimal("0.02")


def test_without_prices_of_tokens_a_search_still_costs(scene, supplier):
    scene.dialect, scene.prices = "anthropic", None
    supplier.script(offered(FOUND, Say("It is 6.6.")), offered(Say("Yes.")))
    told = scene.run(web_search=True, web_search_price=Decimal("0.01"))
    assert [one.cost for one in told if isinstance(one, ReplyCompleted)] == [Decimal("0.01")]
    told = scene.run(web_search=True, web_search_price=Decimal("0.01"))
    assert [one.cost for one in told if isinstance(one, ReplyCompleted)] == [None]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_search_that_failed_is_told_and_costs_nothing(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.script(offered(Search("x", problem="max_uses_exceeded"), Say("I do not know.")))
    told = scene.run(web_search=True, web_search_price=Decimal(1))
    why = "max_uses_exceeded" if dialect == "anthropic" else "the supplier's search failed"
    assert list_tools(told) == [("web_search", "x", f"failed: {why}", False)]
    (reply,) = (one for one in told if isinstance(one, ReplyCompleted))
    assert reply.cost is not None and reply.cost < 1


def test_a_pause_in_the_middle_of_searches_is_not_the_end(scene, supplier):
    """Anthropic pauses a long reply: it goes on when it is sent back."""
    scene.dialect = "anthropic"
    supplier.script(offered(Say("I look."), FOUND, finish="pause_turn"), offered(Say("It is 6.6.")))
    told = scene.run(web_search=True)
    assert read_replies(told) == ["I look.", "It is 6.6."]
    last = supplier.requests[1].body["messages"][-1]
    assert last["role"] == "assistant"
    assert [block["type"] for block in last["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
    ]


def test_a_search_without_a_result_is_not_sent_back_later() -> None:
    """Anthropic refuses a search without a result, but goes on with the last one."""
    block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    cut = ModelMessage(
        "assistant",
        (TextPart("I look."), SupplierItem("anthropic", json.dumps(block))),
    )
    question = ModelMessage("user", (TextPart("Which?"),))
    for messages, sent in (((question, cut, question), 1), ((question, cut), 2)):
        conversation = Conversation(messages=messages, web_search=True)
        body = json.loads(anthropic_upstream.encode_request(conversation, "m"))
        assert len(body["messages"][1]["content"]) == sent


def test_a_search_that_broke_off_has_an_outcome(scene, supplier):
    scene.dialect = "openai-responses"
    scene.patience = RetryPolicy(tries=2, first=0.001, longest=0.01)
    supplier.script(
        offered(FOUND, Say("It is 6.6."), faults=(Break(5),)), offered(FOUND, Say("It is 6.6."))
    )
    told = scene.run(web_search=True)
    assert [(name, ok) for name, _, _, ok in list_tools(told)] == [
        ("web_search", False),
        ("web_search", True),
    ]
    assert not any(isinstance(one, UsageReported) and one.cost for one in told)


def test_many_pages_are_bounded(scene, supplier):
    scene.dialect = "anthropic"
    pages = tuple((f"https://x.example/{number}", "t" * 2000) for number in range(MOST_PAGES + 5))
    supplier.script(offered(Search("x", pages), Say("Yes.")))
    ((_, _, outcome, _),) = list_tools(scene.run(web_search=True))
    assert outcome.endswith("… and 5 more")
    assert len(outcome) < MOST_PAGES * 600
