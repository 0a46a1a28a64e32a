"""Prompts become turns by themselves: one per chat, a few at once, in fair order, never twice."""

import asyncio
import errno
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from agentd.agent import dispatcher as service
from agentd.agent import turn_runner, waiting_chats
from agentd.agent.dispatcher import Dispatcher
from agentd.agent.engine import (
    Approver,
    EngineEvent,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.planner import TurnPlanner
from agentd.agent.turn import SILENT
from agentd.agent.turn_runner import SHUTDOWN
from agentd.chats.queue import QueueItem
from agentd.chats.service import NewChat
from agentd.chats.turns import INTERRUPTED, RETRYING, STOPPED, TurnRecorder
from agentd.core.clock import format_iso, parse_iso
from agentd.core.errors import Unavailable
from agentd.models.model import Model, Models
from agentd.storage import journal
from agentd.storage.layout import Layout
from tests.conftest import ME, TEST, Services, build_dispatcher, running_services, until

pytestmark = pytest.mark.gen_test


class ScriptedEngine:
    """An engine that does what a test says, and remembers what it was given."""

    def __init__(
        self,
        script: Callable[[TurnRequest], AsyncGenerator[EngineEvent, None]] | None = None,
        name: str = "scripted",
    ):
        self.name = name
        self._script = script or self.echo
        self.given: list[TurnRequest] = []
        self.running: list[int] = []
        self.most = 0
        self.closed = 0
        self.go = asyncio.Event()
        self.go.set()

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        assert assignment.chat_id not in self.running, "two turns at once in one chat"
        self.given.append(assignment)
        self.running.append(assignment.chat_id)
        self.most = max(self.most, len(self.running))
        try:
            await self.go.wait()
            async for step in self._script(assignment):
                yield step
        finally:
            self.running.remove(assignment.chat_id)
            self.closed += 1

    async def echo(self, assignment: TurnRequest) -> AsyncGenerator[EngineEvent, None]:
        yield ReplyCompleted(f"you said {assignment.prompt}")

    @property
    def prompts(self) -> list[str]:
        return [assignment.prompt for assignment in self.given]


@asynccontextmanager
async def working(
    layout: Layout,
    engine: ScriptedEngine,
    parallel: int = 2,
    *,
    crash: bool = False,
    since: str = "",
    **agent: object,
) -> AsyncIterator[tuple[Services, Dispatcher]]:
    async with running_services(layout, crash=crash) as services:
        if since:
            services.clock.move(
                (parse_iso(since) - parse_iso(services.clock.now())).total_seconds()
            )
        await services.turns.end_interrupted()
        dispatcher = build_dispatcher(services, engine, parallel, **agent)
        dispatcher.start(services.chats.list_summaries())
        try:
            yield services, dispatcher
        finally:
            await dispatcher.stop(0)


async def list_roles(services: Services, number: int) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in await services.history(number)]


def make_scripted(*steps: EngineEvent) -> ScriptedEngine:
    async def play_script(_: TurnRequest) -> AsyncGenerator[EngineEvent, None]:
        for step in steps:
            yield step

    return ScriptedEngine(play_script)


async def test_a_prompt_is_carried_out_by_itself(layout):
    """Section 1: the prompt of a new chat is queued and processed automatically."""
    async with working(layout, ScriptedEngine()) as (services, _):
        number = (await services.chats.create(NewChat(prompt="hello"), ME)).id
        assert (await services.chats.wait_until_idle(number, 60)).status == "completed"
        assert await list_roles(services, number) == [
            ("user", "hello"),
            ("assistant", "you said hello"),
        ]
        await services.chats.append_prompt(number, "more", "", ME)
        assert (await services.chats.wait_until_idle(number, 60)).messages == 4


MODELS = Models(
    default="usual",
    models=(
        Model(name="usual", engine="native", model="big", supplier="s", context=9000),
        Model(name="other", engine="native", model="small", supplier="s", effort="high"),
        Model(name="far", engine="codex"),
    ),
)


