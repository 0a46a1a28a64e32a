"""The events as every live connection gets them: in order, each encoded once.

Whoever comes back with the last mark that he saw gets what he missed, or hears of a gap.
"""

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from itertools import groupby
from operator import itemgetter
from typing import Protocol, TypeAlias

from agentd.chats.fold import Summary
from agentd.events import (
    ApprovalUpdate,
    AutofixUpdate,
    BotsUpdate,
    BuildOutput,
    BuildUpdate,
    Bus,
    ChatGone,
    ChatUpdate,
    DeploymentOutput,
    DeploymentUpdate,
    Event,
    FilesUpdate,
    GitUpdate,
    KeysUpdate,
    LabelsUpdate,
    Last,
    MessageDelta,
    MessageUpdate,
    ModelsUpdate,
    QueueUpdate,
    SettingsUpdate,
    SkillsUpdate,
    Stored,
)
from agentd.ids import Lives
from agentd.web.bot_views import bot_view
from agentd.web.catalog_views import models_view, skills_view
from agentd.web.job_views import JobOutputView, build_view, deployment_view
from agentd.web.mark import WHOLE, Mark, read_mark
from agentd.web.place_views import FilesChangeView, file_view, head_view
from agentd.web.views import DeltaView, approval_view, chat_view, message_view, prompt_view
from agentd.wire import sse
from agentd.wire.portion import Encoded, Portion, portions
from agentd.wire.signalr.records import Event as Record

RECENT_EVENTS = 2000
RECENT_BYTES = 2 * 1024 * 1024
"""What is kept in memory of the last events, at most; older ones are read from the disk."""
_LINE = 1024 * 1024
"""The longest line of a journal, about: what a request may bring."""
QUIET = 30
"""Calls of ``keep`` without an event, after which the journals are read for what memory lost."""

NOBODY = Lives()
"""Where no run of the daemon is told from another."""


class Told(Record):
    """One event, encoded, with its mark; None for one that is not stored."""

    __slots__ = ("_sse", "mark", "name")

    def __init__(self, event: Event, mark: Mark | None) -> None:
        chat, arguments = _arguments(event, mark.life if mark else "")
        super().__init__(event.name, arguments, seq=mark.seq if mark else None, chat=chat)
        self.name = event.name
        self.mark = mark
        self._sse = b""

    @classmethod
    def stored(cls, event: bytes, chat: int) -> "Told":
        """An event that was encoded before, from the server-sent event that it is."""
        head, name, data = event[:-2].split(b"\n", 2)
        told = cls.__new__(cls)
        told.be(b'{"type":1,"target":"%b","arguments":%b}' % (name[7:], data[6:]))
        told.mark, told.chat, told.name = _mark_of(head + b"\n"), chat, name[7:].decode()
        told.seq = told.mark.seq
        told._sse = event
        return told

    @property
    def arguments(self) -> bytes:
        """The arguments' JSON, cut out of the record that holds them."""
        return self.data[self.data.index(b'"arguments":') + 12 : -2]

    @property
    def sse(self) -> bytes:
        """The event for ``GET /api/events``; made once."""
        if not self._sse:
            mark = None if self.mark is None else str(self.mark)
            self._sse = sse.json_event(self.arguments, self.name, mark)
        return self._sse


class History(Protocol):
    """Where missed events come from (``disk.replay.Replay``)."""

    async def missed(
        self, chats: Iterable[Summary], after: int, upto: int, wanted: frozenset[int] | None
    ) -> AsyncIterator[Portion] | None:
        """The events of the records after one seq up to another; None when they are too many."""
        ...

    async def keep(
        self,
        recent: Callable[[int, int], list[tuple[int, Event]] | None],
        upto: int,
        chats: Iterable[Summary] | None,
    ) -> bool:
        """Keep what was told, for those who miss it; False while there is more to be kept."""
        ...


class Chats(Protocol):
    """What the feed asks of the chats."""

    def recorded(self) -> list[Summary]:
        """Every chat at a glance, those in the trash too."""
        ...


Listener: TypeAlias = Callable[[Told], None]


