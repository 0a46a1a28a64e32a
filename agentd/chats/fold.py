"""A chat as the fold of its records, and the short view of it that lists and events show.

The fold keeps what every request needs and nothing that grows with each message but a sparse
index: the history itself stays in the journal. It is also what a checkpoint holds.
"""

import copy
from bisect import bisect_left
from datetime import timedelta
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct, field, structs

from agentd.chats import queue as rules
from agentd.chats.chat import Message, Prompt, Status, status_of
from agentd.chats.records import (
    ChatChanged,
    ChatCreated,
    ChatDeleted,
    ChatRestored,
    Entry,
    Once,
    Outcome,
    QueueAppended,
    QueueMoved,
    QueuePaused,
    QueueRemoved,
    QueueReplaced,
    QueueRewritten,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
    messages_in,
)
from agentd.chats.standing import Standing
from agentd.clock import Timestamp, iso, parse_iso

MARK_EVERY = 64
"""Messages from one mark of the sparse index to the next."""
RECENT_MESSAGES = 256
RECENT_BYTES = 256 * 1024
ONCE_FOR = timedelta(hours=24)
"""How long an ``Idempotency-Key`` is remembered."""


State: TypeAlias = Literal["created", "queued", "processing", "completed", "error"]
"""A status that also tells what the last turn came to (section 3)."""


class Mark(Struct, frozen=True, array_like=True, gc=False):
    """Where in the journal a message stands."""

    number: int
    """How many messages stand before it."""
    offset: int
    """The first byte of its line."""
    at: Timestamp
    seq: int
    id: int = 0


class Remembered(Struct, frozen=True):
    """What an ``Idempotency-Key`` did: made this prompt (0: the chat itself)."""

    digest: str
    at: Timestamp
    prompt: Prompt | None = None


