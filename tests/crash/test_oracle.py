"""The checker itself: it complains of each kind of loss and doubling, and of nothing else."""

import pytest

from tests.crash.oracle import (
    Append,
    ExpectedChat,
    Found,
    Given,
    Register,
    Remove,
    Replace,
    Rewrite,
    Said,
    WaitingPrompt,
    find_ledger_violations,
)


@pytest.fixture
def expected() -> ExpectedChat:
    """A chat in whose queue 1 and 2 wait; their texts are ``one`` and ``two``."""
    expected = ExpectedChat()
    for prompt_id, text in enumerate(("one", "two"), 1):
        expected.ask(wish := Append(text))
        expected.acknowledge_append(wish, prompt_id)
    return expected


def make_found(*queue: tuple[int, str], sent: tuple[str, ...] = ()) -> Found:
    messages = tuple(Said(100 + n, "user", text) for n, text in enumerate(sent))
    return Found(tuple(WaitingPrompt(*row) for row in queue), messages)


BOTH = ((1, "one"), (2, "two"))


@pytest.mark.parametrize(
    "there",
    [make_found(*BOTH), make_found((2, "two"), sent=("one",)), make_found(sent=("one", "two"))],
    ids=["waiting", "one sent", "both sent"],
)
def test_what_was_acknowledged_may_wait_or_have_been_sent(
    expected: ExpectedChat, there: Found
) -> None:
    assert not [*expected.find_violations(there)]


@pytest.mark.parametrize(
    "there",
    [
        make_found((1, "one")),
        make_found(*BOTH, sent=("one",)),
        make_found(sent=("one", "one", "two")),
        make_found((2, "two"), (1, "one")),
        make_found((1, "one"), (2, "other")),
        make_found(*BOTH, (3, "three")),
        make_found(*BOTH, sent=("three",)),
        make_found(*BOTH, (2, "two")),
        make_found(*BOTH)._replace(damage="line 3"),
    ],
    ids=[
        "lost", "in both", "sent twice", "order", "another text", "unasked prompt",
        "unasked message", "twice", "damaged",
    ],
)  # fmt: skip
def test_every_loss_and_every_doubling_is_a_complaint(expected: ExpectedChat, there: Found) -> None:
    assert [*expected.find_violations(there)]


@pytest.mark.parametrize(
    ("wish", "done"),
    [
        (Append("three"), make_found(*BOTH, (3, "three"))),
        (Rewrite(2, "new"), make_found((1, "one"), (2, "new"))),
        (Remove(2), make_found((1, "one"))),
        (
            Replace((WaitingPrompt(2, "new"), WaitingPrompt(0, "three"))),
            make_found((2, "new"), (3, "three")),
        ),
    ],
    ids=["append", "rewrite", "remove", "replace"],
)
def test_what_is_in_doubt_happened_as_a_whole_or_not_at_all(
    expected: ExpectedChat, wish: Append | Rewrite | Remove | Replace, done: Found
) -> None:
    assert [*expected.find_violations(done)]
    expected.ask(wish)
    assert not [*expected.find_violations(done)]
    assert not [*expected.find_violations(make_found(*BOTH))]
    assert [*expected.find_violations(make_found())]


def test_half_a_replacement_is_a_complaint(expected: ExpectedChat) -> None:
    expected.ask(Replace((WaitingPrompt(0, "three"), WaitingPrompt(0, "four"))))
    assert [*expected.find_violations(make_found((3, "three")))]
    assert [*expected.find_violations(make_found(*BOTH, (3, "three"), (4, "four")))]


def test_what_was_acknowledged_is_no_longer_in_doubt(expected: ExpectedChat) -> None:
    expected.ask(rewrite := Rewrite(2, "new"))
    expected.acknowledge_change(rewrite, there=True)
    assert [*expected.find_violations(make_found(*BOTH))]
    expected.ask(remove := Remove(1))
    expected.acknowledge_change(remove, there=True)
    assert [*expected.find_violations(make_found((1, "one"), (2, "new")))]
    assert [*expected.find_violations(make_found((2, "new"), sent=("one",)))]
    assert not [*expected.find_violations(make_found((2, "new")))]
    expected.ask(replace := Replace((WaitingPrompt(0, "three"),)))
    expected.acknowledge_queue(replace, (WaitingPrompt(3, "three"),))
    assert [*expected.find_violations(make_found((2, "new")))]
    assert not [*expected.find_violations(make_found((3, "three"), sent=("new",)))]


def test_a_prompt_that_did_not_exist_any_more_has_been_sent(expected: ExpectedChat) -> None:
    expected.ask(remove := Remove(1))
    expected.acknowledge_change(remove, there=False)
    assert [*expected.find_violations(make_found(*BOTH))]
    assert [*expected.find_violations(make_found((2, "two")))]
    assert not [*expected.find_violations(make_found((2, "two"), sent=("one",)))]


def test_what_was_found_is_the_truth_from_then_on(expected: ExpectedChat) -> None:
    expected.ask(Append("three"))
    expected.settle(make_found(*BOTH, (3, "three")))
    assert [*expected.find_violations(make_found(*BOTH))]
    expected.settle(make_found((2, "two"), sent=("one",)))
    assert [*expected.find_violations(make_found(*BOTH))]


def test_the_prompt_that_a_chat_was_created_with_is_there_unless_replaced() -> None:
    expected = ExpectedChat(first="first")
    assert [*expected.find_violations(make_found())]
    assert not [*expected.find_violations(make_found((1, "first")))]
    assert not [*expected.find_violations(make_found(sent=("first",)))]
    expected.ask(Replace(()))
    assert not [*expected.find_violations(make_found())]


def test_a_message_that_was_seen_stays_as_it_is(expected: ExpectedChat) -> None:
    there = make_found(*BOTH)._replace(messages=(Said(5, "assistant", "yes"),))
    expected.note_messages(there.messages)
    assert not [*expected.find_violations(there)]
    assert [*expected.find_violations(make_found(*BOTH))]
    assert [*expected.find_violations(there._replace(messages=(Said(5, "assistant", "no"),)))]


def test_a_number_is_given_once() -> None:
    register = Register()
    assert not [*register.give("prompt", 1)]
    assert not [*register.give("chat", 1)]
    assert [*register.give("prompt", 1)]
    there = make_found((2, "two"), sent=("one",))
    assert not [*register.note(there)]
    assert not [*register.note(there)]
    assert [*register.give("prompt", 2)]
    assert [*register.note(make_found(sent=("another",)))]


def test_the_ledger_and_the_histories_agree() -> None:
    histories = {1: Found((), (Said(1, "user", "one"), Said(2, "assistant", "one")))}
    one, two = Given.of(1, "one"), Given.of(1, "two")
    assert not [*find_ledger_violations([one], histories)]
    assert [*find_ledger_violations([one, one], histories)]
    assert [*find_ledger_violations([one, two], histories)]
    assert [*find_ledger_violations([Given.of(1, "one more")], histories)]
    assert [*find_ledger_violations([], histories)]