class _Recent:
    """The last stored events, not encoded: a short break need not be read from the disk."""

    def __init__(self, before: int) -> None:
        self._events: deque[tuple[int, Event]] = deque()
        self._weights: deque[int] = deque()
        self._size = 0
        self._sizes: dict[int, int] = {}
        """Bytes of the journals, to tell by how much a record made one longer."""
        self._before = before
        """The last record of which not everything is here."""

    def add(self, seq: int, event: Event) -> None:
        """One more; the oldest go when they are too many or hold too much."""
        self._events.append((seq, event))
        self._weights.append(self._weight(event))
        self._size += self._weights[-1]
        while len(self._events) > RECENT_EVENTS or self._size > RECENT_BYTES:
            self._before, _ = self._events.popleft()
            self._size -= self._weights.popleft()

    def after(self, seq: int, upto: int) -> list[tuple[int, Event]] | None:
        """The events of the records after one, up to another; None when some are gone."""
        if seq < self._before:
            return None
        return [row for row in self._events if seq < row[0] <= upto]

    def _weight(self, event: Event) -> int:
        """About how many bytes an event keeps in memory.

        A queue shares most of its prompts with the one before it; what is new in the events of a
        record is what its line in the journal has, which the last of them tells the size of.
        """
        if isinstance(event, QueueUpdate):
            return 100 + 8 * len(event.prompts)
        if not isinstance(event, Last):
            return 400
        size = event.chat.size
        known = self._sizes.pop(event.chat.id, 0)
        self._sizes[event.chat.id] = size
        if len(self._sizes) > RECENT_EVENTS:  # of a chat that was quiet for long, a guess will do
            del self._sizes[next(iter(self._sizes))]
        return 400 + min(max(size - known, 0), _LINE)