async def test_what_the_engine_is_given(layout):
    """The prompt's model before the chat's before the default; the skill's text with the rest."""
    skill = Path(layout.skills, "tidy", "SKILL.md")
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies.\n---\nKeep it tidy.\n")
    engine = ScriptedEngine(name="native")
    async with working(layout, engine, models=MODELS) as (services, _):
        new = NewChat("a", skill="tidy", system_prompt="be brief")
        number = (await services.chats.create(new, ME)).id
        await services.chats.append_prompt(number, "b", "other", ME)
        await services.chats.wait_until_idle(number, 60)
    first, second = engine.given
    assert (first.prompt, first.model, first.context, first.history) == ("a", "big", 9000, ())
    assert first.instructions.startswith("be brief\n\n") and "Keep it tidy." in first.instructions
    assert (second.prompt, second.model, second.effort) == ("b", "small", "high")
    assert [message.text for message in second.history] == ["a", "you said a"]
    assert first.turn_tag.startswith(f"test.{number}.") and first.turn_tag != second.turn_tag


async def test_an_engine_is_given_what_it_missed_while_others_had_the_turns(layout):
    engine = ScriptedEngine(name="native")
    async with working(layout, engine, models=MODELS) as (services, _):
        number = (await services.chats.create(NewChat("a"), ME)).id
        await services.chats.append_prompt(number, "b", "far", ME)
        await services.chats.append_prompt(number, "c", "", ME)
        await services.chats.append_prompt(number, "d", "", ME)
        await services.chats.wait_until_idle(number, 60)
    missed = [[one.text for one in given.missed if one.role == "user"] for given in engine.given]
    assert engine.prompts == ["a", "c", "d"]
    assert missed == [[], ["b"], []]


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (
            NewChat("a", model="usul"),
            'No model is named "usul"; did you mean "usual"? Models are defined in models.yml.',
        ),
        (
            NewChat("a", model="zzz"),
            'No model is named "zzz" (known: usual, other, far). Models are defined in models.yml.',
        ),
        (NewChat("a", model="far"), "The engine codex is not set up on this host."),
        (NewChat("a", skill="gone"), "The skill 'gone' no longer exists"),
    ],
)
async def test_a_choice_that_does_not_exist_fails_in_its_turn_and_says_why(layout, new, reason):
    """A model may come and go while a prompt waits: it is accepted, and told in the history."""
    engine = ScriptedEngine(name="native")
    async with working(layout, engine, models=MODELS) as (services, _):
        number = (await services.chats.create(new, ME)).id
        assert (await services.chats.wait_until_idle(number, 60)).outcome == "failed"
        assert (await list_roles(services, number))[-1][1].startswith(reason)
    assert engine.given == []


async def test_what_waited_before_the_start_is_taken_up(layout):
    async with running_services(layout) as services:
        numbers = [(await services.chats.create(NewChat(prompt="x"), ME)).id for _ in range(5)]
    async with working(layout, ScriptedEngine()) as (services, _):
        for number in numbers:
            assert (await services.chats.wait_until_idle(number, 60)).status == "completed"


async def test_one_turn_per_chat_and_at_most_so_many_at_once(layout):
    engine = ScriptedEngine()
    async with working(layout, engine, 3) as (services, _):
        engine.go.clear()
        numbers = [(await services.chats.create(NewChat(prompt="x"), ME)).id for _ in range(6)]
        for number in numbers:
            await services.chats.append_prompt(number, "y", "", ME)
        await until(lambda: len(engine.running) == 3)
        engine.go.set()
        for number in numbers:
            await services.chats.wait_until_idle(number, 60)
        assert engine.most == 3
        assert len(engine.given) == 12


