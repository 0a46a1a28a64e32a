"""Journals made up by hypothesis: only such as the service would write."""

from decimal import Decimal

from hypothesis import strategies as st

from agentd.chats.approval import QueueWait
from agentd.chats.model import Message, Prompt, Tokens
from agentd.chats.queue import find_next
from agentd.chats.records import (
    ChatCreated,
    JournalEntry,
    MessageAdded,
    QueueAppended,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
    RecordBody,
    ToolUse,
    ToolUseStarted,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
)
from agentd.chats.state import Chat
from agentd.core.clock import FrozenClock
from agentd.core.idempotency import IdempotencyKey
from agentd.storage.checksummed_json import encode_checksummed

AT = "2026-01-01T00:00:00.000Z"

texts = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def make_user_message(number: int, text: str, at: str = AT) -> Message:
    return Message(number, "user", text, at)


@st.composite
def journals(draw: st.DrawFn, steps: int = 40) -> list[tuple[JournalEntry, bytes]]:
    """The entries of one chat and their sealed lines, under a clock that also jumps back."""
    chat, clock, found = Chat(1), FrozenClock(), []

    def record(body: RecordBody) -> None:
        last = found[-1][0].seq if found else 0
        seq = last + draw(st.integers(1, 3))
        entry = JournalEntry(
            len(found) + 1, seq, chat.get_next_timestamp(clock.now()), "key:me", body
        )
        line = encode_checksummed(entry)
        chat.apply(entry, len(line))
        found.append((entry, line))

    once = st.none() | st.builds(IdempotencyKey, st.sampled_from("abc"), st.just("digest"))
    prompt = Prompt(1, "first", AT)
    record(ChatCreated(draw(texts), prompt=draw(st.sampled_from([None, prompt])), once=draw(once)))
    for number in range(2, draw(st.integers(2, steps))):
        clock.move(draw(st.sampled_from([0.0, 0.5, 3600.0, 90000.0, -7200.0])))
        record(_change(draw, chat, number, clock.now(), draw(once)))
    return found


def _change(
    draw: st.DrawFn, chat: Chat, number: int, now: str, once: IdempotencyKey | None
) -> RecordBody:
    at = chat.get_next_timestamp(now)
    text = draw(texts)
    later = draw(st.sampled_from(["", "", at, "2999-01-01T00:00:00.000Z"]))
    new = Prompt(number, text, at, paused=draw(st.booleans()), not_before=later)
    choices: list[RecordBody] = [QueueAppended(new, once), QueueReplaced((new, *chat.queue[::-1]))]
    if chat.queue:
        some = draw(st.sampled_from(chat.queue)).id
        choices += [
            QueueRemoved(some),
            QueueRewritten(
                some,
                text,
                draw(st.sampled_from([None, "", "m"])),
                draw(st.sampled_from([None, ""])),
            ),
        ]
    if chat.agent.turn:
        cost = draw(st.decimals(0, 1, places=6).map(Decimal))
        said = Message(number, "assistant", text, at, tokens=Tokens(1, 2), cost=cost)
        choices += [MessageAdded(said)] * 3
        choices += [ToolUseStarted(ToolUse(number, "shell", text))]
        for use in chat.agent.turn.tools[:1]:
            outcome = Message(number, "tool", text, at, tool=use.name)
            choices += [MessageAdded(outcome, use.number)] * 2
        choices += [TurnEnded("failed", Message(number, "error", text, at)), TurnEnded("completed")]
        choices += [TurnEnded("failed", wait=QueueWait(at, text))]
        choices += [TurnDeferred(QueueWait(at, text), cost=cost)]
    elif up := find_next(chat.queue, now):
        said_again = None if up.message else make_user_message(number, up.text, at)
        choices += [TurnStarted(up.id, said_again, "test")] * 3
    return draw(st.sampled_from(choices))
