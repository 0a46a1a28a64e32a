"""Requests, notes, reports as JSON and CSV, the summary and the licence, by the management API."""

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import openai
import pytest

from agentd.app.inspect import find_gateway_problems
from agentd.core.clock import SystemClock
from agentd.llm.price import Usage
from agentd.storage.checksummed_json import encode_checksummed
from tests.gateway.admin.conftest import HASH
from tests.gateway.ledger.entries import build_record
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client, at_noon, until

TODAY = SystemClock().now()[:10]
A, B = "a" * 12, "b" * 12
DAYS = "from=2026-01-01&to=2026-01-03"
SPEND = ("totals", "by-day", "by-hour", "by-model", "by-channel", "by-key", "by-owner")
ALL = (
    *SPEND,
    "by-tag",
    "top-spenders",
    "errors",
    "latency",
    "cache-share",
    "limits",
    "soft-limits",
    "leaks",
)


def build_records():
    """Build six requests of two keys on three days."""
    for number in range(6):
        yield build_record(
            number,
            f"2026-01-0{number % 3 + 1}T0{number}:00:00.000Z",
            key=A if number < 4 else B,
            key_name="ann" if number < 4 else "=bob",
            owner="" if number == 0 else "ann" if number < 4 else "=bob",
            tags=(("nightly",), ("nightly", "a;b"), ())[number % 3],
            model="large" if number % 2 else "small",
            channel="one",
            cost=Decimal(number),
            usage=Usage(input=10, cache_read=30, output=5),
            hidden={"jwt": 2} if number == 5 else {},
            **({"outcome": "failed", "error": "rate_limit", "status": 429} if number == 0 else {}),
        )


@pytest.fixture
def manager(setup, start_gateway) -> Client:
    """A client with the management key of a gateway that had some requests."""
    folder = Path(setup.layout.ledger)
    folder.mkdir(parents=True)
    for one in build_records():
        with open(setup.layout.get_ledger_day_path(one.at[:10]), "ab") as file:
            file.write(encode_checksummed(one))
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    return daemon.client("manage-0123456789abcdef")


def get_rows(manager: Client, path: str) -> list[dict]:
    reply = manager.get(f"/api/agent/{path}")
    assert reply.status == 200, reply.body
    return reply["items"]


def get_summary(manager: Client) -> dict:
    return manager.get("/api/agent/summary").json()


# Requests.


def test_requests_come_the_newest_first_page_by_page(manager):
    """The proxy specification, sections 1 and 2: the request log is read."""
    found, cursor = [], ""
    while True:
        page = manager.get(f"/api/agent/requests?limit=4&cursor={cursor}").json()
        found += [one["id"] for one in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert found == ["r-5", "r-2", "r-4", "r-1", "r-3", "r-0"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("key=ann", {0, 1, 2, 3}),
        (f"key={B}", {4, 5}),
        ("key=GoneGoneGone", set()),
        ("owner=ann", {1, 2, 3}),
        ("owner=%3Dbob", {4, 5}),
        ("tag=nightly", {0, 1, 3, 4}),
        ("tag=a%3Bb&owner=ann", {1}),
        ("tag=ann", set()),
        ("owner=nightly", set()),
        ("model=large", {1, 3, 5}),
        ("channel=none", set()),
        ("outcome=failed", {0}),
        ("error=rate_limit", {0}),
        ("status=429", {0}),
        ("minCost=3.5", {4, 5}),
        ("id=r-4", {4}),
        ("from=2026-01-02", {1, 2, 4, 5}),
        ("to=2026-01-02", {0, 1, 3, 4}),
        ("from=2026-01-02&to=2026-01-02", {1, 4}),
        ("from=2026-01-02T02:00:00Z&to=2026-01-02T05:00:00%2B00:30", {4}),
    ],
)
def test_requests_are_filtered(setup, manager, query, expected):
    setup.add_key(name="ann")
    found = get_rows(manager, f"requests?{query}".replace("key=ann", f"key={A}"))
    assert {int(one["id"][2:]) for one in found} == expected


