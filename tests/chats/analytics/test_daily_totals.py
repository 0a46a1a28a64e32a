"""The events of a chat, summed by day and account."""

from decimal import Decimal

from hypothesis import given, settings

from agentd.chats.analytics.daily_totals import ChatDailyTotals, DayRow, UsageAccount, UsageTotals
from agentd.chats.approval import Approval, Hold, QueueWait
from agentd.chats.model import Message, Prompt, Role, Tokens
from agentd.chats.records import (
    ApprovalAsked,
    ChatChanged,
    ChatCreated,
    JournalEntry,
    MessageAdded,
    QueueAppended,
    QueueHeld,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
    RecordBody,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
    get_message,
)
from agentd.core.quantile import estimate_quantile
from tests.chats.records import journals
from tests.support.examples import limit_examples

MONDAY, TUESDAY = "2026-03-02", "2026-03-03"


class RecordedChat:
    """A chat whose records are told one after another."""

    def __init__(self) -> None:
        self.tally = ChatDailyTotals()

    def tell(
        self, body: RecordBody, at: str = f"{MONDAY}T10:00:00.000Z", by: str = "agent"
    ) -> None:
        self.tally.apply(JournalEntry(self.tally.lines + 1, self.tally.seq + 1, at, by, body), 10)

    def ask(self, number: int, by: str, at: str = f"{MONDAY}T10:00:00.000Z") -> None:
        self.tell(QueueAppended(Prompt(number, "do it", at)), at, by)

    def begin(self, number: int, model: str = "m", at: str = f"{MONDAY}T10:00:00.000Z") -> None:
        self.tell(TurnStarted(number, make_message("user", at=at), "native", model), at)

    @property
    def only(self) -> DayRow:
        (row,) = self.tally.rows
        return row


def make_message(role: Role, cost: str = "0", tool: str = "", at: str = "") -> Message:
    return Message(1, role, "text", at, tool=tool, cost=Decimal(cost), tokens=Tokens(10, 1))


def test_a_turn_is_attributed_to_its_model_engine_skill_and_who_asked() -> None:
    chat = RecordedChat()
    chat.tell(ChatCreated("t", skill="review"), by="user:admin")
    chat.ask(1, "key:laptop")
    chat.begin(1, "sonnet")
    chat.tell(MessageAdded(make_message("assistant", "0.1")))
    chat.tell(TurnEnded("completed"))
    assert chat.only.account == UsageAccount("sonnet", "native", "review", "key:laptop")
    assert chat.only.day == MONDAY


def test_a_client_that_asked_is_who_wrote_the_prompt_not_who_rewrote_or_replaced_the_queue() -> (
    None
):
    chat = RecordedChat()
    first = Prompt(1, "a", "")
    chat.tell(ChatCreated("t", prompt=first), by="key:one")
    chat.ask(2, "key:two")
    chat.tell(QueueRewritten(2, "b"), by="key:other")
    chat.tell(QueueReplaced((Prompt(2, "b", ""), first, Prompt(3, "c", ""))), by="key:three")
    askers = []
    for number in (2, 1, 3):
        chat.begin(number, model=str(number))
        chat.tell(TurnEnded("completed"))
        askers.append(chat.tally.rows[-1].account.by)
    assert askers == ["key:two", "key:one", "key:three"]


def test_a_prompt_that_left_the_queue_is_forgotten() -> None:
    chat = RecordedChat()
    chat.ask(1, "key:a")
    chat.ask(2, "key:b")
    chat.tell(QueueRemoved(1))
    chat.tell(QueueReplaced(()))
    assert chat.tally.waiting == {}


def test_messages_tokens_and_money_are_added_up_exactly() -> None:
    chat = RecordedChat()
    chat.ask(1, "key:a")
    chat.begin(1)
    for _ in range(10):
        chat.tell(MessageAdded(make_message("assistant", "0.1")))
    chat.tell(TurnEnded("failed", make_message("error"), Tokens(5, 6), Decimal("0.000001")))
    totals = chat.only.totals
    assert (totals.user, totals.assistant, totals.tool, totals.error) == (1, 10, 0, 1)
    assert (totals.input, totals.output) == (12 * 10 + 5, 12 * 1 + 6)
    assert totals.cost == Decimal("1.000001")
    assert totals.endings == {"failed": 1}


