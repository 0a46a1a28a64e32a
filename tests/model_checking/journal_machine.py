"""Journals with group commit, whose disk fails and whose power is cut between any two calls.

Appends to several chats are started without waiting, so that they share batches or follow a batch
that is under way. Every call that changes the folder is recorded. At the end the folder is laid
out as each of its boundaries may have left it, and a store that starts on it must have a beginning
of what each chat was asked, with all that was acknowledged before the boundary.
"""

import asyncio
import errno
import os
import random
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any, TypeVar

from agentd.chats.service import NewChat
from agentd.core.errors import AgentdError, Unavailable
from agentd.storage.layout import Layout
from tests.conftest import ME, Services, running_services
from tests.crash import reading
from tests.crash.power import build_cut_tree, lay_out
from tests.crash.recorder import CallerNote, Event, Made, Recorder, Synced, Written
from tests.model_checking.explorer import Subject

T = TypeVar("T")


class Extreme(random.Random):
    """A chance that always does the same to what was not synced.

    ``names``: the share of unsynced names that are there; ``written``: that of unsynced bytes.
    """

    def __init__(self, names: float, written: float) -> None:
        super().__init__()
        self._names = names
        self._written = written

    def random(self) -> float:
        """Return what keeps a name or not, and leaves no zeros."""
        return 0.5

    def choice(self, seq: Any) -> Any:
        """Return the share of names."""
        return self._names

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return a share of the range."""
        return int((start - 1) * self._written)


CUTS = {
    "nothing unsynced is there": Extreme(0.0, 0.0),
    "only names are there": Extreme(1.0, 0.0),
    "half of the bytes are there": Extreme(1.0, 0.5),
    "all bytes are there without their names": Extreme(0.0, 1.0),
}


class FailingDisk:
    """Has the next call of a name fail, once; a write takes half of its bytes before."""

    def __init__(self) -> None:
        self.fails = ""
        self._lock = threading.Lock()
        self._real: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """Stand between the store and ``os`` from now on."""
        for name in ("write", "fdatasync"):
            self._real[name] = getattr(os, name)
            setattr(os, name, self._wrap(name, self._real[name]))

    def remove(self) -> None:
        """Restore ``os``."""
        for name, real in self._real.items():
            setattr(os, name, real)

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, *data: Any) -> Any:
            if threading.current_thread() is threading.main_thread() or not self._is_due(name):
                return real(fd, *data)
            if data:
                real(fd, bytes(data[0])[: len(data[0]) // 2])
            raise OSError(errno.ENOSPC if data else errno.EIO, "it fails")

        return call

    def _is_due(self, name: str) -> bool:
        with self._lock:
            due = self.fails == name
            self.fails = "" if due else self.fails
            return due


class JournalMachine:
    """The real store over a recorded folder, and what each chat was asked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._root = os.path.join(folder, "recorded")
        os.mkdir(self._root)
        self._layout = Layout(os.path.join(self._root, "state"), os.path.join(folder, "config"))
        self._recorder = Recorder(self._root)
        self._disk = FailingDisk()
        self._shims = ExitStack()
        self._stack = AsyncExitStack()
        self._services: Services
        self._running: list[asyncio.Task[None]] = []
        self._asked: dict[int, list[str]] = {}
        self._checked = 0
        self._texts = 0

    async def start(self) -> None:
        """Begin with two chats on disk."""
        self._shims.enter_context(self._recorder.recording())
        self._disk.install()
        self._shims.callback(self._disk.remove)
        self._services = await self._stack.enter_async_context(
            running_services(self._layout, crash=True)
        )
        for _ in range(2):
            await self._create()
        self._checked = len(self._recorder.log)

    async def close(self) -> None:
        """Let go of the folder."""
        await asyncio.gather(*self._running)
        self._shims.close()
        await self._stack.aclose()

    async def apply(self, step: str) -> None:
        """Start an append, wait for all of them, or have the next call fail."""
        self._checked = len(self._recorder.log) if step == "settle" else self._checked
        match step.split():
            case ["append", "to", chat]:
                self._running.append(asyncio.create_task(self._append(int(chat))))
            case ["create"]:
                self._running.append(asyncio.create_task(self._create()))
            case ["fail", call]:
                self._disk.fails = call
            case ["settle"]:
                await asyncio.gather(*self._running)
        for _ in range(4):  # a batch begins, and takes along what was appended so far
            await asyncio.sleep(0)

    async def finish(self) -> None:
        """Cut the power at every boundary since the last settling."""
        await asyncio.gather(*self._running)
        self._shims.close()
        log = self._recorder.log
        for at in range(self._checked, len(log) + 1):
            if at == len(log) or not isinstance(log[at], CallerNote):
                self._check_boundary(log[:at], log[at] if at < len(log) else None)

    async def _create(self) -> None:
        text = self._make_text()
        chats = self._services.chats
        number = self._services.state.sequences.used.chat + 1
        self._asked[number] = [text]
        try:
            chat = await chats.create(NewChat(prompt=text), ME)
        except Unavailable:
            return
        assert chat.id == number
        self._recorder.note(number, text)

    async def _append(self, chat: int) -> None:
        text = self._make_text()
        try:
            await self._services.chats.get(chat)
            self._asked[chat].append(text)
            await self._services.chats.append_prompt(chat, text, "", ME)
        except AgentdError:
            return
        self._recorder.note(chat, text)

    def _make_text(self) -> str:
        self._texts += 1
        return f"text {self._texts}"

    def _check_boundary(self, log: list[Event], torn: Event | None) -> None:
        told: dict[int, list[str]] = {}
        for event in log:
            if isinstance(event, CallerNote):
                told.setdefault(event.what[0], []).append(event.what[1])
        for how, tree in _list_trees(log, torn):
            place = os.path.join(self._folder, "cut")
            lay_out(tree, place)
            try:
                self._check_start(os.path.join(place, "state"), told, f"{how}, call {len(log)}")
            finally:
                shutil.rmtree(place)

    def _check_start(self, state: str, told: dict[int, list[str]], where: str) -> None:
        if not os.path.exists(state):
            assert not told, f"{where}: the folder is lost"
            return
        try:
            found = reading.read_chats(state)
            again = reading.read_chats(state)
            marks = reading.read_marks(state)
        except AgentdError as error:
            raise AssertionError(f"{where}: no start: {error.message}") from error
        assert found == again, f"{where}: a second start finds something else"
        assert marks.chat >= max(told, default=0), f"{where}: chat ids are given again"
        for chat, one in found.items():
            assert not one.damage, f"{where}: chat {chat} is damaged: {one.damage}"
            texts = [row.text for row in one.queue]
            asked = self._asked.get(chat, [])
            assert _is_subsequence(texts, asked), f"{where}: chat {chat} has {texts} of {asked}"
        for chat, texts in told.items():
            there = [row.text for row in found[chat].queue] if chat in found else []
            assert _is_subsequence(texts, there), f"{where}: chat {chat} has {there}, told {texts}"