def test_a_key_is_asked_for_by_its_name(setup, start_gateway):
    setup.add_key(name="Ann")
    manager = start_gateway(environ={"PROXY_APP_HASH": HASH}).client("manage-0123456789abcdef")
    Path(setup.layout.ledger).mkdir(parents=True, exist_ok=True)
    one = build_record(1, "2026-01-01T00:00:00.000Z", key=setup.keys[0])
    Path(setup.layout.get_ledger_day_path("2026-01-01")).write_bytes(encode_checksummed(one))
    assert [each["id"] for each in get_rows(manager, "requests?key=ann")] == ["r-1"]
    report = manager.get("/api/agent/reports/by-model?from=2026-01-01&to=2026-01-01&key=ANN")
    assert report["total"]["requests"] == 1


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "cursor=x", "from=yesterday", "to=2026-13-01", "outcome=great",
     "status=1", "minCost=-1", "minCost=1e3"],
)  # fmt: skip
def test_what_is_no_filter_is_refused(manager, query):
    assert manager.get(f"/api/agent/requests?{query}").status == 400


def test_one_request_is_reported_whole(manager):
    one = manager.get("/api/agent/requests/r-5").json()
    assert one["bodies"] is None
    result = one["request"]
    assert (result["keyName"], result["cost"], result["hidden"]) == ("=bob", 5, {"jwt": 2})
    assert result["usage"]["cacheRead"] == 30
    assert manager.get("/api/agent/requests/r-5?day=2026-01-03").json() == one
    assert manager.get("/api/agent/requests/r-5?day=2026-01-01").status == 404
    assert manager.get("/api/agent/requests/r-9").status == 404
    assert manager.get("/api/agent/requests/%00").status == 404
    assert manager.get("/api/agent/requests/r-5?day=x").status == 400


def test_bodies_that_are_kept_are_reported_with_their_request(setup, manager):
    folder = Path(setup.layout.bodies, "2026-01-03")
    folder.mkdir(parents=True)
    body = {"id": "r-5", "at": "2026-01-03T05:00:00.000Z", "request": "{}", "response": "hi"}
    folder.joinpath("r-5.json").write_text(json.dumps(body))
    result = manager.get("/api/agent/requests/r-5").json()
    assert result["bodies"] == {"request": "{}", "response": "hi", "base64": False}


def test_history_is_repriced_by_the_models_of_now(manager):
    prices = {"input": "1000000", "output": "0"}
    reply = manager.post(
        "/api/agent/models", {"name": "large", "routes": [{"channel": "chat"}], "prices": prices}
    )
    assert reply.status == 201, reply.body
    wish = {"from": "2026-01-01", "to": "2026-01-03"}
    dry = manager.post("/api/agent/requests/reprice?dry_run=true", wish).json()
    assert (dry["requests"], dry["changed"], dry["unpriced"]) == (6, 3, 3)
    assert (dry["before"], dry["after"]) == (15, 126)
    assert manager.get(f"/api/agent/reports/totals?{DAYS}")["total"]["cost"] == 15
    assert not get_rows(manager, "changes?resource=requests")
    done = manager.post("/api/agent/requests/reprice", wish).json()
    assert done == {**dry, "change": done["change"]}
    assert manager.get(f"/api/agent/reports/totals?{DAYS}")["total"]["cost"] == 126
    (noted,) = get_rows(manager, "changes?resource=requests")
    assert (noted["action"], noted["name"]) == ("reprice", "2026-01-01 to 2026-01-03")
    assert (noted["number"], noted["undoable"]) == (done["change"], True)


