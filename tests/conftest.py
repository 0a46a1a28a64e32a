"""Fixtures of several tests: a state folder, and the services of a daemon over it."""

import asyncio
import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agentd.agent.approval_rules import ApprovalPolicy, ApprovalRule
from agentd.agent.approvals import ApprovalService
from agentd.agent.budget import SpendBudget
from agentd.agent.dispatcher import Dispatcher
from agentd.agent.engine import Engine, Question
from agentd.agent.engine_selection import EngineRegistry
from agentd.agent.planner import TurnPlanner
from agentd.app.state import State, open_state
from agentd.chats.model import Message
from agentd.chats.repository import ChatRepository
from agentd.chats.service import ChatService
from agentd.chats.store import ChatFiles
from agentd.chats.turns import TurnRecorder
from agentd.cli.serve import GC_THRESHOLDS
from agentd.core.clock import FrozenClock
from agentd.core.errors import Unavailable
from agentd.core.events import Event, EventBus
from agentd.gateway.secrets.detect import LazyDetector
from agentd.models.model import Models
from agentd.models.program_state import ProgramStates
from agentd.skills.store import SkillFolder
from agentd.storage.journal import GroupCommitter
from agentd.storage.layout import Layout

pytest_plugins = ("tests.support.fixtures",)

# Compiled once, and not by each worker and each program anew, though a shell may want it so.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A slow machine is no failure: neither an example nor the making of one has a time limit.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ordinary", _PATIENT, max_examples=50)
settings.register_profile("fast", _PATIENT, max_examples=8)
settings.register_profile("thorough", _PATIENT, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ordinary"))

LONG = (
    "agent/engines/real/test_matrix.py",
    "agent/engines/real/test_opencode.py",
    "gateway/admin/api/test_openapi.py",
    "http/test_openapi_document.py",
    "crash/test_fault_sweep.py",
    "crash/test_kill9.py",
    "test_daemon.py",
    "agent/engines/acp/test_package.py",
    "live/hub/test_breaks.py",
    "live/hub/test_clients.py",
    "agent/test_withstanding.py",
    "auth/test_login.py",
    "test_readme.py",
    "live/hub/test_rules.py",
    "bots/test_telegram.py",
    "crash/test_power_cut.py",
    "agent/engines/external/test_engine.py",
    "crash/test_model_calls.py",
    "crash/test_following.py",
    "gateway/relay/test_openapi.py",
    "gateway/relay/test_in_one_piece.py",
    "ui/test_every_page.py",
    "ui/test_gateway.py",
    "ui/test_page_states.py",
    "ui/test_hostile.py",
    "ui/test_gateway_records.py",
    "ui/test_management_fields.py",
    "ui/test_chat.py",
    "ui/test_firefox.py",
)
"""The files that take longest begin first: else one would be left when all others are done."""

ME = "key:test"


def TEST(*_: object) -> tuple[str, str]:  # noqa: N802 - a constant choice
    """Choose the engine ``test``, without a model."""
    return "test", ""


@dataclass
class Services:
    """The services of a daemon without its network, over a real folder."""

    layout: Layout
    state: State
    committer: GroupCommitter
    files: ChatFiles
    bus: EventBus
    clock: FrozenClock
    chats: ChatService
    turns: TurnRecorder
    heard: list[Event] = field(default_factory=list)

    async def history(self, chat_id: int, since: str = "") -> list[Message]:
        """Return all messages of a chat from a moment on."""
        chat = await self.chats.get(chat_id)
        return [one async for part in self.chats.read_messages(chat, since) for one in part]


@asynccontextmanager
async def running_services(layout: Layout, *, crash: bool = False) -> AsyncIterator[Services]:
    """The services of a daemon; with ``crash`` they leave only what was durable."""
    state = open_state(layout)
    committer = GroupCommitter(layout, state.sequences)
    files = ChatFiles(layout, state.sequences, committer)
    bus, clock = EventBus(), FrozenClock()
    shelf = ChatRepository(files, clock, state.sequences, bus, state.chats)
    chats, turns = ChatService(shelf), TurnRecorder(shelf)
    services = Services(layout, state, committer, files, bus, clock, chats, turns)
    bus.subscribe(services.heard.append)
    try:
        yield services
    finally:
        await committer.close()
        if crash:
            assert state.lock
            state.lock.release()
        else:
            await files.close()
            state.save(chats.list_all_summaries())
            state.release()


async def refuse_rule(rule: ApprovalRule, question: Question) -> None:
    """Store no rule."""
    raise Unavailable("The settings cannot be written")


def build_dispatcher(
    services: Services,
    engine: Engine,
    parallel: int = 2,
    *,
    models: Models | None = None,
    policy: ApprovalPolicy | None = None,
    budget: SpendBudget | Callable[[], SpendBudget] | None = None,
    named_in: Callable[[str, str], str] = lambda *_: "",
    store_rule: Callable[[ApprovalRule, Question], Awaitable[None]] = refuse_rule,
    workspace: str = "",
    retry: bool = False,
) -> Dispatcher:
    """Build a dispatcher over the chats of ``services`` whose default engine is ``engine``."""
    money = budget if callable(budget) else lambda: budget or SpendBudget()
    approvals = ApprovalService(
        services.turns,
        services.clock,
        lambda: policy or ApprovalPolicy(),
        money,
        store_rule,
        named_in,
        workspace,
    )
    programs = ProgramStates(services.clock, services.bus)
    engines = EngineRegistry(
        lambda: {engine.name: engine}, lambda: engine.name, lambda: models or Models(), programs
    )
    skills = SkillFolder(services.layout)
    chats = services.chats.list_all_summaries
    planner = TurnPlanner(services.turns, engines, skills, services.clock, chats, money, "test")
    return Dispatcher(
        services.turns,
        planner,
        approvals,
        services.clock,
        services.bus,
        programs,
        lambda: parallel,
        lambda: retry,
    )


WHOLE = re.compile(
    r"tests\.(support\.(daemon|fixtures|loopback|clickhouse|proxies|schemathesis_run)|supplier)\b"
    r"|tests\.gateway\.(admin\.)?conftest|tests\.(crash|benchmarks)\b"
    r"|^(import|from) (subprocess|playwright|openai|anthropic|tests\.llm\.dialects\.clients)\b"
    r"|\bsys\.executable\b",
    re.MULTILINE,
)
"""How a file tells that it needs a whole daemon, a browser, another program or a vendor's library
(those of OpenAI and Anthropic take seconds to import, in each process)."""

SLOW = frozenset(
    (
        "agent/processes/test_table.py",
        "auth/test_key_store.py",
        "fuzz/test_fuzz.py",
        "gateway/secrets/test_hostile.py",
        "gateway/secrets/test_loosened.py",
        "llm/dialects/test_linear.py",
        "model_checking/test_model_checking.py",
        "storage/test_checksummed_json.py",
    )
)
"""Files of rules that take seconds all the same; ``--fast`` leaves them out, too."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--fast``: the tests of the rules only."""
    parser.addoption(
        "--fast", action="store_true", help="leave out what needs a daemon or a program"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``--fast``, do not even import the files that are left out."""
    if not config.getoption("--fast") or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(Path(__file__).parent).as_posix()
    return name in SLOW or bool(WHOLE.search(collection_path.read_text())) or None


def pytest_configure(config: pytest.Config) -> None:
    """Let programs that tests start receive Ctrl-C, which background jobs of a shell ignore."""
    if config.getoption("--fast"):
        settings.load_profile("fast")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Start three workers for two cores with ``-n auto``: tests also wait, but not that much.

    With four, beside some other work, tests took twice as long, and a whole run was no shorter.
    The tests of ``--fast`` hardly wait, and each worker imports them all.
    """
    cores = len(os.sched_getaffinity(0))
    return min(cores if config.getoption("--fast") else (3 * cores + 1) // 2, 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep browsers at work from the first test to the last (``--dist loadfile``)."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.scheduling import BrowserScheduling

    return BrowserScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of ``LONG`` first; the others keep their order."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))


def pytest_collection_finish() -> None:
    """Exclude what exists before the first test from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)  # as the daemons that these tests run have it


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell which files of a whole run took longest; ``LONG`` follows them."""
    seconds = Counter[str]()
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > 200:
        terminalreporter.section("seconds of the longest files")
        for name, spent in seconds.most_common(40):
            terminalreporter.write_line(f"{spent:6.0f}  {name}")


@pytest.fixture(autouse=True, scope="session")
def _patterns_are_made_once() -> Iterator[None]:
    """Share the compiled patterns of equal rules: else each daemon's start compiles them again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentd.gateway.secrets.masker.LazyDetector", lru_cache(8)(LazyDetector))
        yield


@pytest.fixture(autouse=True, scope="session")
def _loops_are_made_by_those_who_close_them() -> None:
    """Keep pytest-tornado from creating an event loop when it asks for the current one."""
    asyncio.set_event_loop(None)


async def until(true: Callable[[], object], seconds: float = 100.0) -> None:
    """Wait until ``true()`` is true; fail after ``seconds``."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not true():
        assert loop.time() < end, "it did not come true in time"
        await asyncio.sleep(0.001)


def overwrite(path: str, at: int, data: bytes) -> None:
    """Damage a file: replace its bytes from ``at`` on with ``data``."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))