async def test_paused_prompts_are_passed_over(layout):
    engine = ScriptedEngine()
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(), ME)).id
        wanted = [QueueItem("a", 0, True), QueueItem("b"), QueueItem("c", 0, True), QueueItem("d")]
        await services.chats.replace_queue(number, wanted, ME)
    async with working(layout, engine) as (services, _):
        assert (await services.chats.wait_until_idle(number, 60)).status == "queued"
        assert engine.prompts == ["b", "d"]
        queue = (await services.chats.get(number)).queue
        assert [prompt.text for prompt in queue] == ["a", "c"]
        wanted = [QueueItem(prompt.text, prompt.id, False) for prompt in queue]
        await services.chats.replace_queue(number, wanted, ME)
        await services.chats.wait_until_idle(number, 60)
        assert engine.prompts == ["b", "d", "a", "c"]


async def test_the_longest_waiting_chat_goes_first(layout):
    engine = ScriptedEngine()
    async with running_services(layout) as services:
        numbers = [(await services.chats.create(NewChat(), ME)).id for _ in range(4)]
        for number in numbers[::-1]:
            services.clock.move(1)
            await services.chats.append_prompt(number, str(number), "", ME)
    async with working(layout, engine, 1) as (services, _):
        for number in numbers:
            await services.chats.wait_until_idle(number, 60)
    assert engine.prompts == [str(number) for number in numbers[::-1]]


async def test_a_long_queue_does_not_keep_the_other_chats_waiting(layout):
    async with working(layout, engine := ScriptedEngine(), 1) as (services, _):
        engine.go.clear()
        long = (await services.chats.create(NewChat(), ME)).id
        for n in range(5):
            await services.chats.append_prompt(long, f"long {n}", "", ME)
        services.clock.move(1)
        short = (await services.chats.create(NewChat(prompt="short"), ME)).id
        services.clock.move(1)
        engine.go.set()
        await services.chats.wait_until_idle(short, 60)
        await services.chats.wait_until_idle(long, 60)
        assert engine.prompts[:3] == ["long 0", "short", "long 1"]


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (make_scripted, SILENT),
        (lambda: make_scripted(ToolUsed("look", "a", "b")), SILENT),
        (
            lambda: make_scripted(ReplyCompleted("half"), TurnFailed("no more money")),
            "no more money",
        ),
    ],
)
async def test_a_failure_becomes_an_error_message_and_the_queue_goes_on(layout, engine, reason):
    async with working(layout, engine()) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        summary = await services.chats.wait_until_idle(number, 60)
        assert (summary.status, summary.outcome) == ("completed", "failed")
        said = await list_roles(services, number)
        assert said[-1] == ("error", reason)
        assert said.count(("error", reason)) == 2


async def test_an_engine_that_raises_ends_its_turn_and_not_the_daemon(layout, caplog):
    async def play_script(assignment):
        yield ReplyCompleted("so far")
        raise ValueError("a bug")

    async with working(layout, ScriptedEngine(play_script)) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await services.chats.wait_until_idle(number, 60)
        said = await list_roles(services, number)
        assert said[1:3] == [
            ("assistant", "so far"),
            ("error", "The engine failed: ValueError: a bug"),
        ]
        assert len(said) == 6
    assert "the engine scripted failed" in caplog.text


async def test_text_that_cannot_be_written_ends_its_turn_and_not_the_daemon(layout):
    async with working(layout, make_scripted(ReplyCompleted("a\ud800b"))) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.wait_until_idle(number, 60)
        assert (await list_roles(services, number))[-1][0] == "error"


async def test_an_engine_that_failed_is_not_listened_to_any_longer(layout):
    async def play_script(assignment):
        yield TurnFailed("over")
        await asyncio.Event().wait()

    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await services.chats.wait_until_idle(number, 60)
        await until(lambda: engine.closed == 2)


async def test_a_stop_lets_running_turns_end_and_takes_nothing_new(layout):
    engine = ScriptedEngine()
    async with working(layout, engine) as (services, dispatcher):
        engine.go.clear()
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await until(lambda: engine.running)
        stopping = asyncio.create_task(dispatcher.stop(60))
        await asyncio.sleep(0)
        engine.go.set()
        await stopping
        assert services.chats.get_summary(number).outcome == "completed"
        assert engine.prompts == ["a"]
        assert [prompt.text for prompt in (await services.chats.get(number)).queue] == ["b"]