@pytest.mark.parametrize(
    "wish",
    [{}, {"from": "2026-01-01"}, {"from": "2026-01-02", "to": "2026-01-01"},
     {"from": "2026-02-30", "to": "2026-03-01"}, {"from": "2026-01-01", "to": "2027-01-01"}],
)  # fmt: skip
def test_only_some_days_are_repriced_at_once(manager, wish):
    assert manager.post("/api/agent/requests/reprice", wish).status == 400


# Reports.


def test_the_list_of_reports_shows_each_that_there_is(manager):
    """The proxy specification, section 1: all analytics reports are read."""
    assert {one["name"] for one in get_rows(manager, "reports")} == set(ALL)
    for name in ALL:
        assert manager.get(f"/api/agent/reports/{name}").status == 200
    assert manager.get("/api/agent/reports/by-nobody").status == 404


@pytest.mark.parametrize("name", SPEND)
def test_every_report_of_spend_adds_up_to_the_same(manager, name):
    report = manager.get(f"/api/agent/reports/{name}?{DAYS}").json()
    assert (report["from"], report["to"]) == ("2026-01-01", "2026-01-03")
    assert report["total"]["requests"] == sum(one["requests"] for one in report["items"]) == 6
    assert report["total"]["cost"] == sum(one["cost"] for one in report["items"]) == 15
    assert report["total"]["cacheShare"] == 0.75


def test_a_report_is_reported_page_by_page(manager):
    path = f"/api/agent/reports/by-hour?{DAYS}&limit=4"
    first = manager.get(path).json()
    second = manager.get(f"{path}&cursor={first['next']}").json()
    assert [one["name"] for one in first["items"] + second["items"]] == [
        "2026-01-01T00", "2026-01-01T03", "2026-01-02T01", "2026-01-02T04", "2026-01-03T02",
        "2026-01-03T05",
    ]  # fmt: skip
    assert second["next"] == ""
    assert first["total"] == second["total"]


@pytest.mark.parametrize("report", ["by-key", "by-model", "top-spenders", "latency"])
def test_pages_show_each_row_once_while_keys_spend(setup, manager, report):
    """Rows are in the order of what was spent, which changes between two pages."""
    names = [f"n{number:02}" for number in range(12)]
    entries = [
        build_record(
            f"p-{name}", f"2026-01-02T10:00:00.{number:03}Z", key=f"{name:0<12}", model=name
        )
        for number, name in enumerate(names)
    ]
    day = Path(setup.layout.get_ledger_day_path("2026-01-02"))
    day.write_bytes(b"".join(map(encode_checksummed, entries)))
    path = f"/api/agent/reports/{report}?from=2026-01-02&to=2026-01-02&limit=5"
    page = until(lambda: found if (found := manager.get(path).json())["next"] else None)
    named = "key" if report == "top-spenders" else "name"
    result = [one[named] for one in page["items"]]
    while page["next"]:
        last = entries[len(result)]  # what was last of all becomes the first of all
        more = [
            build_record(
                f"m-{len(result)}-{n}", "2026-01-02T11:00:00.000Z", key=last.key, model=last.model
            )
            for n in range(20)
        ]
        with day.open("ab") as file:
            file.write(b"".join(map(encode_checksummed, more)))
        page = manager.get(f"{path}&cursor={page['next']}").json()
        result += [one[named] for one in page["items"]]
    assert len(result) == len(set(result)) == 12


def test_a_cursor_is_of_the_report_that_reported_it(manager):
    path = f"/api/agent/reports/by-hour?{DAYS}&limit=4"
    cursor = manager.get(path)["next"]
    for other in ("/api/agent/reports/by-hour?limit=4", "/api/agent/reports/by-day?limit=4"):
        assert manager.get(f"{other}&cursor={cursor}").status == 400
    reply = manager.get(f"{path}&cursor=0-0.4")
    assert (reply.status, "first page" in reply["details"]) == (400, True)


