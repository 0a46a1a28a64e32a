"""The price catalogue, managed by a program."""

import json
import re
import sys
from pathlib import Path

import pytest

from agentd.storage.document import TEMPORARY_PREFIX
from tests.gateway.catalogue.samples import write_catalogue
from tests.gateway.conftest import GatewaySetup
from tests.support.daemon import Client, Reply

ALL = "/api/agent/prices"
HERE = "/api/agent/models/by-chat/prices"
LISTED = {"input": 2.0, "output": 10.0, "cacheRead": 0.2}


@pytest.fixture
def catalogue(setup: GatewaySetup) -> None:
    """The catalogue of the samples, which knows the scripted supplier by its address."""
    write_catalogue(setup.layout, re.escape(setup.supplier.url))


@pytest.fixture
def managed(catalogue: None, manager: Client) -> Client:
    """A client of a gateway that has the catalogue."""
    return manager


def get_rates(prices: dict[str, float]) -> dict[str, float]:
    """Get the rates that the catalogue lists."""
    return {name: prices[name] for name in LISTED}


def test_the_catalogue_is_searched_and_paged(managed: Client) -> None:
    whole = managed.get(ALL)
    assert (whole["source"], whole["problem"]) == ("samples 1", "")
    found = [(one["supplier"], one["model"]) for one in whole["items"]]
    assert found == [("acme", "scripted-large"), ("acme", "scripted-small"), ("openai", "gpt-5.1")]
    first = managed.get(f"{ALL}?limit=2")
    second = managed.get(f"{ALL}?limit=2&cursor={first['next']}")
    assert [*first["items"], *second["items"]] == whole["items"]
    assert second["next"] == ""
    assert [one["model"] for one in managed.get(f"{ALL}?name=GPT")["items"]] == ["gpt-5.1"]
    assert [one["title"] for one in managed.get(f"{ALL}?name=d+large")["items"]] == [
        "Scripted Large"
    ]
    assert managed.get(f"{ALL}?supplier=nobody")["items"] == []


def test_the_prices_of_one_model_of_a_channel_are_found(managed: Client) -> None:
    (found,) = managed.get(f"{ALL}?channel=chat&model=scripted-large")["items"]
    assert get_rates(found["prices"]) == LISTED
    assert (found["since"], found["context"], found["by"]) == ("2026-06-01", 200_000, "address")
    assert managed.get(f"{ALL}?channel=chat&model=nothing")["items"] == []
    assert managed.get(f"{ALL}?channel=chatt&model=s").status == 400
    assert managed.get(f"{ALL}?channel=chat").status == 400


def test_a_models_own_prices_stand_beside_the_catalogues_and_win(managed: Client) -> None:
    items = managed.get(f"{ALL}/models")["items"]
    assert [one["name"] for one in items] == ["by-chat", "by-gemini", "by-messages", "by-responses"]
    assert items[0]["prices"]["input"] == 3.0
    assert get_rates(items[0]["listed"]["prices"]) == LISTED
    assert all(one["differs"] for one in items)
    assert managed.get("/api/agent/models/by-chat")["prices"]["input"] == 3.0


def test_applying_prices_can_be_tried_and_undone(managed: Client) -> None:
    before = managed.get("/api/agent/models/by-chat").json()
    tried = managed.send("POST", f"{HERE}?dry_run=true")
    assert get_rates(tried["prices"]) == LISTED
    assert managed.get("/api/agent/models/by-chat").json() == before
    reply = managed.send("POST", HERE)
    assert reply.json() == tried.json() == managed.get("/api/agent/models/by-chat").json()
    assert reply["context"] == 200_000
    (change,) = managed.get("/api/agent/changes")["items"]
    assert (change["action"], change["resource"], change["name"]) == ("price", "models", "by-chat")
    compared = {one["name"]: one["differs"] for one in managed.get(f"{ALL}/models")["items"]}
    assert compared["by-chat"] is False
    managed.send("POST", HERE)
    assert len(managed.get("/api/agent/changes")["items"]) == 1  # nothing was left to change
    assert managed.send("POST", f"/api/agent/changes/{change['number']}/undo").status == 200
    assert managed.get("/api/agent/models/by-chat").json() == before


