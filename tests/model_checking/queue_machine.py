"""The queue of a chat with its versions, driven by two callers and a dispatcher.

The model is a list of prompts. A caller's conditional replacement must succeed if and only if the
queue has not changed since that caller read it, whoever changed it and whatever restarts between.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from agentd.chats.agent_state import QueueWait
from agentd.chats.commands import ChatCommands
from agentd.chats.queue import QueueItem
from agentd.chats.repository import ChatRepository
from agentd.chats.service import NewChat
from agentd.chats.state import Chat
from agentd.core.errors import NotFound, PreconditionFailed
from agentd.core.idempotency import IdempotencyKey
from agentd.storage.layout import Layout
from tests.conftest import ME, TEST, Services, running_services
from tests.model_checking.explorer import Subject

CHAT = 1
ONCE = IdempotencyKey("once", "digest")


@dataclass(frozen=True)
class Row:
    """A waiting prompt of the model."""

    id: int
    text: str
    paused: bool = False


@dataclass(frozen=True)
class Reading:
    """What a caller read: the queue, its version, and how often it had changed by then."""

    rows: tuple[Row, ...]
    version: int
    changes: int


@dataclass
class QueueModel:
    """What the queue must be."""

    rows: tuple[Row, ...] = ()
    sent: set[int] = field(default_factory=set)
    changes: int = 0
    once: int = 0
    """The id of the prompt that was appended with a key; 0: none was."""

    def change(self, rows: tuple[Row, ...]) -> None:
        """Note a change."""
        self.rows = rows
        self.changes += 1


class QueueMachine:
    """The real service over real files, and its model."""

    def __init__(self, layout: Layout) -> None:
        self.model = QueueModel()
        self._layout = layout
        self._stack = AsyncExitStack()
        self._version = self._seen_changes = self._texts = 0
        self.services: Services
        self.readings: dict[str, Reading] = {}

    async def start(self) -> None:
        """Begin with two prompts, which both callers have read."""
        await self._open()
        chat = await self.services.chats.create(NewChat(prompt="first"), ME)
        await self.services.chats.append_prompt(chat.id, "second", "", ME)
        self.model.rows = tuple(
            Row(one.id, one.text) for one in (await self.services.chats.get(CHAT)).queue
        )
        await self._compare()
        for caller in ("A", "B"):
            await self._read(caller)

    async def close(self) -> None:
        """Release the folder."""
        await self._stack.aclose()

    async def apply(self, step: str) -> None:
        """Take one step, and compare."""
        match step.split():
            case [caller, "reads"]:
                await self._read(caller)
            case ["A", "replaces"]:
                await self._replace(self.readings["A"], conditional=True)
            case ["B", "replaces"]:
                await self._replace(self.readings["B"], conditional=False)
            case ["A", "rewrites"]:
                await self._rewrite(self.readings["A"])
            case ["append"] | ["append", "once"]:
                await self._append(once=step != "append")
            case ["restart"]:
                await self._stack.aclose()
                await self._open()
            case ["send"] | ["defer"]:
                await self._send(again=step == "defer")
            case _:
                await self._change_first(step)
        await self._compare()

    async def finish(self) -> None:
        """Compare once more after a restart: the journal says the same."""
        await self.apply("restart")

    async def _open(self) -> None:
        self._stack = AsyncExitStack()
        self.services = await self._stack.enter_async_context(
            running_services(self._layout, crash=True)
        )

    async def _get(self) -> Chat:
        return await self.services.chats.get(CHAT)

    async def _compare(self) -> None:
        chat = await self._get()
        found = tuple(Row(one.id, one.text, one.paused) for one in chat.queue)
        assert found == self.model.rows, f"the queue is {found}, expected {self.model.rows}"
        assert chat.sent == self.model.sent, f"sent are {chat.sent}, expected {self.model.sent}"
        ready = sum(not row.paused for row in found)
        assert chat.ready == ready, f"{chat.ready} are ready, expected {ready}"
        changed = self.model.changes != self._seen_changes
        moved = chat.queue_version != self._version
        assert changed == moved or not self._version, (
            f"version {self._version} became {chat.queue_version}, changed: {changed}"
        )
        self._version, self._seen_changes = chat.queue_version, self.model.changes

    async def _read(self, caller: str) -> None:
        chat = await self._get()
        self.readings[caller] = Reading(self.model.rows, chat.queue_version, self.model.changes)

    def _make_text(self) -> str:
        self._texts += 1
        return f"text {self._texts}"

    async def _append(self, *, once: bool) -> None:
        text = "once" if once else self._make_text()
        prompt = await self.services.chats.append_prompt(CHAT, text, "", ME, ONCE if once else None)
        if once and self.model.once:
            assert prompt.id == self.model.once, f"a repetition made prompt {prompt.id}"
            return
        self.model.change((*self.model.rows, Row(prompt.id, text)))
        self.model.once = prompt.id if once else self.model.once

    async def _replace(self, known: Reading, *, conditional: bool) -> None:
        """Ask for the rows of a reading, without the last or in reverse and with a new one."""
        if conditional:
            wanted = [QueueItem(row.text, row.id) for row in reversed(known.rows)]
            wanted.append(QueueItem(self._make_text()))
        else:
            wanted = [QueueItem(row.text, row.id) for row in known.rows[:-1]]
        stale = conditional and known.changes != self.model.changes
        waiting = {row.id: row for row in self.model.rows}
        unknown = any(one.id and one.id not in waiting.keys() | self.model.sent for one in wanted)
        version = known.version if conditional else None
        try:
            queue, _ = await self.services.chats.replace_queue(CHAT, wanted, ME, version)
        except PreconditionFailed:
            assert stale, "refused, although the queue was as it was read"
            return
        except NotFound:
            assert unknown, "refused, although all prompts were known"
            return
        assert not stale, "replaced, although the queue had changed since it was read"
        assert not unknown, "replaced with a prompt that is gone"
        kept = [one for one in wanted if one.id not in self.model.sent]
        paused = [bool(one.id) and waiting[one.id].paused for one in kept]
        new = {row.text: row.id for row in queue}
        self.model.change(
            tuple(
                Row(one.id or new[one.text], one.text, off)
                for one, off in zip(kept, paused, strict=True)
            )
        )

    async def _rewrite(self, known: Reading) -> None:
        if not known.rows:
            return
        wanted, text = known.rows[0].id, self._make_text()
        there = wanted in {row.id for row in self.model.rows}
        try:
            await self.services.chats.rewrite_prompt(CHAT, wanted, text, ME, version=known.version)
        except NotFound:
            assert not there, f"prompt {wanted} waits, but was not found"
            return
        except PreconditionFailed:
            assert known.changes != self.model.changes, "refused, although nothing had changed"
            return
        assert there, f"prompt {wanted} was rewritten, though it does not wait"
        assert known.changes == self.model.changes, "rewritten, although the queue had changed"
        self._rewrite_row(wanted, text)

    def _rewrite_row(self, prompt: int, text: str) -> None:
        rows = self.model.rows
        self.model.change(
            tuple(replace(row, text=text) if row.id == prompt else row for row in rows)
        )

    async def _send(self, *, again: bool) -> None:
        first = next((row for row in self.model.rows if not row.paused), None)
        taken = await self.services.turns.start_turn(CHAT, TEST)
        assert (taken is None) == (first is None), f"taken: {taken}, expected {first}"
        if first is None or taken is None or taken.agent.turn is None:
            return
        assert taken.agent.turn.given.id == first.id, f"{taken.agent.turn.given} was not its turn"
        others = tuple(row for row in self.model.rows if row is not first)
        if again:
            await self.services.turns.defer_turn(CHAT, QueueWait("2026-01-01T00:00:00.000Z", "x"))
            self.model.change((first, *others))
            return
        await self.services.turns.end_turn(CHAT, "completed")
        self.model.sent.add(first.id)
        self.model.change(others)

    async def _change_first(self, step: str) -> None:
        """Pause or resume all, move the last to the front, remove or rewrite the first."""
        rows = self.model.rows
        commands = ChatCommands(self._repository)
        match step:
            case "pause" | "resume":
                one = rows[0].id if rows and step == "pause" else None
                paused = step == "pause"
                await commands.pause_prompts(CHAT, one, ME, pause=paused)
                now = tuple(
                    replace(row, paused=paused) if one in (None, row.id) else row for row in rows
                )
                if now != rows:
                    self.model.change(now)
            case "move" if rows:
                await commands.move_prompt(CHAT, rows[-1].id, 0, ME)
                if len(rows) > 1:
                    self.model.change((rows[-1], *rows[:-1]))
            case "remove" if rows:
                await self.services.chats.remove_prompt(CHAT, rows[0].id, ME)
                self.model.change(rows[1:])
            case "rewrite" if rows:
                text = self._make_text()
                await self.services.chats.rewrite_prompt(CHAT, rows[0].id, text, ME)
                self._rewrite_row(rows[0].id, text)

    @property
    def _repository(self) -> ChatRepository:
        return self.services.chats._chats


@asynccontextmanager
async def open_queue(folder: str) -> AsyncIterator[QueueMachine]:
    """Run a queue in this folder."""
    machine = QueueMachine(Layout(os.path.join(folder, "state"), os.path.join(folder, "config")))
    await machine.start()
    try:
        yield machine
    finally:
        await machine.close()


QUEUE = Subject(
    "queue",
    (
        *("append", "append once", "pause", "resume", "move", "remove", "rewrite", "send", "defer"),
        *("A reads", "B reads", "A replaces", "B replaces", "A rewrites", "restart"),
    ),
    open_queue,
)