async def test_what_does_not_end_in_time_is_interrupted_and_closed(layout):
    engine = ScriptedEngine()
    async with working(layout, engine) as (services, dispatcher):
        engine.go.clear()
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        await dispatcher.stop(0.01)
        assert engine.closed == 1
        assert services.chats.get_summary(number).outcome == "interrupted"
        assert await list_roles(services, number) == [("user", "a"), ("error", SHUTDOWN)]


@pytest.mark.parametrize("retry", [True, False])
async def test_a_prompt_that_no_engine_has_got_is_sent_like_a_new_one_if_it_is_sent_again(
    layout, monkeypatch, retry
):
    """The daemon is stopped while its work tree is made."""
    reached = asyncio.Event()

    async def build_request(*_):
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(TurnPlanner, "build_request", build_request)
    engine = ScriptedEngine()
    async with working(layout, engine, retry=retry) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await reached.wait()
        await dispatcher.stop(0)
        chat = await services.chats.get(number)
        assert [prompt.text for prompt in chat.queue] == (["a", "b"] if retry else ["b"])
    monkeypatch.undo()
    async with working(layout, engine, retry=retry) as (services, _):
        await services.chats.wait_until_idle(number, 60)
        given = [(one.prompt, one.is_retry) for one in engine.given]
        assert given == [("a", False), ("b", False)][not retry :]
        said = await list_roles(services, number)
        assert [text for role, text in said if role == "user"] == ["a", "b"]
        assert [text for role, text in said if role == "error"] == [SHUTDOWN] * (not retry)


async def test_a_prompt_that_a_person_stops_before_an_engine_has_it_is_not_sent_later(
    layout, monkeypatch
):
    reached = asyncio.Event()

    async def build_request(*_):
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(TurnPlanner, "build_request", build_request)
    async with working(layout, ScriptedEngine()) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await reached.wait()
        assert await dispatcher.stop_turn(number, ME)
        chat = await services.chats.get(number)
        assert (chat.queue, chat.summarize().outcome) == ((), "stopped")


async def test_a_prompt_that_the_stop_of_the_daemon_interrupts_is_sent_again_if_the_settings_say_so(
    layout,
):
    begun = asyncio.Event()

    async def write_forever(_: TurnRequest) -> AsyncGenerator[EngineEvent, None]:
        yield ReplyDelta("half a reply")
        begun.set()
        await asyncio.Event().wait()

    async with working(layout, ScriptedEngine(write_forever), retry=True) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await begun.wait()
        await dispatcher.stop(0)
        chat = await services.chats.get(number)
        assert [prompt.text for prompt in chat.queue] == ["a"]
        assert chat.agent.wait.reason == RETRYING
    engine = ScriptedEngine()
    async with working(layout, engine, retry=True) as (services, _):
        await services.chats.wait_until_idle(number, 60)
        (again,) = engine.given
        assert (again.prompt, again.is_retry, again.is_delivery_uncertain) == ("a", True, True)
        assert await list_roles(services, number) == [
            ("user", "a"),
            ("assistant", "half a reply"),
            ("assistant", "you said a"),
        ]


async def test_a_prompt_is_never_handed_over_twice_whatever_dies(layout):
    """Each daemon is killed while its engine works; the next one continues."""
    given: list[str] = []
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(), ME)).id
        for n in range(6):
            await services.chats.append_prompt(number, str(n), "", ME)
    for _ in range(6):
        engine = ScriptedEngine()
        engine.go.clear()
        async with running_services(layout, crash=True) as services:
            await services.turns.end_interrupted()
            dispatcher = build_dispatcher(services, engine)
            dispatcher.start(services.chats.list_summaries())
            await until(lambda engine=engine: engine.running)
            dying = list(dispatcher._tasks.values())
            services.files.append = (
                _fail_unavailable  # the disk is not reached any more: it is dead
            )
            await dispatcher.stop(0)
            await asyncio.gather(*dying, return_exceptions=True)
        given += engine.prompts
    assert given == [str(n) for n in range(6)]
    async with running_services(layout) as services:
        await services.turns.end_interrupted()
        said = await list_roles(services, number)
        assert [text for role, text in said if role == "user"] == given
        assert [text for role, text in said if role == "error"] == [INTERRUPTED] * 6


