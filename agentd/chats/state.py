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
from agentd.chats.agent_state import AgentState
from agentd.chats.model import Delivery, Message, Prompt, Status, derive_status
from agentd.chats.records import (
    ChatChanged,
    ChatCreated,
    ChatDeleted,
    ChatRestored,
    JournalEntry,
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
    WorktreeChanged,
    get_messages,
)
from agentd.chats.worktree import Worktree
from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.idempotency import IdempotencyKey

INDEX_EVERY = 64
"""Messages from one mark of the sparse index to the next."""
RECENT_MESSAGES = 256
RECENT_BYTES = 256 * 1024
IDEMPOTENCY_WINDOW = timedelta(hours=24)
"""The time for which an ``Idempotency-Key`` is remembered."""

_CHOSEN = ("title", "model", "skill", "system_prompt", "labels", "keep_processes", "mode")
"""The fields that ``ChatChanged`` may set."""


ChatState: TypeAlias = Literal["created", "queued", "processing", "completed", "error"]
"""A status that includes the outcome of the last turn (section 3)."""


class MessageIndexEntry(Struct, frozen=True, array_like=True, gc=False):
    """The position of a message in the journal."""

    number: int
    """The number of messages before it."""
    offset: int
    """The first byte of its line."""
    at: Timestamp
    seq: int
    id: int = 0


class IdempotentResult(Struct, frozen=True):
    """The result of an ``Idempotency-Key``: the prompt it made (0: the chat itself)."""

    digest: str
    at: Timestamp
    prompt: Prompt | None = None


