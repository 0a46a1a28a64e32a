"""GET /api/analytics: what was said, used, spent and done (specification 4, extended surface)."""

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from agentd.agent.engine import (
    EngineEvent,
    ReplyCompleted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    Usage,
)
from tests.support.daemon import NOON, Client, Engine, Serving, at_noon

KINDS = ["day", "model", "engine", "skill", "label", "chat", "key"]


def run_turn(assignment: TurnRequest) -> list[EngineEvent]:
    """Use two tools and give a reply that costs; fail if the prompt says so."""
    if "fail" in assignment.prompt:
        return [TurnFailed("it cannot be done")]
    tools = [ToolUsed("edit", "a.py", "done"), ToolUsed("edit", "b.py", "done")]
    return [*tools, ReplyCompleted("done", Usage(input=100, output=10), Decimal("0.1"))]


@pytest.fixture(autouse=True)
def _noon() -> Iterator[None]:
    with at_noon():
        yield


@pytest.fixture
def busy(daemon: Serving, engine: Engine) -> Client:
    """Two keys, two models, a chat with a dangerous title, a failure."""
    engine.says = run_turn
    laptop, phone = (daemon.client(daemon.new_key(name)) for name in ("laptop", "phone"))
    for client, model, prompt in (
        (laptop, "m", "one"),
        (laptop, "mine", "two"),
        (phone, "m", "please fail"),
    ):
        chat = client.create_chat(prompt=prompt, model=model, title='=HYPERLINK("http://x")')
        assert client.status(chat, 20)["status"] == "completed"
    return daemon.client()


def get_rows(client: Client, query: str) -> dict[str, Any]:
    reply = client.get(f"/api/analytics{query}")
    assert reply.status == 200, reply.body
    return {row["name"]: row for row in reply["rows"]}


def test_the_total_is_exact(busy: Client) -> None:
    reply = busy.get("/api/analytics")
    total = json.loads(reply.body, parse_float=Decimal)["total"]
    assert total["messages"] == {"user": 3, "assistant": 2, "tool": 4, "error": 1}
    assert total["tokens"] == {"input": 200, "output": 20}
    assert total["cost"] == Decimal("0.2")
    assert total["turns"] == 3
    assert total["endings"] == {
        **{"completed": 2, "failed": 1, "stopped": 0},
        **{"interrupted": 0, "deferred": 0},
    }
    assert total["tools"] == {"edit": 4}
    assert 0 <= total["turnSeconds"]["p50"] <= total["turnSeconds"]["p95"] < 60
    assert reply["corrupt"] == []


def test_rows_are_days_unless_something_else_is_asked_for(busy: Client) -> None:
    result = busy.get("/api/analytics").json()
    assert result["by"] == "day"
    assert [row["name"] for row in result["rows"]] == [result["to"]] == [NOON[:10]]
    assert (
        get_rows(busy, "?by=model")["m"]["turns"],
        get_rows(busy, "?by=model")["mine"]["turns"],
    ) == (
        2,
        1,
    )
    by_key = get_rows(busy, "?by=key")
    assert by_key["key:laptop"]["endings"]["completed"] == 2
    assert by_key["key:phone"]["endings"]["failed"] == 1
    assert [row["title"] for row in get_rows(busy, "?by=chat").values()] == [
        '=HYPERLINK("http://x")'
    ] * 3
    assert set(get_rows(busy, "?by=skill")) == {"none"}
    assert get_rows(busy, "?by=label") == {}


@pytest.mark.parametrize("by", KINDS)
def test_the_days_of_the_rows_are_reported_for_charts(busy: Client, by: str) -> None:
    assert busy.get(f"/api/analytics?by={by}")["total"]["days"] is None
    reply = busy.get(f"/api/analytics?by={by}&daily=true").json()
    (today,) = reply["total"]["days"]
    assert today["day"] == NOON[:10]
    for result in (reply["total"], *reply["rows"]):
        for name in ("cost", "turns"):
            assert sum(day[name] for day in result["days"]) == pytest.approx(result[name])
        assert result["days"][0]["tokens"] == result["tokens"]
        assert result["days"][0]["turnSeconds"] == result["turnSeconds"]


def test_a_misspelt_flag_is_refused(caller: Client) -> None:
    assert caller.get("/api/analytics?daily=yes").status == 400


def test_the_next_call_knows_what_happened_since(busy: Client) -> None:
    before = busy.get("/api/analytics")["total"]["turns"]
    busy.status(busy.create_chat(prompt="once more", model="m"), 20)
    assert busy.get("/api/analytics")["total"]["turns"] == before + 1


def test_what_is_known_survives_a_restart(busy: Client, daemon: Serving, serve: Any) -> None:
    before = busy.get("/api/analytics?by=chat").json()
    daemon.stop()
    daemon.join()
    assert serve().client().get("/api/analytics?by=chat").json() == before


@pytest.mark.parametrize("by", KINDS)
def test_csv_holds_the_same_rows_and_no_formula(busy: Client, by: str) -> None:
    reply = busy.get(f"/api/analytics?by={by}&format=csv")
    assert reply.headers["Content-Type"].startswith("text/csv")
    assert f"analytics-by-{by}-" in reply.headers["Content-Disposition"]
    head, *lines = csv.reader(io.StringIO(reply.body.decode(), newline=""))
    found = [dict(zip(head, line, strict=True)) for line in lines]
    result = get_rows(busy, f"?by={by}")
    assert [line[by] for line in found] == list(result)
    for line, row in zip(found, result.values(), strict=True):
        assert Decimal(line["cost_usd"]) == Decimal(str(row["cost"]))
        assert int(line["turns_completed"]) == row["endings"]["completed"]
        assert int(line["tokens_input"]) == row["tokens"]["input"]
        assert not line["title"].startswith("=")
    if by == "chat":
        assert found[0]["title"] == '\'=HYPERLINK("http://x")'
        assert found[0]["tools"] == "edit:2"


def test_a_range_without_anything_is_empty(busy: Client) -> None:
    reply = busy.get("/api/analytics?from=2001-01-01&to=2001-12-31")
    assert (reply["from"], reply["to"]) == ("2001-01-01", "2001-12-31")
    assert reply["rows"] == []
    assert reply["total"]["turnSeconds"] is None


def test_thirty_days_are_reported_when_nobody_says_from_when(caller: Client) -> None:
    assert caller.get("/api/analytics?to=2026-03-30")["from"] == "2026-03-01"
    assert caller.get("/api/analytics?to=0001-01-03")["from"] == "0001-01-01"


@pytest.mark.parametrize(
    "query",
    [
        *("by=x", "by=tool", "format=xml", "from=yesterday", "from=2026-02-30", "to=20260101"),
        *("from=2026-01-02&to=2026-01-01", "to=2026-W01-1", "from=%F0%9D%9F%962026-01-01"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_is_known(caller: Client, query: str) -> None:
    reply = caller.get(f"/api/analytics?{query}")
    assert reply.status == 400
    assert reply["details"]


def test_a_viewer_may_look_and_nobody_may_change(caller: Client) -> None:
    assert caller.post("/api/analytics", {}).status == 405