@pytest.mark.parametrize(
    ("query", "requests"),
    [("key=aaaaaaaaaaaa", 4), ("model=large", 3), ("channel=one", 6), ("channel=two", 0),
     ("key=aaaaaaaaaaaa&model=large", 2), ("owner=ann", 3), ("owner=carol", 0), ("tag=nightly", 4),
     ("tag=nightly&model=large", 2), ("tag=a%3Bb&owner=%3Dbob", 1)],
)  # fmt: skip
@pytest.mark.parametrize("name", SPEND)
def test_reports_are_narrowed_down(manager, name, query, requests):
    report = manager.get(f"/api/agent/reports/{name}?{DAYS}&{query}").json()
    assert report["total"]["requests"] == requests
    assert sum(one["requests"] for one in report["items"]) == requests


def test_requests_and_spending_are_of_the_owner_and_tags_at_the_time(setup, manager):
    """What the key is given later changes nothing of what was: reports agree with budgets."""
    setup.add_key(name="ann", id=A, owner="carol", tags=["other"])
    owners = manager.get(f"/api/agent/reports/by-owner?{DAYS}").json()
    assert [(one["name"], one["cost"]) for one in owners["items"]] == [
        ("=bob", 9),
        ("ann", 6),
        ("", 0),
    ]
    tags = manager.get(f"/api/agent/reports/by-tag?{DAYS}").json()
    assert {one["name"]: one["requests"] for one in tags["items"]} == {
        "nightly": 4,
        "a;b": 2,
        "": 2,
    }
    assert tags["total"]["requests"] == 6  # a request with two tags counts once
    assert manager.get(f"/api/agent/reports/by-tag?{DAYS}&tag=a%3Bb")["items"] == [
        one for one in tags["items"] if one["name"] == "a;b"
    ]
    (row, *_) = get_rows(manager, "requests?tag=a%3Bb&limit=1")
    assert (row["owner"], row["tags"]) == ("=bob", ["nightly", "a;b"])


@pytest.mark.parametrize("report", ["latency", "cache-share"])
def test_times_and_cache_shares_are_reported_by_owner_and_tag(manager, report):
    for by, expected in (("owner", {"ann", "=bob", ""}), ("tag", {"nightly", "a;b", ""})):
        found = manager.get(f"/api/agent/reports/{report}?{DAYS}&by={by}").json()
        assert {one["name"] for one in found["items"]} == expected
        assert found["by"] == by
        rows = get_rows(manager, f"reports/{report}?{DAYS}&by={by}&owner=ann&tag=nightly")
        assert {one["name"] for one in rows} == ({"ann"} if by == "owner" else {"nightly"})


def test_leaks_errors_and_top_spenders_are_narrowed_down_to_owners_and_tags(manager):
    assert not get_rows(manager, f"reports/leaks?{DAYS}&owner=ann")
    assert len(get_rows(manager, f"leaks?{DAYS}&owner=%3Dbob")) == 1
    assert not get_rows(manager, f"reports/errors?{DAYS}&owner=ann")
    assert len(get_rows(manager, f"reports/errors?{DAYS}&tag=nightly")) == 1
    (top,) = get_rows(manager, f"reports/top-spenders?{DAYS}&owner=ann")
    assert (top["key"], top["cost"], top["share"]) == (A, 6, 1)


def test_the_log_as_csv_has_owners_and_tags(manager):
    reply = manager.get("/api/agent/requests?format=csv&tag=a%3Bb")
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert [(row["id"], row["owner"], row["tags"]) for row in rows] == [
        ("r-4", "'=bob", "nightly; a;b"),
        ("r-1", "ann", "nightly; a;b"),
    ]