class ChatSummary(Struct, frozen=True, gc=False):
    """A chat's summary: the data of its status, lists, events and the index."""

    id: int
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    messages: int
    cost: Decimal
    waiting: int
    """Prompts in the queue, paused ones included."""
    ready: int
    """The number of prompts that are not paused."""
    working: bool
    outcome: Outcome | None
    """The outcome of the last turn; None before the first."""
    ready_since: Timestamp
    """The moment since which the chat waits for the agent (empty: it does not wait).

    The longest waiting goes first. A turn's end restarts the wait, so that a chat with many
    prompts does not keep the others waiting until it has none.
    """
    seq: int
    size: int
    """Bytes of journal behind this view."""
    held: str = ""
    """The reason why the queue is held until it is released; empty if it is not held."""
    waits_until: Timestamp = ""
    """The time at which a supplier's limit ends and the queue continues; empty: not waiting."""
    later: Timestamp = ""
    """The soonest time of its prompts, if all that are not paused have one; else empty."""
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
    """The moment it was moved to the trash; empty if it was not."""
    bot: str = ""
    """The id of the bot that it is linked to; empty: to none."""
    keep_processes: bool = False
    """Processes in the background go on when a turn ends."""
    worktree: str = ""
    """The step of its work tree; empty: it has none."""

    @property
    def status(self) -> Status:
        """The remote API's status (section 3)."""
        return derive_status(working=self.working, waiting=self.waiting > 0)

    @property
    def state(self) -> ChatState:
        """The status on the extended surface."""
        if self.status != "completed":
            return self.status
        if self.outcome is None:
            return "created"
        return "error" if self.outcome in ("failed", "interrupted") else "completed"

    def is_idle_at(self, now: Timestamp) -> bool:
        """Return whether nothing more happens to it without a request, or until a later time.

        A prompt whose time has come is as one without a time: it may still wait for its turn.
        """
        return bool(self.damage or self.deleted_at) or not (
            self.working or (self.ready and not self.held and self.later <= now)
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
    """The moment it was moved to the trash; empty if it was not."""
    queue: rules.Queue = ()
    ready: int = 0
    """Prompts in the queue that are not paused."""
    queue_version: int = 0
    """The seq of the last record that changed the queue."""
    sent: set[int] = field(default_factory=set)
    agent: AgentState = field(default_factory=AgentState)
    messages: int = 0
    cost: Decimal = Decimal(0)
    marks: list[MessageIndexEntry] = field(default_factory=list)
    recent: list[Message] = field(default_factory=list)
    """The last messages, oldest first."""
    recent_bytes: int = 0
    recent_diffs: int = 0
    """The size of their diffs, which may be much more than that of their texts."""
    created_once: str = ""
    once: dict[str, IdempotentResult] = field(default_factory=dict)
    lines: int = 0
    seq: int = 0
    size: int = 0
    last_line: int = 0
    """The offset of the last line in the journal."""
    highest_prompt: int = 0
    highest_message: int = 0
    damage: str = ""
    worktree: Worktree | None = None
    keep_processes: bool = False
    mode: str = ""

    def apply(self, entry: JournalEntry, size: int) -> None:
        """Take in one record whose line has ``size`` bytes."""
        match entry.body:
            case ChatCreated():
                self._apply_created(entry, entry.body)
            case QueueAppended(prompt=prompt, once=once):
                self._append_prompt(entry, prompt)
                self._remember_key(entry, once, prompt)
            case QueueRewritten(id=prompt_id, text=text, model=model, not_before=later):
                self.queue = rules.rewrite_prompt(self.queue, prompt_id, text, model, later)
                self.queue_version = entry.seq
            case QueueRemoved(id=prompt_id):
                self._remove_prompt(entry, prompt_id)
            case QueueReplaced(prompts=prompts):
                self._replace_queue(entry, prompts)
            case QueuePaused() | QueueMoved():
                self._rearrange(entry, entry.body)
            case TurnStarted():
                self._apply_turn_started(entry, entry.body)
            case TurnDeferred(cost=cost, delivered=delivered):
                self.cost += cost
                self._requeue_prompt(entry, delivered)
            case TurnEnded(cost=cost):
                self.cost += cost
            case ChatChanged() | WorktreeChanged():
                self._apply_changed(entry.body)
            case ChatDeleted() | ChatRestored():
                self.deleted_at = entry.at if isinstance(entry.body, ChatDeleted) else ""
        for message in get_messages(entry.body):
            self._add_message(entry, message)
        self.agent.apply(entry, self.highest_message)
        self.lines = entry.n
        self.seq = entry.seq
        self.last_line = self.size
        self.size += size
        self.updated_at = entry.at

    def snapshot(self) -> "Chat":
        """Return a copy for readers; later records do not change it."""
        seen = copy.copy(self)
        seen.recent = self.recent.copy()
        seen.agent = copy.copy(self.agent)
        return seen

    def get_next_timestamp(self, now: Timestamp) -> Timestamp:
        """Return the time for the next record: now, but never before the last one.

        A clock that jumps back would otherwise hide new messages from ``since``.
        """
        return max(now, self.updated_at)

    def get_messages_since(self, moment: Timestamp) -> list[Message] | None:
        """Return the messages from ``moment`` on, or None when the journal must be read."""
        if self.messages > len(self.recent) and (not self.recent or moment <= self.recent[0].at):
            return None
        return self.recent[bisect_left(self.recent, moment, key=lambda message: message.at) :]

    def find_offset_before(self, moment: Timestamp) -> int:
        """Return a journal offset before which there is no message from ``moment`` on."""
        index = bisect_left(self.marks, moment, key=lambda mark: mark.at)
        return self.marks[index - 1].offset if index else 0

    def find_index_entry_before(self, message_id: int) -> int:
        """Return the number of the last index entry with a smaller message id; -1: none."""
        return bisect_left(self.marks, message_id, key=lambda mark: mark.id) - 1

    def summarize(self) -> ChatSummary:
        """Return the short view of the chat."""
        up = rules.find_soonest(self.queue) if self.ready else None  # or it searches all paused
        agent = self.agent
        return ChatSummary(
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
            ready_since=max(up.at, up.not_before, agent.ended_at) if up else "",
            seq=self.seq,
            size=self.size,
            held=agent.hold.reason if agent.hold else "",
            waits_until=agent.wait.until if agent.wait else "",
            later=up.not_before if up else "",
            asking=len(agent.asked),
            day=agent.day,
            spent=agent.spent,
            once=self.created_once,
            damage=self.damage,
            labels=self.labels,
            deleted_at=self.deleted_at,
            bot=self.bot_id if self.bot_linked else "",
            keep_processes=self.keep_processes,
            worktree=self.worktree.step if self.worktree else "",
        )

    def _apply_created(self, entry: JournalEntry, body: ChatCreated) -> None:
        self.title = body.title
        self.created_at = entry.at
        self.model, self.skill = body.model, body.skill
        self.system_prompt = body.system_prompt
        self.bot_id, self.bot_linked, self.bot_note = body.bot_id, body.bot_linked, body.bot_note
        self.labels = body.labels
        self.worktree = body.worktree
        self.keep_processes = body.keep_processes
        self.mode = body.mode
        self._replace_queue(entry, (body.prompt,) if body.prompt else ())
        if body.once:
            self.created_once = body.once.key
        self._remember_key(entry, body.once, body.prompt)

    def _apply_changed(self, body: ChatChanged | WorktreeChanged) -> None:
        if isinstance(body, WorktreeChanged):
            self.worktree = body.worktree
            return
        for name in _CHOSEN:
            if (chosen := getattr(body, name)) is not None:
                setattr(self, name, chosen)

    def _apply_turn_started(self, entry: JournalEntry, body: TurnStarted) -> None:
        given = rules.find_prompt(self.queue, body.prompt)
        self._remove_prompt(entry, body.prompt)
        self.sent.add(body.prompt)
        if body.message:
            message = body.message
            given = given or Prompt(body.prompt, message.text, message.at)
            given = structs.replace(given, message=message.id, delivered="no")
        if given:
            self.agent.start_turn(entry, body, given, self.cost)

    def _requeue_prompt(self, entry: JournalEntry, delivered: Delivery) -> None:
        if self.agent.turn is None:
            return
        given = self.agent.turn.given
        if delivered != "no":
            given = structs.replace(given, delivered=delivered)
        if given.budget is not None:
            left = given.budget - (self.cost - self.agent.turn.cost_before)
            given = structs.replace(given, budget=max(left, Decimal(0)))
        self.sent.discard(given.id)
        self.queue = (given, *self.queue)
        self.queue_version = entry.seq
        self.ready += 1

    # The count of ready prompts is kept by hand: counting would cost more the longer the queue.

    def _append_prompt(self, entry: JournalEntry, prompt: Prompt) -> None:
        self.queue = self.queue + (prompt,)  # noqa: RUF005 - one copy of a long queue, not two
        self.queue_version = entry.seq
        self.ready += not prompt.paused
        self.highest_prompt = max(self.highest_prompt, prompt.id)

    def _remove_prompt(self, entry: JournalEntry, prompt_id: int) -> None:
        gone = rules.find_prompt(self.queue, prompt_id)
        self.queue = rules.remove_prompt(self.queue, prompt_id)
        self.queue_version = entry.seq
        self.ready -= gone is not None and not gone.paused

    def _replace_queue(self, entry: JournalEntry, queue: rules.Queue) -> None:
        self.queue = queue
        self.queue_version = entry.seq
        self.ready = sum(not prompt.paused for prompt in queue)
        self.highest_prompt = max([self.highest_prompt, *(prompt.id for prompt in queue)])

    def _rearrange(self, entry: JournalEntry, body: QueuePaused | QueueMoved) -> None:
        if isinstance(body, QueueMoved):
            self._replace_queue(entry, rules.move_prompt(self.queue, body.id, body.place))
        else:
            self._replace_queue(entry, rules.pause_prompts(self.queue, body.ids, pause=body.paused))

    def _remember_key(
        self, entry: JournalEntry, once: IdempotencyKey | None, prompt: Prompt | None
    ) -> None:
        if once is None:
            return
        horizon = format_iso(parse_iso(entry.at) - IDEMPOTENCY_WINDOW)
        self.once = {key: kept for key, kept in self.once.items() if kept.at >= horizon}
        self.once[once.key] = IdempotentResult(once.digest, entry.at, prompt)

    def _add_message(self, entry: JournalEntry, message: Message) -> None:
        if self.messages % INDEX_EVERY == 0:
            self.marks.append(
                MessageIndexEntry(self.messages, self.size, message.at, entry.seq, message.id)
            )
        self.messages += 1
        self.highest_message = max(self.highest_message, message.id)
        self.cost += message.cost
        self.agent.add_cost(entry.at, message.cost)
        self.recent.append(message)
        self.recent_bytes += len(message.text)
        self.recent_diffs += _measure_diff(message)
        if len(self.recent) > RECENT_MESSAGES or self.recent_bytes > RECENT_BYTES:
            self._drop_older_messages()

    def _drop_older_messages(self) -> None:
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
        self.recent_diffs = sum(map(_measure_diff, self.recent))


def _measure_diff(message: Message) -> int:
    return len(message.report.diff) if message.report else 0