def test_a_turn_belongs_to_the_day_on_which_it_ended_and_messages_to_their_own() -> None:
    chat = RecordedChat()
    chat.ask(1, "key:a", f"{MONDAY}T23:59:00.000Z")
    chat.begin(1, at=f"{MONDAY}T23:59:00.000Z")
    chat.tell(MessageAdded(make_message("assistant", "2")), f"{MONDAY}T23:59:59.999Z")
    chat.tell(MessageAdded(make_message("assistant", "3")), f"{TUESDAY}T00:00:00.000Z")
    chat.tell(TurnEnded("completed"), f"{TUESDAY}T00:01:00.000Z")
    monday, tuesday = chat.tally.rows
    assert [row.day for row in chat.tally.rows] == [MONDAY, TUESDAY]
    assert (monday.totals.cost, tuesday.totals.cost) == (2, 3)
    assert (monday.totals.endings, tuesday.totals.endings) == ({}, {"completed": 1})
    took = estimate_quantile(tuesday.totals.took, 0.5)
    assert took is not None
    assert 118_000 < took < 122_000


def test_the_skill_is_the_one_that_the_chat_had_then() -> None:
    chat = RecordedChat()
    chat.tell(ChatCreated("t", skill="old"))
    for number, skill in ((1, None), (2, "new"), (3, None)):
        chat.tell(ChatChanged(title="x", skill=skill))
        chat.ask(number, "key:a")
        chat.begin(number)
        chat.tell(TurnEnded("completed"))
    assert [(row.account.skill, row.totals.turns) for row in chat.tally.rows] == [
        ("old", 1),
        ("new", 2),
    ]


def test_tools_are_counted_by_name_and_questions_are_none() -> None:
    chat = RecordedChat()
    chat.ask(1, "key:a")
    chat.begin(1)
    for tool in ("edit", "shell", "edit"):
        chat.tell(MessageAdded(make_message("tool", tool=tool)))
    chat.tell(
        ApprovalAsked(
            Approval(1, "shell", "shell", "rm", ""), make_message("tool", tool="approval")
        )
    )
    assert chat.only.totals.tools == {"edit": 2, "shell": 1}
    assert chat.only.totals.tool == 4


def test_a_turn_that_a_limit_ended_is_deferred_and_its_prompt_keeps_its_author() -> None:
    chat = RecordedChat()
    chat.ask(1, "key:a")
    chat.begin(1)
    chat.tell(TurnDeferred(QueueWait("", "limit"), Tokens(1, 1), Decimal("0.5")))
    chat.tell(TurnStarted(1, None, "native", "m"), by="agent")
    chat.tell(TurnEnded("completed"))
    assert chat.only.account.by == "key:a"
    assert chat.only.totals.endings == {"deferred": 1, "completed": 1}
    assert chat.only.totals.user == 1
    assert chat.only.totals.cost == Decimal("0.5")
    assert sum(chat.only.totals.took.values()) == 1


def test_an_interrupted_turn_shows_no_time() -> None:
    """It ends when agentd is back: how long that took says nothing of the turn."""
    chat = RecordedChat()
    chat.ask(1, "key:a")
    chat.begin(1)
    chat.tell(TurnEnded("interrupted", make_message("error")), f"{TUESDAY}T10:00:00.000Z")
    assert [row.totals.took for row in chat.tally.rows] == [{}, {}]


def test_what_happens_outside_a_turn_is_attributed_to_a_client_that_caused_it() -> None:
    chat = RecordedChat()
    question = Approval(1, "budget", "", "more?", "")
    chat.tell(
        QueueHeld(Hold("budget", "r", "agent", ""), question, make_message("tool")), by="agent"
    )
    assert chat.only.account == UsageAccount("", "", "none", "agent")
    assert chat.only.totals.tools == {}


def test_a_clock_that_jumped_back_moves_nothing_into_an_earlier_day() -> None:
    chat = RecordedChat()
    chat.ask(1, "key:a", f"{TUESDAY}T00:00:00.000Z")
    chat.begin(1, at=f"{TUESDAY}T00:00:00.000Z")
    chat.tell(MessageAdded(make_message("assistant")), f"{MONDAY}T00:00:00.000Z")
    assert [row.day for row in chat.tally.rows] == [TUESDAY]


@settings(max_examples=limit_examples(40))
@given(journals())
def test_the_rows_hold_every_message_and_every_cent(
    journal: list[tuple[JournalEntry, bytes]],
) -> None:
    tally = ChatDailyTotals()
    for entry, line in journal:
        tally.apply(entry, len(line))
    total = UsageTotals()
    for row in tally.rows:
        total.add(row.totals)
    bodies = [entry.body for entry, _ in journal]
    messages = [message for body in bodies if (message := get_message(body))]
    counted = {role: getattr(total, role) for role in ("user", "assistant", "tool", "error")}
    assert counted == {role: sum(message.role == role for message in messages) for role in counted}
    ends = [body for body in bodies if isinstance(body, TurnEnded | TurnDeferred)]
    assert total.cost == sum((one.cost for one in (*messages, *ends)), Decimal(0))
    assert total.turns == len(ends)
    assert [row.day for row in tally.rows] == sorted(row.day for row in tally.rows)
