"""A chat is the fold of its records, from wherever one begins, and hides nothing."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agentd.chats.agent_state import AgentState
from agentd.chats.approval import Approval, Hold, QueueWait
from agentd.chats.model import Message, Prompt
from agentd.chats.records import (
    ApprovalAnswered,
    ChatCreated,
    JournalEntry,
    MessageAdded,
    QueueAppended,
    QueueHeld,
    ToolUseStarted,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
    get_message,
)
from agentd.chats.state import INDEX_EVERY, RECENT_BYTES, RECENT_MESSAGES, Chat
from agentd.core.idempotency import IdempotencyKey
from tests.chats.records import AT, journals, make_user_message
from tests.support.examples import limit_examples


def fold(journal) -> Chat:
    chat = Chat(1)
    for entry, line in journal:
        chat.apply(entry, len(line))
    return chat


def talk(texts, at=lambda number: AT) -> tuple[Chat, list[Message]]:
    """Build a chat with one long turn, whose records have 100 bytes each."""
    chat = Chat(1)
    prompt = Prompt(1, "go", AT)
    said = [Message(number + 2, "assistant", text, at(number)) for number, text in enumerate(texts)]
    bodies = [ChatCreated("t", prompt=prompt), TurnStarted(1, make_user_message(1, "go"), "test")]
    for number, body in enumerate([*bodies, *map(MessageAdded, said)]):
        message = get_message(body)
        when = message.at if message else AT
        chat.apply(JournalEntry(number + 1, number + 1, when, "agent", body), 100)
    return chat, [make_user_message(1, "go"), *said]


@settings(max_examples=limit_examples(60), deadline=None)
@given(journals(), st.data())
def test_the_fold_via_a_checkpoint_at_any_line_is_the_fold(journal, data):
    cut = data.draw(st.integers(0, len(journal)))
    stored = msgspec.json.encode(fold(journal[:cut]))
    chat = msgspec.json.decode(stored, type=Chat)
    for entry, line in journal[cut:]:
        chat.apply(entry, len(line))
    assert chat == fold(journal)


@settings(max_examples=limit_examples(60), deadline=None)
@given(journals())
def test_the_tools_at_work_are_those_that_began_in_the_open_turn_and_have_not_ended(journal):
    open_uses = {}
    for entry, _ in journal:
        match entry.body:
            case TurnStarted() | TurnEnded() | TurnDeferred():
                open_uses = {}
            case ToolUseStarted(use=use):
                open_uses[use.number] = use
            case MessageAdded(tool_use=number):
                open_uses.pop(number, None)
    turn = fold(journal).agent.turn
    assert list(turn.tools if turn else ()) == list(open_uses.values())


@settings(max_examples=limit_examples(60), deadline=None)
@given(journals())
def test_what_is_counted_along_the_way_is_what_counting_finds(journal):
    chat = fold(journal)
    messages = [found for entry, _ in journal if (found := get_message(entry.body))]
    assert chat.ready == sum(not prompt.paused for prompt in chat.queue)
    assert chat.messages == len(messages)
    deferred = [entry.body.cost for entry, _ in journal if isinstance(entry.body, TurnDeferred)]
    assert chat.cost == sum(deferred) + sum(message.cost for message in messages)
    assert chat.size == sum(len(line) for _, line in journal)
    assert chat.lines == len(journal)
    assert chat.highest_message == max((message.id for message in messages), default=0)
    summary = chat.summarize()
    assert (summary.waiting, summary.ready) == (len(chat.queue), chat.ready)
    assert bool(summary.ready_since) == bool(chat.ready)


@settings(max_examples=limit_examples(60), deadline=None)
@given(journals())
def test_a_clock_that_jumps_back_never_hides_a_message(journal):
    """A client that asks again from the last message that it saw gets all that came after it."""
    times = [entry.at for entry, _ in journal]
    assert times == sorted(times)
    chat = fold(journal)
    messages = [found for entry, _ in journal if (found := get_message(entry.body))]
    for index, message in enumerate(messages):
        later = chat.get_messages_since(message.at)
        assert later is not None
        assert later[-len(messages[index:]) :] == messages[index:]


@pytest.mark.parametrize("size", [1, RECENT_BYTES // 8])
def test_recent_messages_answer_since_as_the_journal_would_or_not_at_all(size):
    def format_time(number):
        return f"2026-01-01T00:{number // 180:02d}:{number // 3 % 60:02d}.000Z"

    chat, messages = talk(["x" * size] * 700, format_time)
    assert chat.get_messages_since("") is None
    assert len(chat.recent) <= RECENT_MESSAGES
    assert chat.recent_bytes == sum(len(message.text) for message in chat.recent)
    assert chat.recent_bytes <= RECENT_BYTES
    answered = 0
    for message in messages:
        found = chat.get_messages_since(message.at)
        if found is not None:
            answered += 1
            assert found == [one for one in messages if one.at >= message.at]
    assert 0 < answered < len(messages)
    assert chat.get_messages_since("9999") == []


def test_a_message_larger_than_all_that_is_kept_is_kept_alone():
    chat, messages = talk(["x", "y" * (2 * RECENT_BYTES)])
    assert chat.recent == messages[-1:]
    assert chat.get_messages_since("") is None


def test_no_message_from_a_moment_on_stands_before_the_place_found_for_it():
    def format_time(number):
        return f"2026-01-01T00:00:{number // 50:02d}.000Z"

    chat, messages = talk(["x"] * 1000, format_time)
    assert len(chat.marks) == -(-chat.messages // INDEX_EVERY)
    for message in messages:
        offset = chat.find_offset_before(message.at)
        first = next(n for n, one in enumerate(messages) if one.at >= message.at)
        assert offset <= 100 * (first + 1)
        assert offset >= 100 * (first + 1) - 100 * (INDEX_EVERY + 50)


def test_an_idempotency_key_is_forgotten_after_a_day():
    old = IdempotencyKey("k", "d")
    chat = Chat(1)
    chat.apply(JournalEntry(1, 1, "2026-01-01T00:00:00.000Z", "me", ChatCreated("t", once=old)), 9)
    assert set(chat.once) == {"k"}
    new = msgspec.structs.replace(old, key="new")
    body = QueueAppended(Prompt(1, "x", AT), new)
    chat.apply(JournalEntry(2, 2, "2026-01-02T00:00:00.001Z", "me", body), 9)
    assert set(chat.once) == {"new"}


def test_a_turn_s_end_starts_the_wait_of_the_next_prompt_again():
    """So a chat with many prompts does not keep the others waiting until it has none."""
    chat = Chat(1)
    bodies = [
        ChatCreated("t", prompt=Prompt(1, "a", AT)),
        QueueAppended(Prompt(2, "b", AT)),
        TurnStarted(1, make_user_message(1, "a"), "test"),
        TurnEnded("completed"),
    ]
    for number, body in enumerate(bodies):
        at = f"2026-01-01T00:00:0{number}.000Z"
        chat.apply(JournalEntry(number + 1, number + 1, at, "me", body), 9)
        if number == 1:
            assert chat.summarize().ready_since == AT
    assert chat.summarize().ready_since == "2026-01-01T00:00:03.000Z"


@pytest.mark.parametrize(("engine", "again"), [("test", True), ("other", False)])
def test_a_prompt_is_tried_again_only_by_the_engine_that_had_it(engine, again):
    """A limit put it back; the session of another engine has never seen it."""
    chat = Chat(1)
    bodies = [
        ChatCreated("t", prompt=Prompt(1, "a", AT)),
        TurnStarted(1, make_user_message(1, "a"), "test"),
        TurnDeferred(QueueWait(AT, "a limit")),
        TurnStarted(1, None, engine),
    ]
    for number, body in enumerate(bodies, 1):
        if number == len(bodies):
            assert chat.ready == 1
            assert not chat.sent, "a replacement of the queue would drop it"
        chat.apply(JournalEntry(number, number, AT, "me", body), 9)
    assert chat.agent.turn.again is again


@pytest.mark.parametrize(
    ("tries", "engine", "again", "delivered"),
    [
        (["no"], "test", False, "no"),
        (["no"], "other", False, "no"),
        (["perhaps"], "test", True, "perhaps"),
        (["perhaps"], "other", True, "perhaps"),
        (["perhaps", "yes"], "test", True, "yes"),
        (["yes", "perhaps"], "test", True, "perhaps"),
        (["yes", "no"], "test", True, "yes"),
        (["no", "no"], "test", False, "no"),
    ],
)
def test_whether_an_engine_has_got_a_prompt_is_known_from_what_ended_its_tries(
    tries, engine, again, delivered
):
    chat = Chat(1)
    bodies = [ChatCreated("t", prompt=Prompt(1, "a", AT))]
    message = make_user_message(1, "a")
    for known in tries:
        bodies += [
            TurnStarted(1, message, "test"),
            TurnDeferred(QueueWait(AT, "x"), delivered=known),
        ]
        message = None
    bodies.append(TurnStarted(1, None, engine))
    for number, body in enumerate(bodies, 1):
        chat.apply(JournalEntry(number, number, AT, "me", body), 9)
    turn = chat.agent.turn
    assert (turn.again, turn.given.delivered) == (again, delivered)
    assert ("test" in chat.agent.seen) is ("yes" in tries), "what others said is still news to it"


@pytest.mark.parametrize(("kind", "stays"), [("stopped", False), ("hand", True), ("budget", True)])
def test_a_new_prompt_ends_the_hold_of_a_stopped_turn_and_no_other(kind, stays):
    chat = Chat(1)
    held = QueueHeld(Hold(kind, "why", "me", AT))
    bodies = [ChatCreated("t"), held, QueueAppended(Prompt(1, "a", AT))]
    for number, body in enumerate(bodies, 1):
        chat.apply(JournalEntry(number, number, AT, "me", body), 9)
    assert bool(chat.agent.hold) is stays


@pytest.mark.parametrize(("by", "paused"), [("user:ann", True), ("autofix", False)])
def test_a_prompt_that_is_paused_or_that_nobody_sent_sets_nothing_going(by, paused):
    """What a person stopped stays so when a removal is undone, and when a build fails."""
    agent = AgentState(hold=Hold("stopped", "why", "me", AT), wait=QueueWait(AT, "why"), failures=2)
    agent.apply(JournalEntry(1, 1, AT, by, QueueAppended(Prompt(1, "a", AT, paused=paused))), 0)
    assert (agent.hold.kind, agent.wait.reason) == ("stopped", "why")


def test_a_queue_whose_turn_has_begun_is_not_held():
    """As in journals of earlier versions, where a paused prompt released what was stopped."""
    chat = Chat(1)
    bodies = [
        ChatCreated("t", prompt=Prompt(1, "a", AT)),
        QueueHeld(Hold("stopped", "why", "me", AT)),
        QueueAppended(Prompt(2, "b", AT, paused=True)),
        TurnStarted(1, make_user_message(1, "a"), "test"),
    ]
    for number, body in enumerate(bodies, 1):
        chat.apply(JournalEntry(number, number, AT, "me", body), 9)
    assert chat.agent.hold is None


@pytest.mark.parametrize("state", ["expired", "withdrawn"])
def test_only_what_a_person_decided_stands_for_the_chat(state):
    agent = AgentState()
    allowed = Approval(1, "shell", "bash", "ls", AT, state="allowed", session=True)
    denied = replace(allowed, id=2, state="denied")
    once = replace(allowed, id=3, session=False)
    for number, one in enumerate((allowed, denied, once, replace(allowed, id=4, state=state)), 1):
        agent.apply(JournalEntry(number, number, AT, "me", ApprovalAnswered(one)), 0)
    assert agent.standing == (allowed, denied)


def test_a_withdrawn_decision_no_longer_stands_for_the_chat():
    agent = AgentState()
    denied = Approval(1, "shell", "bash", "ls", AT, state="denied", session=True)
    withdrawn = replace(denied, state="withdrawn", session=False)
    for number, one in enumerate((denied, withdrawn), 1):
        agent.apply(JournalEntry(number, number, AT, "me", ApprovalAnswered(one)), 0)
    assert agent.standing == ()


def test_limits_in_a_row_are_counted_until_a_turn_ends_otherwise():
    agent = AgentState()
    limit, counted = TurnDeferred(QueueWait(AT, "a limit")), []
    for number, body in enumerate((limit, limit, TurnEnded("completed"), limit), 1):
        agent.apply(JournalEntry(number, number, AT, "me", body), 0)
        counted.append(agent.deferrals)
    assert counted == [1, 2, 0, 1]


def test_a_snapshot_does_not_show_what_comes_later():
    chat, _ = talk(["one"])
    seen = chat.snapshot()
    before = msgspec.json.encode(seen.recent), seen.size, seen.queue, seen.messages
    later = MessageAdded(Message(9, "assistant", "two", AT))
    chat.apply(JournalEntry(4, 4, AT, "agent", later), 100)
    chat.apply(JournalEntry(5, 5, AT, "me", QueueAppended(Prompt(2, "b", AT))), 100)
    assert (msgspec.json.encode(seen.recent), seen.size, seen.queue, seen.messages) == before


def test_a_damaged_chat_is_not_at_work():
    chat, _ = talk(["one"])
    assert chat.summarize().working
    chat.damage = "journal.jsonl:3: the checksum does not match"
    assert not chat.summarize().working
