"""Budgets of owners and tags, limits on models within keys, and temporary raises."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.admin.api.test_keys import call_model
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client, Serving, until

ALL = "/api/agent/budgets"
KEYS = "/api/agent/keys"
FAR = "2099-01-01T00:00:00.000Z"
COST = 0.0045
"""USD of each call, which reserves up to 0.016 USD."""


@pytest.fixture(autouse=True)
def _answering(setup: GatewaySetup) -> None:
    setup.supplier.answer_always(Answer((Say("hi"),), Tokens(input=1000, output=100)))


def add_key(manager: Client, name: str, **fields: object) -> str:
    reply = manager.post(KEYS, {"name": name, **fields})
    assert reply.status == 201, reply.body
    return str(reply["key"])


def test_keys_with_a_tag_share_its_budget(setup: GatewaySetup, manager: Client) -> None:
    made = manager.post(ALL, {"name": "Research", "tag": "research", "limits": {"day": "0.03"}})
    assert made.status == 201, made.body
    assert made.headers["Location"] == f"{ALL}/Research"
    keys = [add_key(manager, name, tags=["research"]) for name in ("ann", "bob")]
    statuses = [call_model(manager, keys[number % 2]).status for number in range(6)]
    assert statuses == [200, 200, 200, 200, 429, 429]
    records = setup.wait_for_records(6)
    assert {one.error for one in records if one.status == 429} == {"limit_tag_day"}
    assert {one.tags for one in records} == {("research",)}
    shown = manager.get(f"{ALL}/Research").json()
    assert (shown["keys"], shown["spent"]["day"]) == (2, round(4 * COST, 6))
    (day,) = shown["limitUsage"]
    assert (day["name"], day["used"], day["reserved"]) == ("day", round(4 * COST, 6), 0)
    (forecast,) = shown["forecast"]
    assert forecast["name"] == "day"
    assert forecast["daysLeft"] > 0
    (further,) = manager.get(f"{KEYS}/ann").json()["furtherLimits"]
    assert (further["scope"], further["name"], further["budget"]) == ("tag", "research", "Research")
    assert further["spent"]["day"] == round(4 * COST, 6)


def test_what_is_booked_on_a_tag_is_what_keys_spent_while_they_had_it(manager: Client) -> None:
    manager.post(ALL, {"name": "a", "tag": "a"})
    manager.post(ALL, {"name": "b", "owner": "b"})
    key = add_key(manager, "ann", tags=["a"])
    assert call_model(manager, key).status == 200
    manager.patch(f"{KEYS}/ann", {"tags": [], "owner": "b"})
    for _ in range(2):
        assert call_model(manager, key).status == 200
    assert [manager.get(f"{ALL}/{name}")["spent"]["total"] for name in "ab"] == [COST, 2 * COST]


def test_spend_of_budgets_and_models_is_known_after_a_restart(
    setup: GatewaySetup, manager: Client, start_gateway: Callable[..., Serving]
) -> None:
    manager.post(ALL, {"name": "ann", "owner": "ann", "limits": {"month": "0.03"}})
    limits = {"by-*": {"total": "0.03"}}
    keys = [
        add_key(manager, "a", owner="ann"),
        add_key(manager, "b", modelLimits=limits),
    ]
    for key in keys:
        for _ in range(3):
            assert call_model(manager, key).status == 200
    first = start_gateway()
    first.stop()
    first.join()
    setup.daemon = None
    again = start_gateway(environ={"PROXY_APP_HASH": HASH}).client(MANAGEMENT_KEY)
    shown = again.get(f"{ALL}/ann").json()
    assert shown["limitUsage"][0]["used"] == round(3 * COST, 6)
    (model,) = again.get(f"{KEYS}/b").json()["furtherLimits"]
    assert (model["scope"], model["name"]) == ("model", "by-*")
    assert model["limitUsage"][0]["used"] == round(3 * COST, 6)
    for key in keys:
        assert [call_model(again, key).status for _ in range(3)] == [200, 429, 429]


def test_a_limit_on_a_model_counts_what_the_key_spent_on_it_before(manager: Client) -> None:
    key = add_key(manager, "ann")
    for model in ("by-chat", "by-chat", "by-messages"):
        assert call_model(manager, key, model).status == 200
    manager.patch(f"{KEYS}/ann", {"modelLimits": {"by-chat": {"day": "0.0091"}}})
    assert call_model(manager, key).status == 429
    assert call_model(manager, key, "by-messages").status == 200
    (model,) = manager.get(f"{KEYS}/ann").json()["furtherLimits"]
    assert model["limitUsage"][0]["used"] == round(2 * COST, 6)
    reply = manager.patch(f"{KEYS}/ann", {"modelLimits": {"by-chat": None}})
    assert reply["modelLimits"] == {}
    assert call_model(manager, key).status == 200


def test_what_models_cost_in_all_is_told_only_where_a_limit_has_it_counted(manager: Client) -> None:
    """Else days before the present month are not read, and a sum of the rest would mislead."""
    key = add_key(manager, "ann", modelLimits={"by-chat": {"day": "1"}})
    assert call_model(manager, key).status == 200
    quota = Client(manager.url, None, {"Authorization": f"Bearer {key}"})

    def read_spent() -> list[tuple[float | None, float]]:
        (shown,), (own,) = (
            manager.get(f"{KEYS}/ann")["furtherLimits"],
            quota.get("/v1/quota")["further"],
        )
        return [(one["spent"]["total"], one["spent"]["day"]) for one in (shown, own)]

    assert read_spent() == [(None, COST)] * 2
    manager.patch(f"{KEYS}/ann", {"modelLimits": {"by-chat": {"total": "5"}}})
    assert read_spent() == [(COST, COST)] * 2
    quota.close()


def test_limits_are_raised_until_a_moment_and_no_longer(manager: Client) -> None:
    key = add_key(manager, "ann", tags=["t"], limits={"day": "0.001"})
    manager.post(ALL, {"name": "t", "tag": "t", "limits": {"day": "0.001"}})
    assert call_model(manager, key).status == 429
    for path in (f"{KEYS}/ann", f"{ALL}/t"):
        raised = manager.post(f"{path}/raise", {"limits": {"day": 1}, "until": FAR})
        assert raised.status == 200, raised.body
        assert (raised["raised"]["by"], raised["raised"]["until"]) == ("management", FAR)
        assert raised["limitUsage"][0]["limit"] == 1
        assert raised["limits"]["day"] == 0.001, "the old limit stays written"
    assert call_model(manager, key).status == 200
    for path in (f"{KEYS}/ann", f"{ALL}/t"):
        assert manager.delete(f"{path}/raise")["raised"] is None
    assert call_model(manager, key).status == 429
    changes = manager.get("/api/agent/changes").json()["items"]
    assert [one["action"] for one in changes[:4]] == ["end_raise", "end_raise", "raise", "raise"]
    assert manager.send("POST", f"/api/agent/changes/{changes[0]['number']}/undo").status == 200
    assert manager.get(f"{ALL}/t")["raised"]["until"] == FAR


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        ({"limits": {"day": 1}, "until": "2020-01-01T00:00:00Z"}, "future"),
        ({"limits": {"day": 1}, "until": "tomorrow"}, "not a time"),
        ({"limits": {"week": 9}, "until": FAR}, "no limit week"),
        ({"limits": {"day": "0.5"}, "until": FAR}, "not more than 1"),
        ({"until": FAR}, "at least one"),
        ({"limits": {"day": 9}, "models": {"x": {"day": 9}}, "until": FAR}, '"x"'),
    ],
)
def test_a_raise_that_raises_nothing_is_refused(
    manager: Client, raised: dict[str, object], message: str
) -> None:
    add_key(manager, "ann", limits={"day": 1})
    reply = manager.post(f"{KEYS}/ann/raise", raised)
    assert reply.status == 400
    assert message in reply["message"] + reply["details"]
    assert manager.get(f"{KEYS}/ann")["raised"] is None


def test_soft_limits_are_shown_when_they_are_passed(manager: Client) -> None:
    manager.post(
        ALL, {"name": "t", "tag": "t", "limits": {"day": "0.03"}, "warnAt": 0.3, "softLimits": {}}
    )
    key = add_key(manager, "ann", tags=["t"], softLimits={"month": "0.006"})
    assert call_model(manager, key).status == 200
    assert [one["passed"] for one in manager.get(f"{KEYS}/ann")["softUsage"]] == [False]
    assert call_model(manager, key).status == 200
    (soft,) = manager.get(f"{KEYS}/ann")["softUsage"]
    assert (soft["name"], soft["amount"], soft["passed"]) == ("month", 0.006, True)
    (shared,) = manager.get(f"{ALL}/t")["softUsage"]
    assert (shared["amount"], shared["passed"]) == (0.009, True)


def test_budgets_are_changed_with_etag_dry_run_and_undo(
    setup: GatewaySetup, manager: Client
) -> None:
    made = manager.post(f"{ALL}?dry_run=true", {"name": "a", "tag": "a"})
    assert (made.status, manager.get(ALL)["items"]) == (201, [])
    manager.post(ALL, {"name": "a", "tag": "a", "limits": {"day": 1}})
    tag = manager.get(f"{ALL}/a").headers["ETag"]
    assert manager.patch(f"{ALL}/a", {"limits": {"day": 2}}).status == 200
    stale = manager.send("DELETE", f"{ALL}/a", headers={"If-Match": tag})
    assert stale.status == 412
    assert manager.delete(f"{ALL}/a").status == 204
    change = manager.get("/api/agent/changes?resource=budgets").json()["items"][0]
    assert manager.send("POST", f"/api/agent/changes/{change['number']}/undo").status == 200
    assert manager.get(f"{ALL}/a")["limits"]["day"] == 2
    assert manager.send("POST", f"{ALL}/a/disable")["enabled"] is False
    assert "enabled: false" in Path(setup.layout.budgets).read_text()


@pytest.mark.parametrize(
    "body",
    [
        {"name": "b"},
        {"name": "b", "tag": "b", "owner": "b"},
        {"name": "b", "tag": "b", "limits": {"day": -1}},
        {"name": "b", "tag": "b", "warnAt": 1.5},
        {"name": "b", "tag": " b"},
    ],
)
def test_a_budget_that_is_not_valid_changes_nothing(
    manager: Client, body: dict[str, object]
) -> None:
    manager.post(ALL, {"name": "a", "tag": "a"})
    assert manager.post(ALL, body).status == 400
    assert [one["name"] for one in manager.get(ALL)["items"]] == ["a"]


def test_what_is_not_valid_is_told_with_its_place_in_the_body(manager: Client) -> None:
    assert manager.post(ALL, {"name": "a", "tag": "a"}).status == 201
    negative = {"softLimits": {"day": -1}}
    for refused, place in [
        (manager.post(ALL, {"name": "b", "tag": "b", **negative}), "$.softLimits"),
        (manager.patch(f"{ALL}/a", negative), "$.softLimits"),
        (manager.patch(f"{ALL}/a", {"limits": {"day": -1}}), "$.limits"),
        (manager.patch(f"{ALL}/a", {"name": None}), "$.name"),
    ]:
        assert (refused.status, refused["message"]) == (400, "Invalid value")
        assert refused["details"].endswith(f" - at `{place}`")


def test_a_second_budget_of_a_tag_or_owner_conflicts_with_the_one_that_is_there(
    manager: Client,
) -> None:
    manager.post(ALL, {"name": "a", "tag": "a"})
    manager.post(ALL, {"name": "ann", "owner": "ann"})
    for refused in (
        manager.post(ALL, {"name": "b", "tag": "a"}),
        manager.patch(f"{ALL}/ann", {"owner": "", "tag": "a"}),
    ):
        assert (refused.status, refused["error"]) == (409, "Conflict")
        assert refused["message"] == 'The budget "a" is of the same tag.'
    taken = manager.post(ALL, {"name": "b", "owner": "ann"})
    assert (taken.status, taken["message"]) == (409, 'The budget "ann" is of the same owner.')
    assert [(one["name"], one["owner"]) for one in manager.get(ALL)["items"]] == [
        ("a", ""),
        ("ann", "ann"),
    ]
    assert manager.patch(f"{ALL}/a", {"limits": {"day": 1}}).status == 200
    assert manager.delete(f"{ALL}/a").status == 204
    assert manager.post(ALL, {"name": "b", "tag": "a"}).status == 201
    (change, *_) = manager.get("/api/agent/changes?action=delete")["items"]
    assert manager.send("POST", f"/api/agent/changes/{change['number']}/undo").status == 409


def test_a_budget_written_by_hand_holds_and_a_mistake_has_its_line(
    setup: GatewaySetup, manager: Client
) -> None:
    path = Path(setup.layout.budgets)
    key = add_key(manager, "ann", tags=["t"])
    path.write_text("budgets:\n  - name: t  # everybody\n    tag: t\n    limits: {day: 0}\n")
    until(lambda: call_model(manager, key).status == 429)
    manager.patch(f"{ALL}/t", {"limits": {"day": 3}})
    assert "# everybody" in path.read_text()
    path.write_text("budgets:\n  - name: t\n    tag: t\n    limits: {day: x}\n")
    problems = until(
        lambda: [one for one in manager.get("/api/agent/summary")["problems"] if "budgets" in one]
    )
    assert "budgets.yml:4" in problems[0]
    assert call_model(manager, key).status == 200, "the last valid limits hold"