class Feed:
    """Hears the bus, encodes, tells its listeners; reads back what somebody missed.

    ``latest`` is the last seq, ``lives`` are the runs of the daemon, with this one.
    """

    def __init__(
        self, bus: Bus, chats: Chats, history: History, latest: int, lives: Lives = NOBODY
    ) -> None:
        self._chats = chats
        self._history = history
        self._lives = lives
        self._listeners: dict[Listener, None] = {}
        self._part = 0
        self._recent = _Recent(latest)
        self._kept = self._seen = latest
        self._quiet = 0
        self.position = latest
        """The seq of the last record of which everything was told."""
        bus.subscribe(self._heard)

    @property
    def mark(self) -> Mark:
        """Where whoever has everything is."""
        return Mark(self.position, life=self._lives.current)

    def subscribe(self, listener: Listener) -> None:
        """Have ``listener`` called with each event from now on; it must not fail or wait."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Listener) -> None:
        """Call it no more."""
        self._listeners.pop(listener, None)

    async def missed(
        self, after: Mark, upto: int, chats: frozenset[int] | None = None
    ) -> AsyncIterator[Portion] | None:
        """What was told after a mark, up to the record ``upto``; None: it cannot be told any more.

        That is so for too many events, and for a mark that is none of this history: the state
        folder is an older copy of the one that the listener knew, though it may have grown since.
        Each portion is made when it is asked for.
        """
        if after.seq > upto or not self._lives.knew(after.seq, after.life):
            return None
        first = after.seq if after.part == WHOLE else after.seq - 1
        recent = self._recent.after(first, upto)
        portions: AsyncIterator[Portion] | None
        if recent is not None:
            portions = _encoded(recent, chats, self._lives)
        else:
            portions = await self._history.missed(self._chats.recorded(), first, upto, chats)
        return portions if portions is None or after.part == WHOLE else _cut(portions, after)

    async def keep(self) -> None:
        """Have the disk take in what is only in memory; to be called now and then."""
        upto = self.position
        self._quiet = self._quiet + 1 if self._seen == upto else 0
        self._seen = upto
        if self._kept == upto:
            return
        chats = self._chats.recorded() if self._quiet >= QUIET else None
        if await self._history.keep(self._recent.after, upto, chats):
            self._kept = upto

    def _heard(self, event: Event) -> None:
        mark = None
        if isinstance(event, Stored):
            whole = isinstance(event, Last)
            mark = Mark(event.seq, WHOLE if whole else self._part, self._lives.current)
            self._part = 0 if whole else self._part + 1
            if whole:
                self.position = event.seq
            self._recent.add(event.seq, event)
        if self._listeners:  # with nobody there, nothing is encoded
            told = Told(event, mark)
            for listener in tuple(self._listeners):
                listener(told)


def encoded(lives: Lives, seq: int, events: Sequence[Event]) -> bytes:
    """All events of one record as server-sent events; a ``Last`` is the last of them."""
    life = lives.name_of(seq)
    marks = [Mark(seq, part, life) for part in [*range(len(events) - 1), WHOLE]]
    return b"".join(Told(*pair).sse for pair in zip(events, marks, strict=True))


async def _encoded(
    recent: list[tuple[int, Event]], chats: frozenset[int] | None, lives: Lives
) -> AsyncGenerator[Portion, None]:
    """What was told, encoded portion by portion, off the loop."""
    records = (
        Encoded(seq, 0 if chat is None else chat, 0, encoded(lives, seq, events))
        for seq, chat, events in _records(recent)
        if chats is None or chat in chats
    )
    made = portions(records, None)
    while portion := await asyncio.to_thread(next, made, None):
        yield portion


def _records(recent: list[tuple[int, Event]]) -> Iterator[tuple[int, int | None, list[Event]]]:
    """The seq, the chat and the events of each record."""
    for seq, rows in groupby(recent, itemgetter(0)):
        events = [event for _, event in rows]
        yield seq, events[-1].chat.id if isinstance(events[-1], Last) else None, events


async def _cut(portions: AsyncIterator[Portion], after: Mark) -> AsyncGenerator[Portion, None]:
    """The portions without what stands before a mark inside the first record."""
    async for portion in portions:
        if portion.rows and portion.rows[0] == after.seq:
            size = portion.rows[2]
            rest = b"".join(
                event for event in _events(portion.data[:size]) if after.precedes(_mark_of(event))
            )
            rows = portion.rows[:]
            rows[2] = len(rest)
            yield Portion(portion.upto, rest + portion.data[size:], rows)
        else:
            yield portion


def told_in(portion: Portion) -> list[Told]:
    """The events as records of the hub."""
    return [
        Told.stored(event, chat) for _, chat, data in portion.records() for event in _events(data)
    ]


def _events(data: bytes) -> Iterator[bytes]:
    """Each of the server-sent events that stand here, with its end."""
    begin = 0
    while begin < len(data):
        end = data.index(b"\n\n", begin) + 2
        yield data[begin:end]
        begin = end


def _mark_of(event: bytes) -> Mark:
    return read_mark(event[4 : event.index(b"\n")].decode())


def _arguments(  # noqa: PLR0911 - a table
    event: Event, life: str
) -> tuple[int | None, list[object]]:
    """The chat that an event is about, and its arguments on the wire."""
    match event:
        case ChatUpdate(chat=chat, reason=reason):
            return chat.id, [chat_view(chat, reason, life)]
        case ChatGone(chat=chat):
            return chat.id, [chat.id]
        case MessageUpdate() | QueueUpdate() | ApprovalUpdate() | MessageDelta():
            return event.chat_id, [event.chat_id, _in_chat(event)]
        case KeysUpdate(names=listed) | LabelsUpdate(labels=listed):
            return None, [listed]
        case BotsUpdate(bots=bots):
            return None, [[bot_view(bot) for bot in bots]]
        case SettingsUpdate() | SkillsUpdate() | ModelsUpdate():
            return None, [_written(event)]
        case BuildUpdate() | BuildOutput() | AutofixUpdate():
            return None, [_job(event)]
        case DeploymentUpdate() | DeploymentOutput():
            return None, [_job(event)]
        case GitUpdate() | FilesUpdate():
            return None, [_in_workspace(event)]


def _job(
    event: BuildUpdate | BuildOutput | DeploymentUpdate | DeploymentOutput | AutofixUpdate,
) -> object:
    """The one argument of an event about builds and deployments."""
    match event:
        case BuildUpdate(build=build):
            return build_view(build)
        case BuildOutput(build=build, run=run, text=text, skipped=skipped):
            return JobOutputView(build, run, text, skipped)
        case DeploymentOutput(deployment=deployed, run=run, text=text, skipped=skipped):
            return JobOutputView(deployed, run, text, skipped)
        case DeploymentUpdate(deployment=deployment):
            return deployment_view(deployment)
        case AutofixUpdate(autofix=autofix):
            return autofix


def _in_workspace(event: GitUpdate | FilesUpdate) -> object:
    match event:
        case GitUpdate(head=head):
            return head_view(head)
        case FilesUpdate(added=added, removed=removed):
            return FilesChangeView([file_view(one) for one in added], list(removed))


def _in_chat(event: MessageUpdate | QueueUpdate | ApprovalUpdate | MessageDelta) -> object:
    match event:
        case MessageUpdate(message=message):
            return message_view(message)
        case QueueUpdate(prompts=prompts):
            return [prompt_view(prompt) for prompt in prompts]
        case ApprovalUpdate(chat_id=chat_id, approval=approval):
            return approval_view(approval, chat_id)
        case MessageDelta(turn=turn, text=text):
            return DeltaView(turn, text)


def _written(event: SettingsUpdate | SkillsUpdate | ModelsUpdate) -> object:
    """The one argument of an event about what people write by hand."""
    match event:
        case SettingsUpdate(settings=settings):
            return settings
        case SkillsUpdate(skills=skills, mistakes=mistakes):
            return skills_view(skills, mistakes)
        case ModelsUpdate(models=models, mistakes=mistakes):
            return models_view(models, mistakes)