def test_top_spenders_errors_latency_cache_and_leaks(manager):
    """The proxy specification, sections 1 and 2: leak reports are viewed."""
    top = get_rows(manager, f"reports/top-spenders?{DAYS}")
    assert [(one["key"], one["title"], one["share"]) for one in top] == [
        (B, "=bob", 0.6),
        (A, "ann", 0.4),
    ]
    assert get_rows(manager, f"reports/errors?{DAYS}") == [{"error": "rate_limit", "requests": 1}]
    took = manager.get(f"/api/agent/reports/latency?{DAYS}&by=total").json()
    assert took["total"]["answers"] == 5
    assert took["items"][0]["latency"]["p95"] == pytest.approx(40, rel=0.02)
    assert took["items"][0]["firstToken"]["p50"] == pytest.approx(30, rel=0.02)
    cached = manager.get(f"/api/agent/reports/cache-share?{DAYS}&by=key").json()
    assert cached["total"]["cacheShare"] == 0.75
    (leak,) = get_rows(manager, f"leaks?{DAYS}")
    assert leak == {"day": "2026-01-03", "key": B, "title": "=bob", "rule": "jwt", "count": 2}
    assert get_rows(manager, f"reports/leaks?{DAYS}&rule=jwt&key={B}") == [leak]
    assert not get_rows(manager, f"leaks?{DAYS}&rule=aws")
    assert not get_rows(manager, f"leaks?{DAYS}&key={A}")


def test_limits_show_how_long_they_last(setup, manager):
    setup.add_key(name="rich", limits={"day": 10, "parallel": 3})
    setup.add_key(name="free")
    (one,) = get_rows(manager, "reports/limits")
    assert (one["title"], one["window"], one["limit"], one["used"]) == ("rich", "day", 10, 0)
    assert (one["daysLeft"], one["lasts"]) == (None, True)


def test_limits_are_those_of_keys_or_of_the_budgets_of_owners_and_tags(setup, manager):
    setup.add_key(name="laptop", owner="ann", tags=["nightly"], limits={"day": 10})
    setup.add_key(name="server", owner="bob", limits={"day": 20})
    for name, group in (
        ("Ann", {"owner": "ann"}),
        ("Bob", {"owner": "bob"}),
        ("N", {"tag": "nightly"}),
    ):
        made = manager.post("/api/agent/budgets", {"name": name, **group, "limits": {"week": 30}})
        assert made.status == 201

    def list_titles(query: str) -> list[str]:
        return [one["title"] for one in get_rows(manager, f"reports/limits?{query}")]

    assert list_titles("") == list_titles("by=key") == ["laptop", "server"]
    assert list_titles("owner=ann") == list_titles("tag=nightly&owner=ann") == ["laptop"]
    assert list_titles("by=owner") == ["ann", "bob"]
    assert list_titles("by=owner&owner=bob") == ["bob"]
    assert list_titles("by=owner&tag=nightly") == ["ann"]
    assert list_titles("by=tag") == list_titles("by=tag&owner=ann") == ["nightly"]
    assert not list_titles("by=tag&owner=bob")
    assert manager.get("/api/agent/reports/limits?by=model").status == 400
    (one,) = get_rows(manager, "reports/limits?by=tag")
    assert (one["scope"], one["budget"], one["key"], one["limit"]) == ("tag", "N", "", 30)


def test_soft_limits_are_listed_from_when_they_are_passed_until_they_are_raised(setup, manager):
    setup.add_key(name="ann", id=A, soft_limits={"total": "5"}, limits={"total": 100})
    setup.add_key(name="bob", id=B, soft_limits={"total": "500"})
    setup.add_key(name="off", enabled=False, soft_limits={"total": "0"})
    budget = {"name": "N", "tag": "nightly", "limits": {"total": 10}, "warnAt": 0.5}
    assert manager.post("/api/agent/budgets", budget).status == 201

    def list_passed() -> list[tuple[str, str, float, float]]:
        rows = get_rows(manager, "reports/soft-limits")
        return [(one["scope"], one["name"], one["limit"], one["spent"]) for one in rows]

    assert list_passed() == [("tag", "nightly", 5, 8), ("key", "ann", 5, 6)]
    manager.post(
        "/api/agent/budgets/N/raise", {"until": "2099-01-01T00:00:00Z", "limits": {"total": 40}}
    )
    manager.patch(f"/api/agent/keys/{A}", {"softLimits": {"total": 7}})
    assert list_passed() == []
    manager.delete("/api/agent/budgets/N/raise")
    assert list_passed() == [("tag", "nightly", 5, 8)]