def test_a_model_that_was_changed_meanwhile_or_is_not_listed_stays(managed: Client) -> None:
    assert managed.send("POST", HERE, None, {"If-Match": '"00"'}).status == 412
    route = {"channel": "chat", "model": "unheard-of"}
    managed.patch("/api/agent/models/by-chat", {"routes": [route]})
    reply = managed.send("POST", HERE)
    assert (reply.status, reply["error"]) == (409, "Conflict")
    assert managed.get("/api/agent/models/by-chat")["prices"]["input"] == 3.0


def test_prices_of_a_route_are_left_alone_and_the_next_route_is_looked_up(managed: Client) -> None:
    routes = [
        {"channel": "chat", "model": "scripted-large", "prices": {"input": 7, "output": 8}},
        {"channel": "chat", "model": "scripted-small", "priority": 1},
    ]
    managed.patch("/api/agent/models/by-chat", {"routes": routes})
    changed = managed.send("POST", HERE)
    assert changed["routes"][0]["prices"]["input"] == 7
    assert changed["prices"]["input"] == 0.5


def test_a_new_model_takes_the_catalogues_prices_where_it_has_none(managed: Client) -> None:
    models = "/api/agent/models?catalogue_prices=true"
    model = {"name": "new", "routes": [{"channel": "chat", "model": "scripted-large"}]}
    reply = managed.post(models, model)
    assert reply.status == 201
    assert get_rates(reply["prices"]) == LISTED
    own = {**model, "name": "own", "prices": {"input": 9, "output": 9}}
    assert managed.post(models, own)["prices"]["input"] == 9
    reply = managed.post(models, {"name": "unheard-of", "routes": [{"channel": "chat"}]})
    assert reply.status == 400
    assert managed.get("/api/agent/models/unheard-of").status == 404


def test_history_is_repriced_by_the_prices_of_its_days(
    setup: GatewaySetup, catalogue: None, manager: Client
) -> None:
    """Before 2026-06-01 input cost 4 and output 20, afterwards 2 and 10."""
    usage = {"input": 1_000_000, "output": 1_000_000}
    for number, day in enumerate(("2026-05-31", "2026-06-01")):
        write_record(setup, f"r{number}", day, usage)
    span = {"from": "2026-05-31", "to": "2026-06-01", "prices": "catalogue"}
    path = "/api/agent/requests/reprice"
    assert manager.post(f"{path}?dry_run=true", span)["after"] == 24 + 12
    assert manager.post(path, span)["changed"] == 2
    costs = [manager.get(f"/api/agent/requests/r{one}")["request"]["cost"] for one in (0, 1)]
    assert costs == [24, 12]
    assert manager.post(path, {**span, "prices": "current"})["after"] == 18 + 18


def test_a_repricing_is_undone_exactly_until_the_requests_are_repriced_again(
    setup: GatewaySetup, catalogue: None, manager: Client
) -> None:
    """Their cost, first cost, version of prices and mark of an estimate are those of before."""
    usage = {"input": 1_000_001, "cache_read": 3, "output": 7}
    for number, day in enumerate(("2026-05-31", "2026-06-01")):
        write_record(setup, f"r{number}", day, usage)
    span = {"from": "2026-05-31", "to": "2026-06-01", "prices": "catalogue"}
    path = "/api/agent/requests/reprice"

    def read_all() -> list[dict]:
        return manager.get("/api/agent/requests?from=2026-05-01&to=2026-06-30").json()["items"]

    def undo(number: int, query: str = "") -> Reply:
        return manager.send("POST", f"/api/agent/changes/{number}/undo{query}")

    first = read_all()
    assert manager.post(f"{path}?dry_run=true", span)["change"] is None
    by_catalogue = manager.post(path, span)["change"]
    second = read_all()
    assert [one["cost"] for one in second] != [one["cost"] for one in first]
    assert manager.post(path, span)["change"] is None, "nothing is left to be changed"
    current = manager.post(path, {**span, "from": "2026-06-01", "prices": "current"})["change"]
    third = read_all()
    refused = undo(by_catalogue)
    assert (refused.status, refused["error"]) == (409, "Conflict")
    assert "1 of the 2 requests were repriced since" in refused["message"]
    assert read_all() == third
    assert undo(current, "?dry_run=true").status == 200
    assert read_all() == third
    again = undo(current)["number"]
    assert read_all() == second
    assert undo(again).status == 200
    assert read_all() == third
    changes = manager.get("/api/agent/changes").json()["items"]
    assert [one["action"] for one in changes[:3]] == ["undo", "undo", "reprice"]
    assert "earlier" not in third[0]


