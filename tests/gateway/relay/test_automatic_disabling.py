"""A channel whose key its supplier refuses again and again is disabled, with a note of why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentd.core.clock import parse_iso
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import Router
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import manager
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Refuse, Say
from tests.support.daemon import Serving, until

__all__ = ["manager"]

CHAT = "/api/agent/channels/chat"
REFUSED = Refuse(401, "wrong key")


@pytest.fixture
def setup(setup: GatewaySetup) -> GatewaySetup:
    """A gateway that disables after three refusals, and whose channel never cools down."""
    setup.settings["disable_channel_after"] = 3
    setup.channels[0]["cool_down"] = 0
    return setup


@pytest.fixture
def caller(setup: GatewaySetup, manager: Manager, start_gateway: Callable[..., Serving]) -> Caller:
    return Caller(start_gateway().port, setup.add_key())


def ask(setup: GatewaySetup, caller: Caller, *steps: Any) -> list[int]:
    """Return the status of a request for each step of the supplier."""
    setup.supplier.script(*steps)
    return [caller.ask("openai-chat", "by-chat").status for _ in steps]


def wait_until_disabled(manager: Manager) -> Any:
    """Return the channel once it is disabled and that is recorded, which is a moment later."""
    until(lambda: manager.get("/api/agent/changes?limit=1")["items"])
    shown = manager.get(CHAT).json()
    assert shown["enabled"] is False
    return shown


def test_it_is_disabled_with_a_note_everywhere_and_enabling_clears_it(
    setup: GatewaySetup, manager: Manager, caller: Caller
) -> None:
    assert ask(setup, caller, REFUSED, REFUSED, Say("well"), REFUSED, REFUSED)[2] == 200
    assert manager.get(CHAT)["enabled"] is True
    ask(setup, caller, REFUSED)
    note = wait_until_disabled(manager)["autoDisabled"]
    assert note["reason"] == "The supplier did not accept its key, 3 times in a row"
    parse_iso(note["at"])
    text = Path(setup.layout.channels).read_text()
    assert note["reason"] in text
    change = manager.get("/api/agent/changes?limit=1")["items"][0]
    assert (change["by"], change["action"], change["name"]) == ("gateway", "disable", "chat")
    assert change["after"]["autoDisabled"] == note
    (entry,) = until(
        lambda: manager.get("/api/agent/service-log?kind=channel_disabled&channel=chat")["items"]
    )
    assert (entry["level"], note["reason"] in entry["text"]) == ("error", True)
    assert ask(setup, caller, Say("no"))[0] >= 400
    setup.supplier.forget()
    enabled = manager.send("POST", f"{CHAT}/enable")
    assert (enabled["enabled"], enabled["autoDisabled"]) == (True, None)
    assert note["reason"] not in Path(setup.layout.channels).read_text()
    assert ask(setup, caller, Say("well"), REFUSED, REFUSED)[0] == 200
    assert manager.get(CHAT)["enabled"] is True
    assert SECRET not in str(change)


def test_it_can_be_undone_and_its_note_cannot_be_written(
    setup: GatewaySetup, manager: Manager, caller: Caller
) -> None:
    ask(setup, caller, *[REFUSED] * 3)
    shown = wait_until_disabled(manager)
    assert manager.patch(CHAT, {**shown, "autoDisabled": None})["autoDisabled"] is not None
    number = manager.get("/api/agent/changes?limit=1")["items"][0]["number"]
    assert manager.send("POST", f"/api/agent/changes/{number}/undo").status < 300
    assert (manager.get(CHAT)["enabled"], manager.get(CHAT)["autoDisabled"]) == (True, None)
    assert (
        manager.patch(CHAT, {"autoDisabled": {"at": "now", "reason": "x"}})["autoDisabled"] is None
    )
    made = manager.post("/api/agent/channels", {**shown, "name": "other"})
    assert made.status == 400


def test_by_default_nothing_is_disabled() -> None:
    router = Router(lambda: 0.5, lambda: 0.0)
    channel = Channel(name="a", dialects=("anthropic",), url="https://a.b")
    for _ in range(1000):
        router.record_failure(channel, "authentication")
    assert router.get_health({"a": channel})["a"].state == "cooldown"


def test_refusals_are_counted_in_a_row_and_anew_for_another_key() -> None:
    counts: list[int] = []

    def on_refused(channel: Channel, count: int) -> bool:
        counts.append(count)
        return count == 3

    router = Router(lambda: 0.5, lambda: 0.0, None, on_refused)
    channel = Channel(name="a", dialects=("anthropic",), url="https://a.b", key="env:A")
    other = Channel(name="a", dialects=("anthropic",), url="https://a.b", key="env:B")
    for kind in ("authentication", "server", "rate_limit", "authentication"):
        router.record_failure(channel, kind)
    router.record_failure(channel, "authentication", detail="the variable A is not set")
    router.record_failure(channel, "authentication")
    router.record_failure(channel, "authentication")
    router.record_failure(other, "authentication")
    router.record_failure(other, "authentication")
    router.record_success(other)
    router.record_failure(other, "authentication")
    assert counts == [1, 2, 3, 1, 1, 2, 1]
