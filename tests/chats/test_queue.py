"""The queue's rules, one by one, and all of them at once against a model."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentd.chats import queue as rules
from agentd.chats.model import MAX_PROMPT_BYTES, Prompt
from agentd.chats.queue import (
    QueueItem,
    find_next,
    find_soonest,
    parse_not_before,
    replace_queue,
    rewrite_prompt,
    validate_queue,
    validate_text,
)
from agentd.chats.records import (
    ChatCreated,
    JournalEntry,
    QueueAppended,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
    TurnEnded,
    TurnStarted,
)
from agentd.chats.state import Chat
from agentd.core.errors import BadRequest, NotFound, TooLarge
from agentd.core.ids import MAX_ID
from tests.chats.records import AT, make_user_message
from tests.support.examples import limit_examples

A = Prompt(1, "a", AT, model="m1")
B = Prompt(2, "b", AT, model="m2", paused=True)
C = Prompt(3, "c", AT)
QUEUE = (A, B, C)
SENT = {90, 91}
LATER = "2026-06-01T00:00:00.000Z"


def make_prompt(text: str, paused: bool) -> Prompt:
    return Prompt(100, text, AT, paused=paused)


def replace(*wanted: QueueItem) -> rules.Queue:
    validate_queue(wanted)
    return replace_queue(QUEUE, wanted, SENT, make_prompt)


def test_rule_6_of_the_queue_only_the_text_changes():
    """Section 4, rules of endpoint 6: id, position, model and pause state are kept."""
    assert rewrite_prompt(QUEUE, 2, "new") == (A, Prompt(2, "new", AT, model="m2", paused=True), C)


def test_a_prompt_that_does_not_wait_cannot_be_rewritten_or_removed():
    """Section 4, the rules common to the five queue endpoints."""
    for act in (lambda: rewrite_prompt(QUEUE, 9, "x"), lambda: rules.remove_prompt(QUEUE, 9)):
        with pytest.raises(NotFound):
            act()


def test_replace_rule_1_the_array_becomes_the_entire_queue():
    """Section 4, rules of endpoint 8, rule 1."""
    assert replace(QueueItem("x"), QueueItem("c", 3)) == (make_prompt("x", False), C)


def test_replace_rule_2_a_matching_id_keeps_row_model_and_pause_state():
    """Section 4, rules of endpoint 8, rule 2."""
    assert replace(QueueItem("b2", 2)) == (Prompt(2, "b2", AT, model="m2", paused=True),)


@pytest.mark.parametrize("paused", [True, False])
def test_replace_rule_2_unless_is_paused_is_set_explicitly(paused):
    """Section 4, rules of endpoint 8, rule 2."""
    queue = replace(QueueItem("a", 1, paused), QueueItem("b", 2, paused))
    assert [(row.id, row.model, row.paused) for row in queue] == [
        (1, "m1", paused),
        (2, "m2", paused),
    ]


def test_replace_rule_3_without_id_or_with_id_0_it_is_a_new_prompt():
    """Section 4, rules of endpoint 8, rule 3."""
    assert replace(QueueItem("x"), QueueItem("y", 0, True), QueueItem("z", 0, False)) == (
        make_prompt("x", False),
        make_prompt("y", True),
        make_prompt("z", False),
    )


def test_replace_rule_4_prompts_absent_from_the_array_are_deleted():
    """Section 4, rules of endpoint 8, rule 4: also those that the caller never saw."""
    assert replace(QueueItem("a", 1)) == (A,)


def test_replace_rule_5_array_order_becomes_dispatch_order():
    """Section 4, rules of endpoint 8, rule 5."""
    assert replace(QueueItem("c", 3), QueueItem("a", 1), QueueItem("b", 2)) == (C, A, B)


def test_replace_rule_6_an_empty_array_clears_the_queue():
    """Section 4, rules of endpoint 8, rule 6."""
    assert replace() == ()


def test_replace_rule_7_the_id_of_a_sent_prompt_is_skipped_and_not_recreated():
    """Section 4, rules of endpoint 8, rule 7."""
    assert replace(QueueItem("again", 90), QueueItem("a", 1), QueueItem("again", 91)) == (A,)


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u2003\u00a0"])
def test_replace_rule_8_empty_text_in_any_element_is_a_bad_request(text):
    """Section 4, rules of endpoint 8, rule 8; of a skipped one too."""
    for wanted in (QueueItem(text), QueueItem(text, 1), QueueItem(text, 90)):
        with pytest.raises(BadRequest, match=r"prompts\[1\]\.prompt is empty"):
            replace(QueueItem("fine"), wanted)


def test_replace_rule_8_the_same_positive_id_twice_is_a_bad_request():
    """Section 4, rules of endpoint 8, rule 8; 0 may come as often as wanted."""
    for number in (1, 90, 999):
        with pytest.raises(BadRequest, match=rf"prompts\[1\]\.id {number} appears twice"):
            replace(QueueItem("a", number), QueueItem("b", number))
    assert len(replace(QueueItem("a"), QueueItem("b"))) == 2


def test_an_id_that_never_existed_or_was_deleted_changes_nothing():
    """Section 4, the rules common to the five queue endpoints: 404, before anything is made."""
    made: list[str] = []
    with pytest.raises(NotFound, match="Prompt 77"):
        replace_queue(
            QUEUE, [QueueItem("x"), QueueItem("y", 77)], SENT, lambda text, _: made.append(text)
        )
    assert made == []


@pytest.mark.parametrize("number", [-1, MAX_ID + 1])
def test_an_id_that_cannot_be_is_a_bad_request(number):
    with pytest.raises(BadRequest, match=r"prompts\[0\]\.id"):
        replace(QueueItem("a", number))


def test_paused_prompts_are_passed_over_and_do_not_block():
    assert find_next((B, A), AT) == A
    assert find_next((B,), AT) is None
    assert find_next((), AT) is None


def test_a_prompt_for_later_is_passed_over_and_does_not_block_those_behind_it():
    later = Prompt(4, "d", AT, not_before="2026-01-02T00:00:00.000Z")
    assert find_next((later, A), "2026-01-01T23:59:59.999Z") == A
    assert find_next((later,), "2026-01-01T23:59:59.999Z") is None
    assert find_next((later, A), "2026-01-02T00:00:00.000Z") == later, "it kept its place"
    assert find_soonest((B, later)) == later
    assert find_soonest((later, A)) == A
    assert find_soonest((B,)) is None


def test_a_time_is_kept_by_an_edit_and_a_replacement_that_do_not_name_it():
    later = Prompt(4, "d", AT, not_before=LATER)
    assert rewrite_prompt((later,), 4, "new")[0].not_before == LATER
    assert rewrite_prompt((later,), 4, "new", not_before="")[0].not_before == ""
    kept, gone, new = replace_queue(
        (later, Prompt(5, "e", AT, not_before=LATER)),
        [QueueItem("d", 4), QueueItem("e", 5, not_before=""), QueueItem("f", not_before=LATER)],
        SENT,
        make_prompt,
    )
    assert (kept.not_before, gone.not_before, new.not_before) == (LATER, "", LATER)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("2026-11-24T09:00:00+01:00", "2026-11-24T08:00:00.000Z"),
        ("2026-11-24T09:00Z", "2026-11-24T09:00:00.000Z"),
        ("2026-11-24T09:00:00.0001-0530", "2026-11-24T14:30:00.001Z"),
        ("", ""),
        (None, None),
    ],
)
def test_a_time_of_a_prompt_is_taken_with_its_zone(given, meant):
    assert parse_not_before(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        "2026-11-24T09:00:00",
        "2026-11-24",
        "tomorrow",
        "9",
        "2026-11-24T25:00Z",
        "0001-01-01T00:00+23:59",
    ],
)
def test_a_time_of_a_prompt_that_could_mean_several_moments_is_a_bad_request(given):
    with pytest.raises(BadRequest, match="notBefore is"):
        parse_not_before(given)


def test_what_can_be_a_prompt():
    assert validate_text("x" * MAX_PROMPT_BYTES)
    with pytest.raises(TooLarge):
        validate_text("é" * (MAX_PROMPT_BYTES // 2 + 1))
    for text in ("a\0b", "a\ud800b"):
        with pytest.raises(BadRequest):
            validate_text(text)


def format_hour(hour: int) -> str:
    return f"2026-01-02T{hour:02d}:00:00.000Z"


class QueueModel(RuleBasedStateMachine):
    """Two callers with stale knowledge and a dispatcher, all on one queue.

    The oracle is a plain list of ids with sets of those sent and deleted.
    """

    def __init__(self):
        super().__init__()
        self.chat = Chat(1)
        self.made = 0
        self.lines = 0
        self.waiting: list[int] = []
        self.sent: set[int] = set()
        self.deleted: set[int] = set()
        self.paused: set[int] = set()
        self.times: dict[int, int] = {}
        self.hour = 0
        self.record(ChatCreated("t"))

    def record(self, body):
        self.lines += 1
        self.chat.apply(JournalEntry(self.lines, self.lines, AT, "me", body), 100)

    def make_numbered_prompt(self, text: str, paused: bool = False, hour: int = 0) -> Prompt:
        self.made += 1
        if hour:
            self.times[self.made] = hour
            return Prompt(self.made, text, AT, not_before=format_hour(hour))
        if paused:
            self.paused.add(self.made)
        return Prompt(self.made, text, AT, paused=paused)

    @rule(paused=st.booleans())
    def append(self, paused):
        prompt = self.make_numbered_prompt("x", paused)
        self.record(QueueAppended(prompt))
        self.waiting.append(prompt.id)

    @rule(hour=st.integers(1, 20))
    def append_for_later(self, hour):
        prompt = self.make_numbered_prompt("x", hour=hour)
        self.record(QueueAppended(prompt))
        self.waiting.append(prompt.id)

    @rule(hours=st.integers(-3, 5))
    def change_the_clock(self, hours):
        self.hour = min(max(self.hour + hours, 0), 23)

    @rule(number=st.integers(1, 30), model=st.sampled_from([None, "", "m"]))
    def rewrite(self, number, model):
        if number in self.waiting:
            before = rules.find_prompt(self.chat.queue, number)
            self.record(QueueRewritten(number, "new", model))
            now = rules.find_prompt(self.chat.queue, number)
            assert now.text == "new"
            assert now.model == (before.model if model is None else model)
            assert (now.paused, now.at) == (before.paused, before.at)
        else:
            with pytest.raises(NotFound):
                rules.rewrite_prompt(self.chat.queue, number, "new")

    @rule(number=st.integers(1, 30))
    def remove(self, number):
        if number in self.waiting:
            self.record(QueueRemoved(number))
            self.waiting.remove(number)
            self.deleted.add(number)

    @rule(numbers=st.lists(st.integers(0, 30), max_size=6), paused=st.none() | st.booleans())
    def replace_with_stale_ids(self, numbers, paused):
        wanted = [QueueItem("x", number, paused) for number in numbers]
        positive = [number for number in numbers if number]
        if len(set(positive)) < len(positive):
            with pytest.raises(BadRequest):
                validate_queue(wanted)
            return
        validate_queue(wanted)
        if any(n not in self.waiting and n not in self.sent for n in positive):
            with pytest.raises(NotFound):
                replace_queue(self.chat.queue, wanted, self.chat.sent, self.make_numbered_prompt)
            return
        queue = replace_queue(self.chat.queue, wanted, self.chat.sent, self.make_numbered_prompt)
        self.record(QueueReplaced(queue))
        kept = [number for number in numbers if number not in self.sent]
        new = iter(range(self.made - kept.count(0) + 1, self.made + 1))
        after = [number or next(new) for number in kept]
        self.deleted |= set(self.waiting) - set(after)
        self.waiting = after
        if paused is not None:
            self.paused = self.paused - set(after) if not paused else self.paused | set(after)

    @rule()
    def dispatch(self):
        up = find_next(self.chat.queue, format_hour(self.hour))
        ready = [
            number
            for number in self.waiting
            if number not in self.paused and self.times.get(number, 0) <= self.hour
        ]
        assert (up.id if up else None) == (ready[0] if ready else None)
        if up:
            self.record(TurnStarted(up.id, make_user_message(self.lines + 1, up.text), "test"))
            self.record(TurnEnded("completed"))
            self.waiting.remove(up.id)
            self.sent.add(up.id)

    @invariant()
    def each_id_is_in_exactly_one_of_queue_sent_and_deleted(self):
        waiting = [prompt.id for prompt in self.chat.queue]
        assert waiting == self.waiting
        assert self.chat.sent == self.sent
        places = [*waiting, *self.sent, *self.deleted]
        assert sorted(places) == list(range(1, self.made + 1))

    @invariant()
    def the_count_of_ready_prompts_is_right(self):
        assert self.chat.ready == len([p for p in self.chat.queue if not p.paused])

    @invariant()
    def the_summary_says_when_the_first_prompt_can_be_sent(self):
        hours = [self.times.get(n, 0) for n in self.waiting if n not in self.paused]
        soonest = min(hours, default=0)
        assert self.chat.summarize().later == (format_hour(soonest) if soonest else "")


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(
    max_examples=limit_examples(60), stateful_step_count=40, deadline=None
)