class Summary(Struct, frozen=True, gc=False):
    """A chat at a glance: what the status, lists, events and the index tell."""

    id: int
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    messages: int
    cost: Decimal
    waiting: int
    """Prompts in the queue, paused ones included."""
    ready: int
    """Those of them that are not paused."""
    working: bool
    outcome: Outcome | None
    """How the last turn ended; None before the first."""
    ready_since: Timestamp
    """Since when the chat waits for the agent, though it could go on (empty: it does not wait).

    The longest waiting goes first. A turn's end starts the wait anew, so that a chat with many
    prompts does not keep the others waiting until it has none.
    """
    seq: int
    size: int
    """Bytes of journal behind this view."""
    held: str = ""
    """Why the queue stands still until it is released; empty: it does not."""
    waits_until: Timestamp = ""
    """When a supplier's limit is over and the queue goes on by itself; empty: it is not waiting."""
    asking: int = 0
    """Open questions to the person."""
    day: str = ""
    """The last day (UTC) on which it cost something ..."""
    spent: Decimal = Decimal(0)
    """... and how much on that day, in USD."""
    once: str = ""
    """The ``Idempotency-Key`` that created the chat."""
    damage: str = ""
    """Why the chat is read-only; empty when it is sound."""
    labels: tuple[str, ...] = ()
    deleted_at: Timestamp = ""
    """Since when it is in the trash; empty: it is not."""

    @property
    def status(self) -> Status:
        """The remote API's status (section 3)."""
        return status_of(working=self.working, waiting=self.waiting > 0)

    @property
    def state(self) -> State:
        """The status as the extended surface tells it."""
        if self.status != "completed":
            return self.status
        if self.outcome is None:
            return "created"
        return "error" if self.outcome in ("failed", "interrupted") else "completed"

    @property
    def at_rest(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return bool(self.damage or self.deleted_at) or not (
            self.working or (self.ready and not self.held)
        )


class Chat(Struct):
    """The state of one chat; ``apply`` is its only way to change."""

    id: int
    title: str = ""
    created_at: Timestamp = ""
    updated_at: Timestamp = ""
    model: str = ""
    skill: str = "none"
    system_prompt: str = ""
    bot_id: str = ""
    bot_linked: bool | None = None
    bot_note: str = ""
    labels: tuple[str, ...] = ()
    deleted_at: Timestamp = ""
    """Since when it is in the trash; empty: it is not."""
    queue: rules.Queue = ()
    ready: int = 0
    """Prompts in the queue that are not paused."""
    queue_version: int = 0
    """The seq of the last record that changed the queue."""
    sent: set[int] = field(default_factory=set)
    agent: Standing = field(default_factory=Standing)
    messages: int = 0
    cost: Decimal = Decimal(0)
    marks: list[Mark] = field(default_factory=list)
    recent: list[Message] = field(default_factory=list)
    """The last messages, oldest first."""
    recent_bytes: int = 0
    created_once: str = ""
    once: dict[str, Remembered] = field(default_factory=dict)
    lines: int = 0
    seq: int = 0
    size: int = 0
    last_line: int = 0
    """Where in the journal the last line begins."""
    highest_prompt: int = 0
    highest_message: int = 0
    damage: str = ""

    def apply(self, entry: Entry, size: int) -> None:
        """Take in one record whose line has ``size`` bytes."""
        match entry.body:
            case ChatCreated():
                self._created(entry, entry.body)
            case QueueAppended(prompt=prompt, once=once):
                self._append(entry, prompt)
                self._remember(entry, once, prompt)
            case QueueRewritten(id=prompt_id, text=text, model=model):
                self.queue = rules.rewritten(self.queue, prompt_id, text, model)
                self.queue_version = entry.seq
            case QueueRemoved(id=prompt_id):
                self._remove(entry, prompt_id)
            case QueueReplaced(prompts=prompts):
                self._replace(entry, prompts)
            case QueuePaused() | QueueMoved():
                self._rearrange(entry, entry.body)
            case TurnStarted():
                self._start(entry, entry.body)
            case TurnDeferred(cost=cost):
                self._put_back(entry)
                self.cost += cost
            case TurnEnded(cost=cost):
                self.cost += cost
            case ChatChanged():
                self._change(entry.body)
            case ChatDeleted() | ChatRestored():
                self.deleted_at = entry.at if isinstance(entry.body, ChatDeleted) else ""
        for message in messages_in(entry.body):
            self._message(entry, message)
        self.agent.apply(entry, self.highest_message)
        self.lines = entry.n
        self.seq = entry.seq
        self.last_line = self.size
        self.size += size
        self.updated_at = entry.at

    def snapshot(self) -> "Chat":
        """The chat as it is now, for a reader: later records do not show in it."""
        seen = copy.copy(self)
        seen.recent = self.recent.copy()
        seen.agent = copy.copy(self.agent)
        return seen

    def moment(self, now: Timestamp) -> Timestamp:
        """The time for the next record: now, but never before the last one.

        A clock that jumps back would otherwise hide new messages from ``since``.
        """
        return max(now, self.updated_at)

    def since(self, moment: Timestamp) -> list[Message] | None:
        """The messages from ``moment`` on, or None when the journal must be read for them."""
        if self.messages > len(self.recent) and (not self.recent or moment <= self.recent[0].at):
            return None
        return self.recent[bisect_left(self.recent, moment, key=lambda message: message.at) :]

    def offset_before(self, moment: Timestamp) -> int:
        """A place in the journal with no message from ``moment`` on before it."""
        index = bisect_left(self.marks, moment, key=lambda mark: mark.at)
        return self.marks[index - 1].offset if index else 0

    def mark_before(self, message_id: int) -> int:
        """The number of the last mark with a smaller message id than this; -1: there is none."""
        return bisect_left(self.marks, message_id, key=lambda mark: mark.id) - 1

    def summary(self) -> Summary:
        """The chat at a glance."""
        up = rules.next_up(self.queue) if self.ready else None  # or it would search all paused
        agent = self.agent
        return Summary(
            id=self.id,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            messages=self.messages,
            cost=self.cost,
            waiting=len(self.queue),
            ready=self.ready,
            working=agent.turn is not None and not self.damage,
            outcome=agent.outcome,
            ready_since=max(up.at, agent.ended_at) if up else "",
            seq=self.seq,
            size=self.size,
            held=agent.hold.reason if agent.hold else "",
            waits_until=agent.wait.until if agent.wait else "",
            asking=len(agent.asked),
            day=agent.day,
            spent=agent.spent,
            once=self.created_once,
            damage=self.damage,
            labels=self.labels,
            deleted_at=self.deleted_at,
        )

    def _created(self, entry: Entry, body: ChatCreated) -> None:
        self.title = body.title
        self.created_at = entry.at
        self.model, self.skill = body.model, body.skill
        self.system_prompt = body.system_prompt
        self.bot_id, self.bot_linked, self.bot_note = body.bot_id, body.bot_linked, body.bot_note
        self.labels = body.labels
        self._replace(entry, (body.prompt,) if body.prompt else ())
        if body.once:
            self.created_once = body.once.key
        self._remember(entry, body.once, body.prompt)

    def _change(self, body: ChatChanged) -> None:
        for name in ("title", "model", "skill", "system_prompt", "labels"):
            if (chosen := getattr(body, name)) is not None:
                setattr(self, name, chosen)

    def _start(self, entry: Entry, body: TurnStarted) -> None:
        given = rules.find(self.queue, body.prompt)
        self._remove(entry, body.prompt)
        self.sent.add(body.prompt)
        if body.message:
            said = body.message
            given = given or Prompt(body.prompt, said.text, said.at)
            given = structs.replace(given, message=said.id)
        if given:
            self.agent.start(entry, body, given)

    def _put_back(self, entry: Entry) -> None:
        if self.agent.turn is None:
            return
        given = self.agent.turn.given
        self.sent.discard(given.id)
        self.queue = (given, *self.queue)
        self.queue_version = entry.seq
        self.ready += 1

    # The count of ready prompts is kept by hand: counting would cost more the longer the queue.

    def _append(self, entry: Entry, prompt: Prompt) -> None:
        self.queue = self.queue + (prompt,)  # noqa: RUF005 - one copy of a long queue, not two
        self.queue_version = entry.seq
        self.ready += not prompt.paused
        self.highest_prompt = max(self.highest_prompt, prompt.id)

    def _remove(self, entry: Entry, prompt_id: int) -> None:
        gone = rules.find(self.queue, prompt_id)
        self.queue = rules.removed(self.queue, prompt_id)
        self.queue_version = entry.seq
        self.ready -= gone is not None and not gone.paused

    def _replace(self, entry: Entry, queue: rules.Queue) -> None:
        self.queue = queue
        self.queue_version = entry.seq
        self.ready = sum(not prompt.paused for prompt in queue)
        self.highest_prompt = max([self.highest_prompt, *(prompt.id for prompt in queue)])

    def _rearrange(self, entry: Entry, body: QueuePaused | QueueMoved) -> None:
        if isinstance(body, QueueMoved):
            self._replace(entry, rules.moved(self.queue, body.id, body.place))
        else:
            self._replace(entry, rules.paused(self.queue, body.ids, pause=body.paused))

    def _remember(self, entry: Entry, once: Once | None, prompt: Prompt | None) -> None:
        if once is None:
            return
        horizon = iso(parse_iso(entry.at) - ONCE_FOR)
        self.once = {key: kept for key, kept in self.once.items() if kept.at >= horizon}
        self.once[once.key] = Remembered(once.digest, entry.at, prompt)

    def _message(self, entry: Entry, message: Message) -> None:
        if self.messages % MARK_EVERY == 0:
            self.marks.append(Mark(self.messages, self.size, message.at, entry.seq, message.id))
        self.messages += 1
        self.highest_message = max(self.highest_message, message.id)
        self.cost += message.cost
        self.agent.spend(entry.at, message.cost)
        self.recent.append(message)
        self.recent_bytes += len(message.text)
        if len(self.recent) > RECENT_MESSAGES or self.recent_bytes > RECENT_BYTES:
            self._forget_older()

    def _forget_older(self) -> None:
        """Keep the newer half, so that forgetting is rare: its cost spreads over many messages."""
        kept: list[Message] = []
        size = 0
        for message in reversed(self.recent):
            size += len(message.text)
            if kept and (len(kept) >= RECENT_MESSAGES // 2 or size > RECENT_BYTES // 2):
                break
            kept.append(message)
        self.recent = kept[::-1]
        self.recent_bytes = sum(len(message.text) for message in self.recent)