@pytest.mark.parametrize("name", ALL)
def test_every_report_is_had_as_csv_that_no_spreadsheet_carries_out(setup, manager, name):
    setup.add_key(name="=rich", id=A, limits={"day": 10}, soft_limits={"total": "0.01"})
    path = f"/api/agent/reports/{name}?{'limit=9' if name.endswith('limits') else DAYS}"
    for query, headers in (("&format=csv", {}), ("", {"Accept": "text/csv"})):
        reply = manager.get(f"{path}{query}", headers)
        assert reply.status == 200
        assert reply.headers["Content-Type"].startswith("text/csv")
        assert reply.headers["Content-Disposition"].startswith(f'attachment; filename="{name}')
        head, *lines = list(csv.reader(io.StringIO(reply.body.decode())))
        assert lines
        assert all(len(line) == len(head) for line in lines)
        assert not any(cell.startswith("=") for line in lines for cell in line)
    result = manager.get(f"{path}&format=json", {"Accept": "text/csv"})
    assert result["items"]


@pytest.mark.parametrize(
    "path",
    [
        *(f"reports/{name}?{DAYS}" for name in ALL if not name.endswith("limits")),
        *("requests?", "requests?limit=5"),
    ],
)
def test_a_csv_without_rows_has_the_header_of_one_with_rows(manager, path):
    def read_lines(more: str) -> list[bytes]:
        return manager.get(f"/api/agent/{path}&format=csv{more}").body.splitlines()

    head, *lines = read_lines("")
    assert lines
    assert read_lines("&owner=nobody")[:1] == [head]


@pytest.mark.parametrize("name", ["limits", "soft-limits"])
def test_a_csv_without_limits_has_the_header_of_one_with_limits(setup, manager, name):
    path = f"/api/agent/reports/{name}?format=csv"
    (head,) = manager.get(path).body.splitlines()
    setup.add_key(name="rich", id=A, limits={"day": 10}, soft_limits={"total": "0.01"})
    lines = until(lambda: manager.get(path).body.splitlines()[1:] and manager.get(path).body)
    assert lines.splitlines()[0] == head


def test_a_page_of_csv_shows_where_to_go_on(manager):
    reply = manager.get(f"/api/agent/reports/by-hour?{DAYS}&limit=4&format=csv")
    link, _, rel = reply.headers["Link"].partition("; ")
    assert rel == 'rel="next"'
    rest = manager.get(link.strip("<>"))
    assert len(rest.body.splitlines()) == 3
    assert "Link" not in rest.headers


@pytest.mark.parametrize(
    "query", ["from=2026-01-02&to=2026-01-01", "from=x", "limit=0", "limit=1001", "cursor=-1",
              "format=xml"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["totals", "latency", "leaks"])
def test_what_no_report_can_show_is_refused(manager, name, query):
    assert manager.get(f"/api/agent/reports/{name}?{query}").status == 400


def test_latency_is_not_reported_by_key(manager):
    assert manager.get("/api/agent/reports/latency?by=key").status == 400


# The summary and the licence.


def test_the_summary_shows_the_gateway_in_short(setup, manager):
    """The proxy specification, sections 1 and 2: the main page's summary."""
    result = manager.get("/api/agent/summary").json()
    assert result["licence"]["state"] == "valid"
    assert result["today"]["requests"] == 0
    assert result["channels"] == {"ok": 4, "cooldown": 0, "disabled": 0, "unhealthy": []}
    assert result["models"] == 4
    assert (result["corruptDays"], result["problems"]) == ([], [])
    assert result["dropped"] == {"serviceLog": 0, "bodies": 0}


def test_the_summary_counts_the_request_before_it(noon, setup, start_gateway):
    key = setup.add_key()
    daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
    manager = daemon.client("manage-0123456789abcdef")
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0) as caller:
        for number in range(1, 4):
            setup.supplier.script(Answer((Say("hi"),), Tokens(input=1000, output=100)))
            caller.chat.completions.create(
                model="by-chat", messages=[{"role": "user", "content": "hello"}]
            )
            result = manager.get("/api/agent/summary").json()
            assert result["today"]["requests"] == result["month"]["requests"] == number
            assert result["today"]["inputTokens"] == 1000 * number
            cost = result["today"]["cost"]
            assert cost == pytest.approx(0.0045 * number)
            assert result["topModels"] == [{"name": "by-chat", "requests": number, "cost": cost}]


