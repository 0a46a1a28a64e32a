"""Methods of the hub: what they ask for, and what a connection then gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.live.signalr.hub import CHATS_LIMIT, Subscribe, Subscription, Unsubscribe, parse_command
from agentd.live.signalr.messages import Call
from tests.live.signalr.test_messages import ANYTHING


def parse_call(target, *arguments, stream=False):
    return parse_command(Call(target, list(arguments), "1", stream))


def test_calls_become_commands():
    assert parse_call("Subscribe", "all") == Subscribe(None)
    assert parse_call("Subscribe", [1, 2, 2], 7) == Subscribe(frozenset({1, 2}), 7)
    assert parse_call("Subscribe", "all", 7, "0a1b2c3d") == Subscribe(None, 7, "0a1b2c3d")
    assert parse_call("subscribe", [], None) == Subscribe(frozenset())
    assert parse_call("subscribe", [], 7, None) == Subscribe(frozenset(), 7)
    assert parse_call("Unsubscribe", "all") == Unsubscribe(None)
    assert parse_call("UNSUBSCRIBE", [3]) == Unsubscribe(frozenset({3}))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("Nope",), "^Unknown hub method 'Nope'$"),
        (("x" * 1000,), "^Unknown hub method 'x{80}'$"),
        ((None,), "Unknown hub method ''"),
        (("Subscribe",), "Expected Subscribe"),
        (("Subscribe", "all", 1, "0a1b2c3d", 2), "Expected Subscribe"),
        (("Subscribe", "all", 1, 2), "runId"),
        (("Unsubscribe", "all", 1), "Expected Subscribe"),
        (("Subscribe", "some"), "chatIds"),
        (("Subscribe", 5), "chatIds"),
        (("Subscribe", [0]), "chatIds"),
        (("Subscribe", [True]), "chatIds"),
        (("Subscribe", [2**53]), "chatIds"),
        (("Subscribe", ["1"]), "chatIds"),
        (("Subscribe", "all", -1), "sinceSeq"),
        (("Subscribe", "all", "1"), "sinceSeq"),
        (("Subscribe", "all", 1.5), "sinceSeq"),
    ],
)
def test_other_calls_are_refused_in_words(call, says):
    with pytest.raises(BadRequest, match=says):
        parse_call(*call)


def test_no_method_is_a_stream():
    with pytest.raises(BadRequest, match="not streamed"):
        parse_call("Subscribe", "all", stream=True)


@given(ANYTHING | st.just("Subscribe"), ANYTHING)
def test_no_call_raises_anything_else(target, arguments):
    try:
        parse_command(Call(target, arguments, None, stream=False))
    except BadRequest as error:
        assert error.message


def test_without_a_call_every_event_is_wanted():
    assert all(Subscription().wants(chat) for chat in (1, 2, None))


def test_lists_narrow_and_add_and_all_widens_again():
    subscription = Subscription()

    def list_wanted():
        return {chat for chat in (1, 2, 3, None) if subscription.wants(chat)}

    subscription.change(Subscribe(frozenset({1})))
    assert list_wanted() == {1, None}
    subscription.change(Subscribe(frozenset({2})))
    assert list_wanted() == {1, 2, None}
    subscription.change(Unsubscribe(frozenset({1, 3})))
    assert list_wanted() == {2, None}
    subscription.change(Unsubscribe(None))
    assert list_wanted() == {None}
    subscription.change(Subscribe(None))
    assert list_wanted() == {1, 2, 3, None}


def test_some_of_all_cannot_be_taken_away():
    subscription = Subscription()
    with pytest.raises(BadRequest, match="by id first"):
        subscription.change(Unsubscribe(frozenset({1})))
    assert subscription.wants(1)


def test_a_connection_names_a_bounded_number_of_chats():
    subscription = Subscription()
    subscription.change(Subscribe(frozenset(range(1, CHATS_LIMIT + 1))))
    with pytest.raises(BadRequest, match="At most"):
        subscription.change(Subscribe(frozenset({CHATS_LIMIT + 1})))
    assert not subscription.wants(CHATS_LIMIT + 1)