def _fail_unavailable(*_):
    raise Unavailable("dead")


@pytest.fixture
def soon(monkeypatch):
    """Shorten the wait before a refused write is tried again."""
    for module in (service, turn_runner):
        monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


@contextmanager
def full_disk():
    def write(fd, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.os, "write", write)
        yield


async def test_a_disk_that_is_full_in_mid_turn_is_waited_for_and_nothing_is_lost(
    layout, soon, caplog
):
    engine = make_scripted(ToolUsed("look", "a", "b"), ReplyCompleted("done"))
    async with working(layout, engine) as (services, _):
        engine.go.clear()
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        with full_disk():
            engine.go.set()
            await until(lambda: caplog.text.count("waits for the disk") > 2)
            assert services.chats.get_summary(number).messages == 1
        await services.chats.wait_until_idle(number, 60)
        assert [role for role, _ in await list_roles(services, number)] == [
            "user",
            "tool",
            "assistant",
        ]


async def test_a_disk_that_is_full_at_dispatch_leaves_the_prompt_in_the_queue(layout, soon, caplog):
    async with running_services(layout) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
    engine = ScriptedEngine()
    with ExitStack() as disk:
        disk.enter_context(full_disk())
        async with working(layout, engine) as (services, _):
            await until(lambda: caplog.text.count("cannot start its turn") > 2)
            assert services.chats.get_summary(number).status == "queued"
            assert engine.given == []
            disk.close()
            await services.chats.wait_until_idle(number, 60)
            assert engine.prompts == ["a"]


async def test_a_bug_before_a_turn_leaves_the_prompt_in_the_queue_and_is_not_met_endlessly(
    layout, soon, monkeypatch, caplog
):
    asked = []

    async def fail(_, chat_id: int) -> None:
        asked.append(chat_id)
        raise ValueError("a bug")

    engine = ScriptedEngine()
    monkeypatch.setattr(service, "BUG_SECONDS", 0.2)
    async with working(layout, engine, 1) as (services, _):
        with monkeypatch.context() as patch:
            patch.setattr(TurnPlanner, "read_command", fail)
            number = (await services.chats.create(NewChat(prompt="a"), ME)).id
            await until(lambda: asked)
            for _ in range(100):
                await asyncio.sleep(0)
            assert asked == [number]
            assert "failed unexpectedly" in caplog.text
            assert services.chats.get_summary(number).status == "queued"
        assert (await services.chats.wait_until_idle(number, 60)).status == "completed"
        assert engine.prompts == ["a"]


async def test_a_bug_while_a_turn_is_prepared_ends_it_and_the_queue_goes_on(
    layout, soon, monkeypatch
):
    async def fail(*_) -> None:
        raise ValueError("a bug")

    engine = ScriptedEngine()
    async with working(layout, engine) as (services, _):
        with monkeypatch.context() as patch:
            patch.setattr(TurnPlanner, "build_request", fail)
            number = (await services.chats.create(NewChat(prompt="a"), ME)).id
            await services.chats.wait_until_idle(number, 60)
        await services.chats.append_prompt(number, "b", "", ME)
        await services.chats.wait_until_idle(number, 60)
        assert engine.prompts == ["b"]
        assert ("error", "The turn failed: ValueError: a bug") in (
            await list_roles(services, number)
        )