def _list_trees(log: list[Event], torn: Event | None) -> Iterator[tuple[str, Any]]:
    """Yield what a kill and what power cuts may leave at the end of this log."""
    things = [event.thing for event in log if isinstance(event, Made)]
    safe = [Synced(thing, len(log)) for thing in (0, *things)]
    yield "killed", build_cut_tree([*log, *safe], CUTS["only names are there"])
    if isinstance(torn, Written):
        half = Written(torn.thing, torn.offset, torn.data[: len(torn.data) // 2])
        safe = [Synced(thing, len(log) + 1) for thing in (0, *things)]
        yield "killed in a write", build_cut_tree([*log, half, *safe], Extreme(1.0, 0.0))
    for how, chance in CUTS.items():
        yield how, build_cut_tree(log, chance)


def _is_subsequence(some: list[str], of: list[str]) -> bool:
    rest = iter(of)
    return all(one in rest for one in some)


@asynccontextmanager
async def open_journal(folder: str) -> AsyncIterator[JournalMachine]:
    """Run a store in this folder."""
    machine = JournalMachine(folder)
    await machine.start()
    try:
        yield machine
    finally:
        await machine.close()


JOURNAL = Subject(
    "journal",
    ("append to 1", "append to 2", "create", "settle", "fail write", "fail fdatasync"),
    open_journal,
)
