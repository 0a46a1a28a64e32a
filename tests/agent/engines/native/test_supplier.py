"""The handling of each kind of trouble with a supplier."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import RateLimited, TurnFailed
from agentd.agent.engines.native.supplier import (
    MOST_TRIMS,
    Recovery,
    RetryAfter,
    RetryPolicy,
    TrimConversation,
)
from agentd.core.clock import FrozenClock
from agentd.core.errors import SupplierUnreachable
from agentd.llm.conversation import SupplierError
from agentd.llm.endpoint import SupplierAccess

KEY = "sk-canary-0123456789"
ACCESS = SupplierAccess("acme", "openai-chat", "https://acme.example/v1", KEY)
UNREACHABLE = SupplierUnreachable("acme.example cannot be connected to", "connect", "acme.example")
CHANCES = st.floats(0, 1)


def make_recovery(chance: float = 1.0, **more) -> Recovery:
    return Recovery(ACCESS, "large", RetryPolicy(**more), FrozenClock(), lambda: chance)


KINDS = ("rate_limit", "overloaded", "server", "garbled", "unusable_reply", "broken")


@given(CHANCES, st.sampled_from(KINDS))
def test_pauses_grow_to_a_bound_and_then_it_ends(chance, kind):
    it = make_recovery(chance, tries=8, first=1.0, longest=10.0)
    pauses = []
    while isinstance(cure := it.decide(SupplierError(kind, "no"), shown=False), RetryAfter):
        pauses.append(cure.seconds)
    assert len(pauses) == 7
    for number, pause in enumerate(pauses):
        assert min(2**number, 10) / 2 <= pause <= min(2**number, 10)
    assert isinstance(cure, RateLimited if kind == "rate_limit" else TurnFailed)
    assert getattr(cure, "until", "") == ""


def test_a_host_that_is_not_reached_is_tried_again_too():
    it = make_recovery(tries=3)
    assert [type(it.decide(UNREACHABLE, shown=False)) for _ in range(3)] == [
        RetryAfter,
        RetryAfter,
        TurnFailed,
    ]


@given(st.floats(0, 60), CHANCES)
def test_what_the_supplier_asks_to_wait_is_waited(seconds, chance):
    cure = make_recovery(chance).decide(SupplierError("rate_limit", "no", seconds), shown=False)
    assert isinstance(cure, RetryAfter)
    assert seconds <= cure.seconds <= seconds + 1


@pytest.mark.parametrize("kind", ["rate_limit", "overloaded", "server", "quota"])
def test_a_long_wait_puts_the_turn_off(kind):
    cure = make_recovery().decide(SupplierError(kind, "Later.", 90.5), shown=False)
    assert cure == RateLimited("acme limits its use: Later.", "2026-01-01T00:01:30.500Z")


def test_a_known_end_of_a_quota_puts_the_turn_off_and_an_unknown_one_fails():
    known = make_recovery().decide(SupplierError("quota", "Used up.", 5.0), shown=False)
    assert isinstance(known, RateLimited)
    assert known.until == "2026-01-01T00:00:05.000Z"
    assert isinstance(
        make_recovery().decide(SupplierError("quota", "Pay."), shown=False), TurnFailed
    )


def test_what_was_shown_is_tried_once_more_only():
    it = make_recovery()
    assert isinstance(it.decide(SupplierError("broken", "cut"), shown=True), RetryAfter)
    assert isinstance(it.decide(SupplierError("broken", "cut"), shown=True), TurnFailed)
    it = make_recovery()
    assert isinstance(it.decide(UNREACHABLE, shown=True), RetryAfter)
    assert isinstance(it.decide(UNREACHABLE, shown=False), RetryAfter)
    assert isinstance(it.decide(UNREACHABLE, shown=True), TurnFailed)


def test_a_conversation_that_is_too_long_is_trimmed_some_times():
    it = make_recovery()
    for _ in range(MOST_TRIMS):
        cure = it.decide(SupplierError("context_too_long", "long"), shown=False)
        assert cure == TrimConversation()
    cure = it.decide(SupplierError("context_too_long", "long"), shown=False)
    assert isinstance(cure, TurnFailed)
    assert "too long for large" in cure.reason


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("authentication", "acme did not accept its key: .* suppliers.acme.key in config/models"),
        ("permission", "does not allow this with the key of suppliers.acme.key"),
        ("not_found", "acme does not know the model large"),
        ("invalid_request", "acme could not answer"),
        ("quota", "requests until it is paid"),
    ],
)
def test_what_does_not_pass_fails_at_once_and_says_what_to_do(kind, told):
    cure = make_recovery().decide(SupplierError(kind, f"Wrong: {KEY}."), shown=False)
    assert isinstance(cure, TurnFailed)
    assert re.search(told, cure.reason)
    assert KEY not in cure.reason


def test_a_missing_key_is_told_as_such():
    access = SupplierAccess("acme", "anthropic", "https://acme.example")
    it = Recovery(access, "large", RetryPolicy(), FrozenClock())
    cure = it.decide(SupplierError("authentication", "No key."), shown=False)
    assert isinstance(cure, TurnFailed)
    assert "acme requires a key, but none is set" in cure.reason


@given(st.sampled_from(["rate_limit", "server", "broken", "authentication", "quota"]))
def test_no_key_is_ever_told(kind):
    it = make_recovery(tries=1)
    cure = it.decide(SupplierError(kind, f"You sent {KEY}", 100.0), shown=False)
    assert KEY not in repr(cure)
    assert KEY not in repr(ACCESS)
    assert KEY not in str(ACCESS)
