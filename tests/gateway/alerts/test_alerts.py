"""What happens in a whole gateway is told to its targets, signed and once."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openai
import pytest

from agentd.core.clock import format_iso
from agentd.gateway.alerts import monitor
from agentd.gateway.alerts.model import Alert, AlertDelivery
from agentd.gateway.alerts.states import FiringTopic
from agentd.gateway.alerts.store import AlertFile, AlertsJson
from agentd.gateway.channels import balances
from agentd.storage.checksummed_json import encode_checksummed
from tests.bots.bot_api import REVOKED, TOKEN, USER, BotApi
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.alerts.receiver import AlertReceiver
from tests.gateway.alerts.setup import build_target, write_targets
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.gateway.ledger.entries import build_record
from tests.gateway.relay.test_full_disk import Disk, disk
from tests.supplier.steps import Answer, Refuse, Say, Step, Tokens
from tests.support.daemon import Client, Serving, until
from tests.test_daemon import Process

__all__ = ["disk"]

WELL = Answer((Say("well"),), Tokens(input=1000, output=1000))
"""Costs 0.018 USD."""
FREE = Answer((Say("well"),), Tokens(input=10, output=10))
"""Costs next to nothing."""
GITHUB = "ghp_" + "Ab3dEf6hIj" * 3 + "Kl9mNo"
ERROR = Refuse(500, "internal error")
NOW = format_iso(datetime.now(UTC))


@pytest.fixture(autouse=True)
def _polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "POLL_SECONDS", 0.05)


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    with AlertReceiver() as found:
        yield found


@pytest.fixture
def told(setup: GatewaySetup, receiver: AlertReceiver) -> GatewaySetup:
    """A gateway with one channel and one target, which is not started yet."""
    setup.channels, setup.models = setup.channels[:1], setup.models[:1]
    setup.channels[0]["cool_down"] = 0.001
    setup.settings = {"alerts": {"error_rate": None}}
    write_targets(setup, build_target(receiver))
    return setup


@pytest.fixture
def ask(told: GatewaySetup, start_gateway: Callable[..., Serving]) -> Iterator[Callable[..., str]]:
    """Let the supplier do a step of a script; return the answer or the status of the error."""
    opened: list[openai.OpenAI] = []
    key = told.add_key(name="laptop", limits={"day": "0.04"})

    def send(step: Step = WELL, text: str = "hello") -> str:
        daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
        if not opened:
            opened.append(
                openai.OpenAI(base_url=f"{daemon.url}/v1", api_key=key, max_retries=0, timeout=60)
            )
        told.supplier.script(step)
        messages: Any = [{"role": "user", "content": text}]
        try:
            found = opened[0].chat.completions.create(model="by-chat", messages=messages)
        except openai.APIStatusError as error:
            return str(error.status_code)
        return found.choices[0].message.content or ""

    yield send
    for one in opened:
        one.close()


def wait_for_kinds(receiver: AlertReceiver, *kinds: tuple[str, str]) -> list[dict[str, Any]]:
    """Wait for these messages, in this order, and no others."""
    until(lambda: len(receiver.received) >= len(kinds))
    assert receiver.list_kinds() == list(kinds)
    return receiver.verify_all()


def manage(daemon: Serving | None) -> Client:
    assert daemon is not None
    return Manager(daemon.url, MANAGEMENT_KEY)


def wait_until_delivered(manager: Client) -> None:
    """Wait until the newest alert is noted as delivered to its only target."""

    def is_delivered() -> bool:
        (delivery,) = manager.get("/api/agent/alerts?limit=1")["items"][0]["deliveries"]
        return bool(delivery["state"] == "delivered")

    until(is_delivered)


def test_a_channel_is_told_to_be_down_once_and_to_work_again_once(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    assert [ask(ERROR), ask(ERROR), ask(ERROR)] == ["500"] * 3
    (down,) = wait_for_kinds(receiver, ("channel_down", "firing"))
    assert down["subject"] == "chat"
    assert SECRET not in json.dumps(down)
    assert [ask(FREE), ask(FREE)] == ["well"] * 2
    _, up = wait_for_kinds(receiver, ("channel_down", "firing"), ("channel_down", "resolved"))
    assert up["since"]
    with closing(manage(told.daemon)) as manager:
        wait_until_delivered(manager)
        page = manager.get("/api/agent/alerts").json()
    assert [(one["kind"], one["state"]) for one in page["items"]] == [
        ("channel_down", "resolved"),
        ("channel_down", "firing"),
    ]
    assert [one["id"] for one in page["items"]] == [up["id"], down["id"]]
    assert page["items"][0]["deliveries"][0]["answer"] == "200 thanks"
    assert (page["firing"], page["watched"]) == ([], True)


def test_a_channel_that_was_disabled_is_told_until_it_is_enabled(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    told.settings["disable_channel_after"] = 2
    write_targets(told, build_target(receiver, alerts=["channel_disabled"]))
    refused = Refuse(401, f"wrong key {SECRET}")
    assert [int(ask(refused)) >= 400, int(ask(refused)) >= 400] == [True, True]
    (disabled,) = wait_for_kinds(receiver, ("channel_disabled", "firing"))
    assert (disabled["subject"], disabled["text"]) == (
        "chat",
        'The channel "chat" was disabled: The supplier did not accept its key, 2 times in a row',
    )
    with closing(manage(told.daemon)) as manager:
        assert manager.get("/api/agent/channels/chat")["enabled"] is False
        assert manager.send("POST", "/api/agent/channels/chat/enable").status == 200
    _, enabled = wait_for_kinds(
        receiver, ("channel_disabled", "firing"), ("channel_disabled", "resolved")
    )
    assert enabled["text"] == 'The channel "chat" is enabled again.'


def test_a_low_balance_is_told_once_also_after_a_restart(
    told: GatewaySetup, receiver: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balances, "DELAY", 0.0)
    told.channels[0]["balance"] = {"source": "deepseek", "low": "5"}
    tell_balance(told, "4.2")
    told.write()
    for _ in range(2):
        asked = len(told.supplier.others)
        with Serving(told.folder, environ={"PROXY_APP_HASH": HASH}) as daemon:
            until(lambda: len(told.supplier.others) > asked)  # noqa: B023 - called at once
            (low,) = wait_for_kinds(receiver, ("balance_low", "firing"))
            assert (low["subject"], low["title"]) == ("chat", "Balance low")
            assert "4.2 USD" in low["text"]
            with closing(Manager(daemon.url, MANAGEMENT_KEY)) as manager:
                firing = manager.get("/api/agent/alerts").json()["firing"]
                assert [one["kind"] for one in firing] == ["balance_low"]
    tell_balance(told, "50")
    with Serving(told.folder, environ={"PROXY_APP_HASH": HASH}):
        wait_for_kinds(receiver, ("balance_low", "firing"), ("balance_low", "resolved"))


def tell_balance(setup: GatewaySetup, amount: str) -> None:
    """Let the supplier tell what is left of the account."""
    told = {"balance_infos": [{"currency": "USD", "total_balance": amount}]}
    setup.supplier.documents["/user/balance"] = told


@pytest.mark.usefixtures("told")
def test_limits_are_told_when_they_are_near_and_when_they_are_reached(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    assert [ask(), ask(), ask()] == ["well", "well", "429"]
    near, hit = wait_for_kinds(receiver, ("limit_near", "firing"), ("limit_hit", "firing"))
    assert near["text"].startswith('The access key "laptop" has used 0.036 of 0.04 USD a day')
    assert "requests are refused" in hit["text"]
    assert ask() == "429"
    with closing(manage(told.daemon)) as manager:
        (key,) = manager.get("/api/agent/keys")["items"]
        manager.patch(f"/api/agent/keys/{key['id']}", {"limits": {"day": 100}})
    wait_for_kinds(
        receiver, ("limit_near", "firing"), ("limit_hit", "firing"), ("limit_hit", "resolved")
    )


@pytest.mark.usefixtures("told")
def test_a_budget_that_is_raised_may_spend_again_which_is_told_as_is_its_new_limit(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    """The limit of the key has room for all of it."""
    hit, over = ("limit_hit", "firing"), ("limit_hit", "resolved")
    assert ask() == "well"
    with closing(manage(told.daemon)) as manager:
        (key,) = manager.get("/api/agent/keys")["items"]
        address = f"/api/agent/keys/{key['id']}"
        manager.patch(address, {"limits": {"day": 100}, "tags": ["team"]})
        budget = {"name": "team", "tag": "team", "limits": {"total": "0.04"}}
        assert manager.post("/api/agent/budgets", budget).status == 201
        assert [ask(), ask(), ask()] == ["well", "well", "429"]
        wait_for_kinds(receiver, hit)
        raised = {"limits": {"total": "0.06"}}
        assert manager.patch("/api/agent/budgets/team", raised).status == 200
        wait_for_kinds(receiver, hit, over)
        assert [ask(), ask()] == ["well", "429"]
        wait_for_kinds(receiver, hit, over, hit)
        assert manager.delete("/api/agent/budgets/team").status == 204
        told_last = wait_for_kinds(receiver, hit, over, hit, over)[-1]
        assert told_last["text"] == "The limit was removed."


@pytest.mark.usefixtures("told")
def test_a_secret_is_told_by_its_rule_and_never_by_its_value(
    receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    assert ask(FREE, f"use {GITHUB} for it") == "well"
    (found,) = wait_for_kinds(receiver, ("secret_found", "firing"))
    assert 'rule "github"' in found["text"]
    assert '"laptop"' in found["text"]
    assert GITHUB not in receiver.received[0].body.decode()


def test_a_high_error_rate_is_told(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    write_targets(told, build_target(receiver, alerts=["error_rate"]))
    told.settings = {"alerts": {"error_rate": 50, "error_requests": 4}}
    assert ask(FREE) == "well"
    assert [ask(ERROR), ask(ERROR), ask(ERROR)] == ["500"] * 3
    (high,) = wait_for_kinds(receiver, ("error_rate", "firing"))
    assert high["text"] == "3 of the last 4 requests failed within 5 minutes."


def test_a_failing_export_is_told(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    told.settings["export"] = {"url": "http://127.0.0.1:9"}
    day = Path(told.layout.get_ledger_day_path("2026-01-01"))
    day.parent.mkdir(parents=True)
    day.write_bytes(encode_checksummed(build_record()))
    ask(FREE)
    (failing,) = wait_for_kinds(receiver, ("export_failing", "firing"))
    assert "analytics database" in failing["text"]


def test_a_ledger_that_cannot_be_written_is_told(
    receiver: AlertReceiver, ask: Callable[..., str], disk: Disk
) -> None:
    assert ask(FREE) == "well"
    disk.full = True
    assert ask(FREE) == "500"
    (failing,) = wait_for_kinds(receiver, ("ledger_failing", "firing"))
    assert failing["text"].startswith("Requests cannot be recorded")
    disk.full = False
    until(lambda: ask(FREE) == "well")
    wait_for_kinds(receiver, ("ledger_failing", "firing"), ("ledger_failing", "resolved"))


def test_without_a_target_nothing_is_watched(
    told: GatewaySetup, receiver: AlertReceiver, ask: Callable[..., str]
) -> None:
    write_targets(told, build_target(receiver, enabled=False))
    ask(ERROR)
    with closing(manage(told.daemon)) as manager:
        page = manager.get("/api/agent/alerts").json()
    assert page == {"items": [], "next": "", "firing": [], "watched": False}
    assert not Path(told.layout.alerts).exists()


def test_kill_9_between_the_event_and_its_delivery_loses_nothing(
    told: GatewaySetup, receiver: AlertReceiver
) -> None:
    """The receiver refuses until the daemon is gone; the next daemon delivers, by the same id."""
    receiver.status = 503
    key = told.add_key()
    told.write()
    told.supplier.script(ERROR)
    first = Process(told.folder).up()
    with (
        openai.OpenAI(
            base_url=f"{first.announced()['url']}/v1", api_key=key, max_retries=0, timeout=60
        ) as client,
        pytest.raises(openai.InternalServerError),
    ):
        client.chat.completions.create(
            model="by-chat", messages=[{"role": "user", "content": "hello"}]
        )
    until(lambda: receiver.received)
    first.end(signal.SIGKILL)
    refused = receiver.verify_all()[0]
    (kept,) = AlertFile(told.layout).load().alerts
    assert kept.id == refused["id"]
    assert kept.deliveries[0].state == "pending"
    receiver.status = 204
    count = len(receiver.received)
    second = Process(told.folder).up()
    until(lambda: len(receiver.received) > count)
    assert receiver.verify_all()[-1] == refused
    second.end(signal.SIGTERM)
    (done,) = AlertFile(told.layout).load().alerts
    assert done.deliveries[0].state == "delivered"
    assert done.deliveries[0].answer == "204"


def test_a_file_of_targets_that_is_not_valid_at_the_start_loses_no_alert(
    told: GatewaySetup, receiver: AlertReceiver
) -> None:
    """What a target has not accepted yet is sent once the file is valid again."""
    told.write()
    with Serving(told.folder):
        pass
    waits = AlertDelivery(target="ops", attempts=1, not_before="2026-01-01T00:00:00.000Z")
    text = 'The channel "chat" failed.'
    alert = Alert(
        id="alert_1", at=NOW, kind="channel_down", subject="chat", text=text, deliveries=(waits,)
    )
    firing = FiringTopic("channel_down", "chat", NOW)
    AlertFile(told.layout).save(AlertsJson(firing=(firing,), alerts=(alert,)))
    path = Path(told.layout.alert_targets)
    content = path.read_text()
    path.write_text(f"{content}]")
    with (
        Serving(told.folder, environ={"PROXY_APP_HASH": HASH}) as daemon,
        closing(manage(daemon)) as manager,
    ):
        (shown,) = manager.get("/api/agent/alerts")["items"]
        assert [one["state"] for one in shown["deliveries"]] == ["pending"]
        path.write_text(content)
        wait_until_delivered(manager)
        assert [one["subject"] for one in manager.get("/api/agent/alerts")["firing"]] == ["chat"]
    wait_for_kinds(receiver, ("channel_down", "firing"))


def test_a_soft_limit_is_told_once_though_kill_9_came_between_the_booking_and_the_alert(
    told: GatewaySetup, receiver: AlertReceiver
) -> None:
    """What is spent is on disk and the alert is not: the next start tells it, and no other."""
    receiver.status = 503
    key = told.add_key(tags=["team"], soft_limits={"total": "0.01"}, owner="ann")
    budgets = [{"name": "Team", "tag": "team", "limits": {"day": 1}, "warn_at": 0.01}]
    Path(told.layout.budgets).write_text(json.dumps({"budgets": budgets}))
    told.write()
    alerts = Path(told.layout.alerts)
    alerts.mkdir(parents=True)  # no alert can be kept there
    first = Process(told.folder).up()
    ask_once(told, first, key)
    told.wait_for_records(1)
    first.end(signal.SIGKILL)
    alerts.rmdir()
    receiver.status = 204
    receiver.received.clear()
    for _ in range(2):
        daemon = Process(told.folder).up()
        until(lambda: len(receiver.received) >= 2)
        daemon.end(signal.SIGKILL)
    last = Process(told.folder).up()
    with pytest.raises(openai.InternalServerError):
        ask_once(told, last, key, ERROR)
    until(lambda: ("channel_down", "firing") in receiver.list_kinds())
    last.end(signal.SIGTERM)
    texts = {one["id"]: one["text"] for one in receiver.verify_all()}
    near = [text for text in texts.values() if "passed its soft limit" in text]
    assert len(near) == 2, texts
    assert any(text.startswith('The tag "team" passed its soft limit') for text in near)
    assert any("of 0.01 USD in all" in text for text in near)


def ask_once(told: GatewaySetup, daemon: Process, key: str, step: Step = WELL) -> None:
    told.supplier.script(step)
    with openai.OpenAI(
        base_url=f"{daemon.announced()['url']}/v1", api_key=key, max_retries=0, timeout=60
    ) as client:
        client.chat.completions.create(
            model="by-chat", messages=[{"role": "user", "content": "hello"}]
        )


def test_telegram_is_told_by_a_bot_of_the_daemon(
    told: GatewaySetup, ask: Callable[..., str]
) -> None:
    pytest.importorskip("telegram", reason="the extra telegram is not installed")
    with BotApi() as api:
        bot = {"id": "helper", "token": TOKEN, "users": [USER], "base_url": api.url}
        path = Path(told.layout.bots_settings)
        path.write_text(json.dumps({"bots": [bot]}))
        path.chmod(0o600)
        write_targets(told, {"name": "me", "kind": "telegram", "bot": "helper", "chat": USER})
        assert ask(ERROR) == "500"
        (sent,) = until(lambda: [one for one in api.sent if one["method"] == "sendMessage"])
        assert str(sent["chat_id"]) == str(USER)
        assert 'The channel "chat" failed' in sent["text"]
        with closing(manage(told.daemon)) as manager:
            wait_until_delivered(manager)
            api.fault = lambda method: REVOKED
            answer = manager.post("/api/agent/alert-targets/me/test", None).json()
            assert (answer["ok"], answer["status"]) == (False, None)
            assert TOKEN not in answer["answer"]
            manager.patch("/api/agent/alert-targets/me", {"bot": "halper"})
            missing = manager.post("/api/agent/alert-targets/me/test", None)
            assert 'did you mean "helper"?' in missing["answer"]
        assert told.daemon
        told.daemon.stop()
