"""What is done about each trouble with a supplier."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import Failed, Limited
from agentd.agent.native.supplier import Patience, Recovery, SupplierAccess, Trim, Wait
from agentd.clock import FrozenClock
from agentd.errors import SupplierUnreachable
from agentd.proxy.dialects.conversation import SupplierError

KEY = "sk-canary-0123456789"
ACCESS = SupplierAccess("acme", "openai-chat", "https://acme.example/v1", KEY)
UNREACHABLE = SupplierUnreachable("acme.example cannot be connected to", "connect", "acme.example")
CHANCES = st.floats(0, 1)


def recovery(chance: float = 1.0, **more) -> Recovery:
    return Recovery(ACCESS, "large", Patience(**more), FrozenClock(), lambda: chance)


@given(CHANCES, st.sampled_from(["rate_limit", "overloaded", "server", "garbled", "broken"]))
def test_pauses_grow_to_a_bound_and_then_it_ends(chance, kind):
    it = recovery(chance, tries=8, first=1.0, longest=10.0)
    pauses = []
    while isinstance(cure := it.after(SupplierError(kind, "no"), shown=False), Wait):
        pauses.append(cure.seconds)
    assert len(pauses) == 7
    for number, pause in enumerate(pauses):
        assert min(2**number, 10) / 2 <= pause <= min(2**number, 10)
    assert isinstance(cure, Limited if kind == "rate_limit" else Failed)
    assert getattr(cure, "until", "") == ""


def test_a_host_that_is_not_reached_is_tried_again_too():
    it = recovery(tries=3)
    assert [type(it.after(UNREACHABLE, shown=False)) for _ in range(3)] == [Wait, Wait, Failed]


@given(st.floats(0, 60), CHANCES)
def test_what_the_supplier_asks_to_wait_is_waited(seconds, chance):
    cure = recovery(chance).after(SupplierError("rate_limit", "no", seconds), shown=False)
    assert isinstance(cure, Wait)
    assert seconds <= cure.seconds <= seconds + 1


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded", "server", "quota"])
def test_a_long_wait_puts_the_turn_off(kind):
    cure = recovery().after(SupplierError(kind, "Later.", 90.5), shown=False)
    assert cure == Limited("acme limits the use of it: Later.", "2026-01-01T00:01:30.500Z")


def test_a_known_end_of_a_quota_puts_the_turn_off_and_an_unknown_one_fails():
    known = recovery().after(SupplierError("quota", "Used up.", 5.0), shown=False)
    assert isinstance(known, Limited)
    assert known.until == "2026-01-01T00:00:05.000Z"
    assert isinstance(recovery().after(SupplierError("quota", "Pay."), shown=False), Failed)


def test_what_was_shown_is_tried_once_more_only():
    it = recovery()
    assert isinstance(it.after(SupplierError("broken", "cut"), shown=True), Wait)
    assert isinstance(it.after(SupplierError("broken", "cut"), shown=True), Failed)
    it = recovery()
    assert isinstance(it.after(UNREACHABLE, shown=True), Wait)
    assert isinstance(it.after(UNREACHABLE, shown=False), Wait)
    assert isinstance(it.after(UNREACHABLE, shown=True), Failed)


def test_a_conversation_that_is_too_long_is_trimmed_once():
    it = recovery()
    assert it.after(SupplierError("context_too_long", "long"), shown=False) == Trim()
    cure = it.after(SupplierError("context_too_long", "long"), shown=False)
    assert isinstance(cure, Failed)
    assert "too long for large" in cure.reason


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("authentication", "acme did not accept its key: .* suppliers.acme.key in config/models"),
        ("permission", "does not allow this with the key of suppliers.acme.key"),
        ("not_found", "acme does not know the model large"),
        ("invalid_request", "acme could not answer"),
        ("quota", "no more until it is paid"),
    ],
)
def test_what_does_not_pass_fails_at_once_and_says_what_to_do(kind, told):
    cure = recovery().after(SupplierError(kind, f"Wrong: {KEY}."), shown=False)
    assert isinstance(cure, Failed)
    assert re.search(told, cure.reason)
    assert KEY not in cure.reason


def test_a_missing_key_is_told_as_such():
    access = SupplierAccess("acme", "anthropic", "https://acme.example")
    it = Recovery(access, "large", Patience(), FrozenClock())
    cure = it.after(SupplierError("authentication", "No key."), shown=False)
    assert isinstance(cure, Failed)
    assert "acme wants a key, and has none" in cure.reason


@given(st.sampled_from(["rate_limit", "server", "broken", "authentication", "quota"]))
def test_no_key_is_ever_told(kind):
    it = recovery(tries=1)
    cure = it.after(SupplierError(kind, f"You sent {KEY}", 100.0), shown=False)
    assert KEY not in repr(cure)
    assert KEY not in repr(ACCESS)
    assert KEY not in str(ACCESS)