@pytest.fixture
def noon() -> Iterator[str]:
    with at_noon() as made:
        yield made


def test_the_summary_shows_damaged_days_and_files_with_mistakes(setup, manager):
    path = Path(setup.layout.get_ledger_day_path("2026-01-01"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0].replace(b"r-0", b"r-X") + lines[1])
    Path(setup.layout.channels).write_text("channels: [{}]")
    result = until(lambda: result if (result := get_summary(manager))["problems"] else None)
    assert "channels.yml" in result["problems"][0]
    assert result["corruptDays"] == [{"day": "2026-01-01", "lines": 1}]


def test_the_summary_shows_every_mistake_that_the_check_of_the_files_shows(setup, manager):
    models = Path(setup.layout.models)
    content = models.read_text()
    assert '"chat"' in content
    models.write_text(content.replace('"chat"', '"chatt"'))
    result = until(lambda: result if (result := get_summary(manager))["problems"] else None)
    expected = [*map(str, find_gateway_problems(setup.layout))]
    assert expected
    assert result["problems"] == expected[:20]
    assert "no channel of channels.yml" in result["problems"][0]


def test_the_licence_is_reported_and_installed(setup, manager):
    """The proxy specification, sections 1 and 2: the licence's status."""
    before = manager.get("/api/agent/licence").json()
    assert before["state"] == "valid"
    token = Path(setup.layout.licence).read_text().strip()
    assert manager.put("/api/agent/licence", {"token": "nonsense"}).status == 400
    assert manager.get("/api/agent/licence").json() == before
    Path(setup.layout.licence).unlink()
    assert manager.get("/api/agent/licence")["state"] == "missing"
    dry = manager.put("/api/agent/licence?dry_run=true", {"token": token})
    assert dry["state"] == "valid"
    assert manager.get("/api/agent/licence")["state"] == "missing"
    assert manager.put("/api/agent/licence", {"token": f" {token}\n"})["state"] == "valid"
    (noted,) = get_rows(manager, "changes?resource=licence")
    assert (noted["before"]["state"], noted["after"]["state"]) == ("missing", "valid")
    assert token.encode() not in json.dumps(noted).encode()
    assert manager.get("/api/agent/licence").json() == before
    described = manager.get("/api/agent/openapi.json")["paths"]["/api/agent/licence"]["put"]
    example = described["requestBody"]["content"]["application/json"]["example"]["token"]
    assert token.startswith(example.removesuffix("..."))


@pytest.mark.parametrize(
    "address", ["/api/agent/requests?key=lapptop", "/api/agent/reports/by-model?key=lapptop"]
)
def test_a_key_that_cannot_be_is_refused_with_the_nearest_name(manager, address):
    manager.post("/api/agent/keys", {"name": "laptop"})
    reply = manager.get(address)
    assert (reply.status, 'did you mean "laptop"?' in reply["message"]) == (400, True)
    assert manager.get(address.replace("lapptop", "laptop")).status == 200
    assert manager.get(address.replace("lapptop", "AAAABBBBCCCC")).status == 200, (
        "a key that is gone"
    )
