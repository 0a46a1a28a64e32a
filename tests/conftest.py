"""What several tests share: a state folder, and a daemon's inner parts living on it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agentd.agent.approval import Policy
from agentd.agent.approvals import Approvals
from agentd.agent.assigning import Assigner
from agentd.agent.budget import Budget
from agentd.agent.engine import Engine
from agentd.agent.engines import Engines
from agentd.agent.service import Dispatcher
from agentd.catalog.models import Models
from agentd.chats.chat import Message
from agentd.chats.service import ChatService
from agentd.chats.shelf import Shelf
from agentd.chats.turns import Turns
from agentd.clock import FrozenClock
from agentd.disk.chats import ChatFiles
from agentd.disk.journal import Committer
from agentd.disk.layout import Layout
from agentd.disk.skills import SkillFolder
from agentd.disk.state import State, open_state
from agentd.events import Bus, Event
from agentd.proxy.secrets.detect import Detector

# Compiled once, and not by each worker and each program anew, though a shell may want it so.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A slow machine is no failure: neither an example nor the making of one has a time limit.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ordinary", _PATIENT, max_examples=50)
settings.register_profile("thorough", _PATIENT, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))

LONG = (
    "agent/engines/test_daemon.py",
    "agent/engines/test_opencode.py",
    "benchmarks/test_benchmarks.py",
    "web/manage/test_openapi.py",
    "web/test_openapi.py",
    "crash/test_fault_sweep.py",
    "crash/test_kill9.py",
    "test_daemon.py",
    "agent/acp/test_package.py",
    "web/live/test_breaks.py",
    "web/live/test_clients.py",
    "agent/test_withstanding.py",
    "web/test_login.py",
    "test_readme.py",
    "web/live/test_rules.py",
    "bots/test_telegram.py",
    "crash/test_power_cut.py",
    "outside/test_stdio_engine.py",
    "crash/test_model_calls.py",
    "crash/test_following.py",
    "web/gateway/test_openapi.py",
    "web/gateway/test_in_one_piece.py",
)
"""The files that take longest begin first: else one would be left when all others are done."""

ME = "key:test"


def TEST(*_: object) -> tuple[str, str]:  # noqa: N802 - a constant choice
    """The engine ``test``, without a model."""
    return "test", ""


@dataclass
class Life:
    """One life of a daemon without its network: the real parts over a real folder."""

    layout: Layout
    state: State
    committer: Committer
    files: ChatFiles
    bus: Bus
    clock: FrozenClock
    chats: ChatService
    turns: Turns
    heard: list[Event] = field(default_factory=list)

    async def history(self, chat_id: int, since: str = "") -> list[Message]:
        """All messages of a chat from a moment on."""
        chat = await self.chats.get(chat_id)
        return [one async for part in self.chats.messages(chat, since) for one in part]


@asynccontextmanager
async def living(layout: Layout, *, crash: bool = False) -> AsyncIterator[Life]:
    """A life from start to end; with ``crash`` it leaves nothing behind but what was durable."""
    state = open_state(layout)
    committer = Committer(layout, state.sequences)
    files = ChatFiles(layout, state.sequences, committer)
    bus, clock = Bus(), FrozenClock()
    shelf = Shelf(files, clock, state.sequences, bus, state.chats)
    chats, turns = ChatService(shelf), Turns(shelf)
    life = Life(layout, state, committer, files, bus, clock, chats, turns)
    bus.subscribe(life.heard.append)
    try:
        yield life
    finally:
        await committer.close()
        if crash:
            assert state.lock
            state.lock.release()
        else:
            await files.close()
            state.save(chats.recorded())
            state.release()


def dispatcher_of(
    life: Life,
    engine: Engine,
    parallel: int = 2,
    *,
    models: Models | None = None,
    policy: Policy | None = None,
    budget: Budget | Callable[[], Budget] | None = None,
    named_in: Callable[[str], str] = lambda _: "",
) -> Dispatcher:
    """A dispatcher over the life's chats whose default engine is this one."""
    money = budget if callable(budget) else lambda: budget or Budget()
    approvals = Approvals(life.turns, life.clock, lambda: policy or Policy(), money, named_in)
    engines = Engines(
        lambda: {engine.name: engine}, lambda: engine.name, lambda: models or Models()
    )
    skills = SkillFolder(life.layout)
    chats = life.chats.summaries
    assigner = Assigner(life.turns, engines, skills, life.clock, chats, money, "test")
    return Dispatcher(life.turns, assigner, approvals, life.clock, life.bus, lambda: parallel)


def pytest_configure() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so would the programs of tests."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: two for each core, for most tests wait more than they work."""
    return min(2 * len(os.sched_getaffinity(0)), 8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files of ``LONG`` first, else everything in its order."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))


@pytest.fixture(autouse=True, scope="session")
def _patterns_are_made_once() -> Iterator[None]:
    """Rules that are alike share their patterns: else each daemon's start would make them anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentd.proxy.secrets.hiding.Detector", lru_cache(8)(Detector))
        yield


@pytest.fixture(autouse=True, scope="session")
def _loops_are_made_by_those_who_close_them() -> None:
    """Else pytest-tornado, which asks for the current loop, would have Python make one."""
    asyncio.set_event_loop(None)


async def until(true: Callable[[], object], seconds: float = 100.0) -> None:
    """Return once ``true()`` is; fail after ``seconds``."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not true():
        assert loop.time() < end, "it did not come true in time"
        await asyncio.sleep(0.001)


def overwrite(path: str, at: int, data: bytes) -> None:
    """Damage a file: these bytes stand there now, from ``at`` on."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))