async def test_a_turn_left_open_in_a_chat_that_cannot_be_read_is_closed_once_it_can_be(
    layout, soon, monkeypatch, caplog
):
    async with running_services(layout, crash=True) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.turns.start_turn(number, TEST)

    async def refuse(*_) -> None:
        raise Unavailable("Too many open files")

    with ExitStack() as broken:
        patch = broken.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(TurnRecorder, "list_running_tools", refuse)
        async with working(layout, ScriptedEngine()) as (services, _):
            await until(lambda: caplog.text.count("failed unexpectedly") > 3)
            broken.close()
            await services.chats.wait_until_idle(number, 60)
            assert ("error", INTERRUPTED) in await list_roles(services, number)


async def test_a_chat_that_cannot_start_does_not_take_the_place_of_another(layout, monkeypatch):
    async with running_services(layout) as services:
        bad = (await services.chats.create(NewChat(prompt="a"), ME)).id
        services.clock.move(1)
        good = (await services.chats.create(NewChat(prompt="b"), ME)).id
    real = journal.os.open

    def refuse_journal(path, flags, *mode, **how):
        if path == layout.get_journal_path(bad) and flags & journal.os.O_APPEND:
            raise OSError(errno.EPERM, "immutable")
        return real(path, flags, *mode, **how)

    monkeypatch.setattr(journal.os, "open", refuse_journal)
    async with working(layout, ScriptedEngine(), 1) as (services, _):
        assert (await services.chats.wait_until_idle(good, 60)).status == "completed"
        assert services.chats.get_summary(bad).status == "queued"


async def test_a_turn_whose_chat_became_read_only_ends_its_engine_and_holds_up_nobody(
    layout, monkeypatch, caplog
):
    engine = ScriptedEngine()
    async with working(layout, engine, 1) as (services, _):
        engine.go.clear()
        bad = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(bad, "never sent", "", ME)
        await until(lambda: engine.running)
        with open(layout.get_journal_path(bad), "ab") as file:  # noqa: ASYNC230
            file.write(b"foreign\n")
        engine.go.set()
        await until(lambda: engine.closed)
        good = (await services.chats.create(NewChat(prompt="b"), ME)).id
        assert (await services.chats.wait_until_idle(good, 60)).status == "completed"
        assert engine.prompts == ["a", "b"]
        assert "another program" in services.chats.get_summary(bad).damage


async def test_a_turn_left_open_on_a_full_disk_is_closed_once_there_is_room(layout, soon):
    async with running_services(layout, crash=True) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await services.turns.start_turn(number, TEST)
    engine = ScriptedEngine()
    with ExitStack() as disk:
        disk.enter_context(full_disk())
        async with working(layout, engine) as (services, _):
            await asyncio.sleep(0)
            assert services.chats.get_summary(number).status == "processing"
            disk.close()
            await services.chats.wait_until_idle(number, 60)
            assert engine.prompts == ["b"]
            assert ("error", INTERRUPTED) in await list_roles(services, number)


@pytest.mark.parametrize(
    ("step", "messages"),
    [
        (ReplyDelta("half a reply"), [("assistant", "half a reply")]),
        (ToolUsed("look", "here", "seen"), [("tool", "here\n\nseen")]),
        (TurnFailed("it broke"), []),
        (RateLimited("too much", ""), []),
    ],
)
async def test_a_turn_that_is_stopped_on_a_full_disk_ends_once_there_is_room(
    layout, soon, caplog, step, messages
):
    engine = make_scripted(step)
    async with working(layout, engine) as (services, dispatcher):
        engine.go.clear()
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await until(lambda: engine.running)
        with full_disk():
            engine.go.set()
            await until(lambda: caplog.text.count("waits for the disk") > 2)
            assert await dispatcher.stop_turn(number, ME)
            assert engine.closed == 1
            assert services.chats.get_summary(number).working
        await until(lambda: not services.chats.get_summary(number).working)
        summary = services.chats.get_summary(number)
        assert (summary.outcome, summary.held, summary.waiting) == ("stopped", STOPPED, 1)
        assert (await list_roles(services, number))[1:] == [*messages, ("tool", STOPPED)]
        await services.chats.release_queue(number, ME)
        await until(lambda: engine.prompts == ["a", "b"])