def test_the_undo_of_a_repricing_is_counted_by_reports(
    setup: GatewaySetup, catalogue: None, manager: Client
) -> None:
    write_record(setup, "r0", "2026-05-31", {"input": 1_000_000, "output": 1_000_000})
    span = {"from": "2026-05-31", "to": "2026-05-31", "prices": "catalogue"}
    report = "/api/agent/reports/totals?from=2026-05-31&to=2026-05-31"
    change = manager.post("/api/agent/requests/reprice", span)["change"]
    assert manager.get(report)["items"][0]["cost"] == 24
    assert manager.send("POST", f"/api/agent/changes/{change}/undo").status == 200
    assert manager.get(report)["items"][0]["cost"] == 0


def test_keys_have_spent_what_reports_say_also_after_a_repricing_that_failed_half_way(
    setup: GatewaySetup, catalogue: None, manager: Client
) -> None:
    key = manager.post("/api/agent/keys", {"name": "ann"})["id"]
    days = "2026-05-30", "2026-05-31"
    for day in days:
        write_record(setup, day, day, {"input": 1_000_000}, key)
    (Path(setup.layout.ledger) / f"{TEMPORARY_PREFIX}{days[1]}").mkdir()  # it cannot be rewritten
    span = {"from": days[0], "to": days[1], "prices": "catalogue"}
    assert manager.post("/api/agent/requests/reprice", span).status == 503
    report = manager.get(f"/api/agent/reports/totals?from={days[0]}&to={days[1]}&key={key}")
    assert report["total"]["cost"] == 4
    assert manager.get(f"/api/agent/keys/{key}")["spent"]["total"] == 4


def write_record(
    setup: GatewaySetup, id_: str, day: str, usage: dict[str, int], key: str = ""
) -> None:
    """Write a record of a request of a past day into the ledger."""
    from agentd.gateway.ledger.record import RequestRecord
    from agentd.llm.price import Usage
    from agentd.storage.checksummed_json import encode_checksummed

    record = RequestRecord(
        id=id_,
        at=f"{day}T12:00:00.000Z",
        key=key,
        endpoint="chat",
        model="by-chat",
        channel="chat",
        supplier_model="scripted-large",
        tries=1,
        status=200,
        outcome="ok",
        usage=Usage(**usage),
    )
    path = Path(setup.layout.get_ledger_day_path(day))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_checksummed(record))
    path.chmod(0o600)


def test_without_a_catalogue_it_says_what_to_do_and_nothing_changes(manager: Client) -> None:
    for path in (ALL, f"{ALL}/models"):
        found = manager.get(path)
        assert "prices/refresh" in found["problem"]
        assert (found["source"], found["at"]) == ("", None)
    assert manager.get(f"{ALL}/models")["items"][0]["listed"] is None
    reply = manager.send("POST", HERE)
    assert (reply.status, reply["error"]) == (503, "Unavailable")
    assert "agentd proxy prices update" in reply["details"]


def test_the_catalogue_is_read_from_the_library_in_a_process_of_its_own(
    setup: GatewaySetup, manager: Client
) -> None:
    pytest.importorskip("genai_prices", reason="needs: pip install genai-prices")
    before = "genai_prices" in sys.modules
    reply = manager.send("POST", f"{ALL}/refresh")
    assert reply.status == 200, reply.body
    assert reply["source"].startswith("genai-prices ")
    assert ("genai_prices" in sys.modules) is before  # the daemon is a thread of this process
    path = Path(setup.layout.price_catalogue)
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["at"] == reply["at"]
    (found,) = manager.get(f"{ALL}?supplier=openai&name=gpt-5.1&limit=1")["items"]
    assert found["model"] == "gpt-5.1"


def test_a_damaged_catalogue_is_as_none(setup: GatewaySetup, manager: Client) -> None:
    Path(setup.layout.price_catalogue).write_text("{")
    assert manager.get(ALL)["problem"]