async def test_a_daemon_can_stop_though_the_end_of_a_stopped_turn_is_not_on_disk(
    layout, soon, caplog
):
    engine = ScriptedEngine()
    engine.go.clear()
    with ExitStack() as disk:
        async with working(layout, engine) as (services, dispatcher):
            number = (await services.chats.create(NewChat(prompt="a"), ME)).id
            await until(lambda: engine.running)
            disk.enter_context(full_disk())
            assert await dispatcher.stop_turn(number, ME)
            await until(lambda: caplog.text.count("waits for the disk") > 2)
    async with working(layout, ScriptedEngine()) as (services, _):
        assert services.chats.get_summary(number).outcome == "interrupted"


async def test_a_chat_that_cannot_be_read_for_a_moment_does_not_cost_its_turn(
    layout, soon, caplog, monkeypatch
):
    engine = make_scripted(ToolUsed("look", "a", "b"), ReplyCompleted("done"))
    real = journal.os.open

    def refuse_journal(path, *flags, **more):
        if path == layout.get_journal_path(number):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *flags, **more)

    async with working(layout, engine) as (services, _):
        engine.go.clear()
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        with monkeypatch.context() as patch:
            patch.setattr(journal.os, "open", refuse_journal)
            engine.go.set()
            await until(lambda: caplog.text.count("waits for the disk") > 2)
        await services.chats.wait_until_idle(number, 60)
        assert await list_roles(services, number) == [
            ("user", "a"),
            ("tool", "a\n\nb"),
            ("assistant", "done"),
        ]


async def test_a_turn_that_is_stopped_while_the_daemon_stops_is_written_down_to_its_end(
    layout, monkeypatch
):
    wrote = asyncio.Event()

    async def play_script(_: TurnRequest) -> AsyncGenerator[EngineEvent, None]:
        yield ReplyDelta("half a reply")
        wrote.set()
        await asyncio.Event().wait()

    real = TurnRecorder.add_message
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def add(*arguments, **more):
        await real(*arguments, **more)
        begun.set()
        await may_end.wait()

    monkeypatch.setattr(TurnRecorder, "add_message", add)
    async with running_services(layout) as services:
        dispatcher = build_dispatcher(services, ScriptedEngine(play_script))
        dispatcher.start(services.chats.list_summaries())
        number = (await services.chats.create(NewChat(prompt="go"), ME)).id
        await wrote.wait()
        stopped = asyncio.create_task(dispatcher.stop_turn(number, ME))
        await begun.wait()
        stopping = asyncio.create_task(dispatcher.stop(0))
        for _ in range(5):  # a wish to stop, too, that comes in this moment
            await asyncio.sleep(0)
        again = asyncio.create_task(dispatcher.stop_turn(number, ME))
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.gather(stopped, stopping, again)
        assert services.chats.get_summary(number).outcome == "stopped"
        assert (await list_roles(services, number))[1:] == [
            ("assistant", "half a reply"),
            ("tool", STOPPED),
        ]


async def test_a_prompt_for_later_waits_for_its_time_and_those_behind_it_do_not(
    layout, monkeypatch
):
    monkeypatch.setattr(waiting_chats, "LONGEST_SLEEP", 0.01)
    engine = ScriptedEngine()
    async with working(layout, engine) as (services, dispatcher):
        number = (await services.chats.create(NewChat(), ME)).id
        hour = _in_seconds(services, 3600)
        await services.chats.append_prompt(number, "later", "", ME, not_before=hour)
        assert services.chats.is_idle(number)
        await services.chats.append_prompt(number, "now", "", ME)
        await until(lambda: services.chats.get_summary(number).outcome == "completed")
        assert engine.prompts == ["now"]
        assert (await services.chats.wait_until_idle(number, 60)).status == "queued"
        await until(lambda: not dispatcher._tasks)
        services.clock.move(3599)
        services.clock.move(-7200)  # the machine's clock is set back
        services.clock.move(7200)
        dispatcher._waiting.check()
        assert not dispatcher._tasks
        services.clock.move(1)
        await until(lambda: engine.prompts == ["now", "later"])
        await services.chats.wait_until_idle(number, 60)


async def test_a_prompt_for_later_outlives_a_restart_and_is_sent_once(layout, monkeypatch):
    monkeypatch.setattr(waiting_chats, "LONGEST_SLEEP", 0.01)
    async with working(layout, ScriptedEngine()) as (services, _):
        number = (await services.chats.create(NewChat(), ME)).id
        hour = _in_seconds(services, 3600)
        await services.chats.append_prompt(number, "later", "", ME, not_before=hour)
    for moved, prompts in ((1800, []), (3600, ["later"]), (7200, [])):
        engine = ScriptedEngine()
        async with running_services(layout) as services:
            services.clock.move(moved)
            dispatcher = build_dispatcher(services, engine)
            dispatcher.start(services.chats.list_summaries())
            await services.chats.wait_until_idle(number, 60)
            await until(lambda wanted=prompts, given=engine: given.prompts == wanted)
            await dispatcher.stop(5)
            assert engine.prompts == prompts


async def test_a_chat_does_not_rest_while_a_prompt_whose_time_has_come_waits_for_its_turn(
    layout, monkeypatch
):
    monkeypatch.setattr(waiting_chats, "LONGEST_SLEEP", 0.01)
    engine = ScriptedEngine()
    engine.go.clear()
    async with working(layout, engine, 1) as (services, _):
        await services.chats.create(NewChat(prompt="long"), ME)
        await until(lambda: engine.prompts == ["long"])
        hour = _in_seconds(services, 3600)
        number = (await services.chats.create(NewChat(prompt="due", not_before=hour), ME)).id
        assert services.chats.is_idle(number)
        services.clock.move(3600)
        assert not services.chats.is_idle(number)
        waits = asyncio.create_task(services.chats.wait_until_idle(number, 60))
        engine.go.set()
        assert (await waits).status == "completed"


async def test_a_chat_does_not_rest_between_two_prompts_whose_time_has_come(layout):
    engine = ScriptedEngine()
    engine.go.clear()
    async with working(layout, engine) as (services, _):
        hour = _in_seconds(services, 3600)
        number = (await services.chats.create(NewChat(prompt="first"), ME)).id
        await until(lambda: engine.prompts == ["first"])
        await services.chats.append_prompt(number, "second", "", ME, not_before=hour)
        services.clock.move(3600)
        waits = asyncio.create_task(services.chats.wait_until_idle(number, 60))
        engine.go.set()
        assert (await waits).status == "completed"
        assert engine.prompts == ["first", "second"]


async def test_a_prompt_whose_time_is_taken_away_is_sent_at_once(layout):
    engine = ScriptedEngine()
    async with working(layout, engine) as (services, _):
        number = (await services.chats.create(NewChat(), ME)).id
        day = _in_seconds(services, 86400)
        prompt = await services.chats.append_prompt(number, "later", "", ME, not_before=day)
        await services.chats.rewrite_prompt(number, prompt.id, None, ME, not_before="")
        await until(lambda: engine.prompts == ["later"])
        await services.chats.wait_until_idle(number, 60)


async def test_many_chats_that_wait_share_one_timer(layout):
    async with working(layout, ScriptedEngine()) as (services, dispatcher):
        for hour in (3, 1, 2):
            later = _in_seconds(services, hour * 3600)
            await services.chats.create(NewChat(prompt="later", not_before=later), ME)
        assert dispatcher._waiting.wakes_at == _in_seconds(services, 3600)


def _in_seconds(services, seconds):
    return format_iso(parse_iso(services.clock.now()) + timedelta(seconds=seconds))
