"""The course of a running turn: stopped, held, limited, shown, and proved to be alive."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest

from agentd.agent import turn_runner, waiting_chats
from agentd.agent.engine import (
    EngineStarted,
    EngineStateSaved,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    UsageReported,
)
from agentd.agent.planner import TurnPlanner
from agentd.agent.turn_runner import SHUTDOWN
from agentd.chats.events import MessageDelta
from agentd.chats.queue import QueueItem
from agentd.chats.service import NewChat
from agentd.chats.turns import INTERRUPTED, STOPPED, TurnRecorder
from agentd.core.clock import format_iso, parse_iso
from agentd.llm.price import Usage
from tests.agent.test_dispatcher import ScriptedEngine, list_roles, make_scripted, working
from tests.conftest import ME, TEST, Services, running_services, until

pytestmark = pytest.mark.gen_test


async def test_a_stopped_turn_ends_with_what_was_written_and_holds_the_queue(layout):
    """The person wanted quiet: the next prompt, or a release, lets the queue go on."""

    async def play_script(_):
        yield ReplyDelta("half a ")
        yield ReplyDelta("sentence")
        await asyncio.Event().wait()

    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.append_prompt(number, "b", "", ME)
        await until(lambda: engine.running)
        await until(lambda: [e for e in services.heard if isinstance(e, MessageDelta)])
        assert await dispatcher.stop_turn(number, "user:anna")
        assert engine.closed == 1
        summary = services.chats.get_summary(number)
        assert (summary.outcome, summary.status, summary.waiting) == ("stopped", "queued", 1)
        assert summary.held == "The turn was stopped by a person."
        assert await list_roles(services, number) == [
            ("user", "a"),
            ("assistant", "half a sentence"),
            ("tool", STOPPED),
        ]
        assert (await services.chats.get(number)).agent.hold.by == "user:anna"
        assert not await dispatcher.stop_turn(number, ME)
        assert engine.prompts == ["a"]
        await services.chats.append_prompt(number, "c", "", ME)
        await until(lambda: engine.prompts == ["a", "b"])


async def test_what_a_stopped_turn_used_and_what_it_left_undone_is_in_its_history(layout):
    """The engine tells it while it ends, also when the stop comes as a step is written down."""

    async def play_script(_):
        try:
            yield UsageReported(Usage(input=100), Decimal("0.25"))
            yield ToolStarted("shell", "make all")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield UsageReported(Usage(input=7), Decimal("0.065"))
            yield EngineStateSaved("the session")
            raise

    async with working(layout, ScriptedEngine(play_script)) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(
            lambda: (now := dispatcher.get_turn_status(number)) and now.last_tool == "shell"
        )
        assert await dispatcher.stop_turn(number, "user:anna")
        assert await list_roles(services, number) == [
            ("user", "a"),
            ("tool", "make all\n\nInterrupted."),
            ("tool", STOPPED),
        ]
        chat = await services.chats.get(number)
        assert chat.cost == Decimal("0.315")
        assert chat.agent.memory["scripted"] == "the session"
    async with running_services(layout) as services:
        assert (await services.chats.get(number)).cost == Decimal("0.315")


@pytest.mark.parametrize("last", [ToolStarted("shell", "make"), ReplyDelta("More.")])
async def test_what_an_engine_used_that_is_ended_at_its_budget_is_recorded(layout, last):
    """It tells it while it ends, as one that is stopped: of helpers that are at work, say."""

    class Engine(ScriptedEngine):
        async def run(self, assignment, approver):
            try:
                yield ReplyCompleted("one", Usage(input=100), Decimal("0.5"))
                yield last
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield UsageReported(Usage(input=7), Decimal("0.25"))
                raise

    async with working(layout, Engine()) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a", budget=Decimal("0.5")), ME)).id
        summary = await services.chats.wait_until_idle(number, 60)
        assert (summary.outcome, summary.cost) == ("failed", Decimal("0.75"))
        roles = await list_roles(services, number)
        assert roles[-1] == (
            "error",
            "The turn was ended: it cost 0.75 USD, its limit is 0.5 USD.",
        )


async def test_a_stop_while_a_step_is_written_down_reaches_the_engine_too(layout, monkeypatch):
    begun, may_end = asyncio.Event(), asyncio.Event()
    real = TurnRecorder.add_message

    async def add(*arguments, **more):
        begun.set()
        await may_end.wait()
        await real(*arguments, **more)

    class Engine(ScriptedEngine):
        async def run(self, assignment, approver):
            try:
                yield ReplyCompleted("one")
            except asyncio.CancelledError:
                yield UsageReported(Usage(input=7), Decimal("0.5"))
                raise

    monkeypatch.setattr(TurnRecorder, "add_message", add)
    async with working(layout, Engine()) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await begun.wait()
        stopped = asyncio.create_task(dispatcher.stop_turn(number, ME))
        await asyncio.sleep(0)
        may_end.set()
        assert await stopped
        assert (await services.chats.get(number)).cost == Decimal("0.5")


async def test_a_turn_can_be_stopped_before_its_engine_has_begun(layout, monkeypatch):
    """The read from the disk for it may take long."""
    reading = asyncio.Event()

    async def fail_if_called(*_: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(TurnPlanner, "build_request", fail_if_called)
    async with working(layout, ScriptedEngine()) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await reading.wait()
        assert await dispatcher.stop_turn(number, ME)
        assert services.chats.get_summary(number).outcome == "stopped"


async def test_many_who_stop_a_turn_stop_it_once_and_all_see_it_ended(layout):
    engine = ScriptedEngine()
    engine.go.clear()
    async with working(layout, engine) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        stopped = await asyncio.gather(*(dispatcher.stop_turn(number, ME) for _ in range(5)))
        assert stopped == [True] * 5
        assert engine.closed == 1
        assert [
            e for e in services.heard if getattr(e, "reason", "") == "turn.ended"
        ].__len__() == 1


async def test_a_queue_held_by_hand_stands_still_until_it_is_released(layout):
    engine = ScriptedEngine()
    async with working(layout, engine) as (services, _):
        number = (await services.chats.create(NewChat(), ME)).id
        await services.chats.hold_queue(number, "wait for Anna", ME)
        await services.chats.append_prompt(number, "a", "", ME)
        assert (await services.chats.wait_until_idle(number, 60)).status == "queued"
        assert services.chats.get_summary(number).held == "wait for Anna"
    async with working(layout, engine) as (services, _):
        assert (await services.chats.wait_until_idle(number, 60)).held == "wait for Anna"
        assert engine.prompts == []
        await services.chats.release_queue(number, ME)
        assert (await services.chats.wait_until_idle(number, 60)).status == "completed"
        assert engine.prompts == ["a"]
        seq = services.chats.get_summary(number).seq
        await services.chats.release_queue(number, ME)
        assert services.chats.get_summary(number).seq == seq


async def test_a_limit_puts_the_prompt_back_and_it_is_tried_once_more_when_the_limit_is_over(
    layout, monkeypatch
):
    monkeypatch.setattr(turn_runner, "SPREAD_SECONDS", 1)
    tries = []

    async def play_script(assignment):
        tries.append(assignment)
        yield UsageReported(Usage(input=7), Decimal("0.5"))
        if len(tries) == 1:
            until = format_iso(parse_iso(services.clock.now()) + timedelta(hours=1))
            yield RateLimited("five-hour limit", until)
        yield ReplyCompleted("done")

    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: services.chats.get_summary(number).waits_until)
        chat = await services.chats.get(number)
        assert (chat.summarize().status, chat.summarize().outcome) == ("queued", None)
        assert chat.agent.wait.reason == "five-hour limit"
        assert parse_iso(chat.agent.wait.until) > parse_iso(services.clock.now()) + timedelta(
            hours=1
        )
        assert [prompt.text for prompt in chat.queue] == ["a"]
        assert chat.cost == Decimal("0.5")
        await services.chats.append_prompt(number, "b", "", ME)
        assert len(tries) == 1
    async with working(layout, engine) as (services, _):  # a restart does not forget the wait
        await asyncio.sleep(0)
        assert len(tries) == 1
    async with running_services(layout) as services:
        waits_until = services.chats.get_summary(number).waits_until
    async with working(layout, engine, since=waits_until) as (services, _):
        await services.chats.wait_until_idle(number, 60)
        assert [(one.prompt, one.is_retry) for one in tries] == [
            ("a", False),
            ("a", True),
            ("b", False),
        ]
        said = await list_roles(services, number)
        assert said == [("user", "a"), ("assistant", "done"), ("user", "b"), ("assistant", "done")]
        assert services.chats.get_summary(number).cost == Decimal("1.5")


@pytest.mark.parametrize(
    ("limit", "waits"),
    [
        (RateLimited("Too much."), [60, 120, 240, 480, 900, 900]),
        (RateLimited("Too much. Please try again in 1h30m."), [5400, 5400]),
        (RateLimited("Too much.", seconds=700.0), [700, 700]),
        (RateLimited("Too much. Try again in 1 day 2 hours."), [93600, 93600]),
        (RateLimited("Too much · resets 2am (UTC)"), [7200, 7200]),
        (RateLimited("Too much. It resets at some time."), [60, 120]),
    ],
)
async def test_a_limit_is_waited_for_as_reported_and_else_longer_each_time(layout, limit, waits):
    engine = make_scripted(limit)
    async with working(layout, engine) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        seen = []
        for tries in range(1, len(waits) + 1):
            await until(lambda now=tries: len(engine.given) == now)
            await until(lambda: services.chats.get_summary(number).waits_until)
            left = parse_iso(services.chats.get_summary(number).waits_until) - parse_iso(
                services.clock.now()
            )
            seen.append(left.total_seconds())
            await services.chats.release_queue(number, ME)
        spread = [had - result for had, result in zip(seen, waits, strict=True)]
        assert all(0 < one <= turn_runner.SPREAD_SECONDS + 1 for one in spread), seen


async def test_a_limit_is_waited_for_no_longer_where_the_clock_is_set_back(layout, monkeypatch):
    monkeypatch.setattr(waiting_chats, "LONGEST_SLEEP", 0.01)

    async def play_script(assignment):
        if not assignment.is_retry:
            yield RateLimited("Too much.", seconds=600.0)
        yield ReplyCompleted("done")

    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: services.chats.get_summary(number).waits_until)
        await until(lambda: not dispatcher._tasks)
        services.clock.jump(-7200)
        services.clock.move(590)
        dispatcher._waiting.check()
        assert not dispatcher._tasks
        services.clock.move(10 + turn_runner.SPREAD_SECONDS + 1)
        await until(lambda: services.chats.get_summary(number).outcome == "completed")


async def queue_prompts(services: Services, *prompts: str) -> int:
    """Create a chat with these prompts in its queue, which is released then."""
    number = (await services.chats.create(NewChat(), ME)).id
    await services.chats.hold_queue(number, "not yet", ME)
    for prompt in prompts:
        await services.chats.append_prompt(number, prompt, "", ME)
    await services.chats.release_queue(number, ME)
    return number


async def test_a_queue_waits_longer_after_each_failed_turn_but_the_first_in_a_row(layout):
    """A supplier that is away for a while does not fail all prompts of a night."""
    waits = [60, 120, 240, 480, 900, 900]
    engine = make_scripted(TurnFailed("The supplier cannot be reached."))
    async with working(layout, engine) as (services, dispatcher):
        number = await queue_prompts(services, *"abcdefgh")
        for tries, wait in enumerate(waits, 2):
            await until(lambda now=tries: len(engine.given) == now)
            await until(lambda: not dispatcher._tasks)
            seen = (await services.chats.get(number)).agent.wait
            assert seen.reason.startswith(f"the last {tries} turns failed")
            left = parse_iso(seen.until) - parse_iso(services.clock.now())
            assert 0 <= wait - left.total_seconds() < 1
            assert services.chats.get_summary(number).status == "queued"
            services.clock.move(wait)
            dispatcher._waiting.check()
        await until(lambda: len(engine.given) == 8)
        await services.chats.wait_until_idle(number, 60)
        assert engine.prompts == list("abcdefgh")
        assert (await services.chats.get(number)).agent.wait is None  # nothing is left to wait


async def test_a_turn_that_does_not_fail_ends_a_row_of_failures(layout):
    outcomes = iter((TurnFailed("no"), ReplyCompleted("done"), TurnFailed("no"), TurnFailed("no")))

    async def play_script(_):
        yield next(outcomes)

    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, dispatcher):
        number = await queue_prompts(services, *"abcde")
        await until(lambda: services.chats.get_summary(number).waits_until)
        assert engine.prompts == list("abcd")
        assert (await services.chats.get(number)).agent.failures == 2
        await until(lambda: not dispatcher._tasks)
    async with running_services(layout) as services:  # a restart knows it, too
        agent = (await services.chats.get(number)).agent
        assert (agent.failures, bool(agent.wait)) == (2, True)


@pytest.mark.parametrize("action", ["append", "release"])
async def test_who_sends_a_prompt_or_releases_the_queue_does_not_wait_for_failures(layout, action):
    engine = make_scripted(TurnFailed("The supplier cannot be reached."))
    async with working(layout, engine) as (services, _):
        number = await queue_prompts(services, *"abc")
        await until(lambda: services.chats.get_summary(number).waits_until)
        if action == "append":
            await services.chats.append_prompt(number, "again", "", ME)
        else:
            await services.chats.release_queue(number, ME)
        await until(lambda: engine.prompts == list("abc"))


async def test_a_prompt_that_waits_for_a_limit_can_be_rewritten_removed_and_released(layout):
    engine = make_scripted(RateLimited("too much"))
    async with working(layout, engine) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: services.chats.get_summary(number).waits_until)
        (prompt,) = (await services.chats.get(number)).queue
        await services.chats.rewrite_prompt(number, prompt.id, "other words", ME)
        await services.chats.release_queue(number, ME)
        await until(lambda: len(engine.given) == 2)
        await until(lambda: services.chats.get_summary(number).waits_until)
        assert await list_roles(services, number) == [("user", "a"), ("user", "other words")]
        assert not engine.given[1].is_retry
        await services.chats.replace_queue(number, [], ME)
        assert services.chats.get_summary(number).status == "completed"
        await services.chats.replace_queue(number, [QueueItem("b")], ME)
        await services.chats.release_queue(number, ME)
        await until(lambda: len(engine.given) == 3)


async def test_after_a_crash_a_prompt_is_sent_again_only_if_the_settings_say_so(layout):
    async with running_services(layout, crash=True) as services:
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.turns.start_turn(number, TEST)
    async with running_services(layout, crash=True) as services:
        await services.turns.end_interrupted(again=True)
        chat = await services.chats.get(number)
        assert [prompt.text for prompt in chat.queue] == ["a"]
        await services.turns.start_turn(number, TEST)
    engine = ScriptedEngine()
    async with working(layout, engine) as (services, _):
        assert (await services.chats.wait_until_idle(number, 60)).outcome == "interrupted"
        assert engine.prompts == []
        assert await list_roles(services, number) == [("user", "a"), ("error", INTERRUPTED)]


async def test_a_growing_reply_is_shown_in_steps_and_never_after_it_is_whole(layout):
    async def play_script(_):
        for word in ("one ", "two ", "three"):
            yield ReplyDelta(word)
            await asyncio.sleep(turn_runner.SHOW_SECONDS * 1.5)
        yield ReplyCompleted("one two three")

    async with working(layout, ScriptedEngine(play_script)) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.wait_until_idle(number, 60)
        deltas = [event for event in services.heard if isinstance(event, MessageDelta)]
        assert "".join(delta.text for delta in deltas) == "one two three"
        assert len({delta.turn for delta in deltas}) == 1
        await asyncio.sleep(turn_runner.SHOW_SECONDS * 2)
        assert not isinstance(services.heard[-1], MessageDelta)


async def test_a_flood_of_small_pieces_becomes_few_events(layout):
    async def play_script(_):
        for _ in range(2000):
            yield ReplyDelta("x")
        yield ReplyCompleted("x" * 2000)

    async with working(layout, ScriptedEngine(play_script)) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.wait_until_idle(number, 60)
        assert len([event for event in services.heard if isinstance(event, MessageDelta)]) < 50


async def test_there_is_evidence_of_a_turn_at_work_and_none_without(layout):
    async def play_script(_):
        yield EngineStarted(4711)
        yield ToolStarted("shell", "ls")
        services.clock.move(5)
        yield ToolUsed("shell", "ls", "a b")
        await asyncio.Event().wait()

    async with working(layout, ScriptedEngine(play_script)) as (services, dispatcher):
        assert dispatcher.get_turn_status(1) is None
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: services.chats.get_summary(number).messages == 2)
        shown = dispatcher.get_turn_status(number)
        assert (shown.engine, shown.pid, shown.last_tool) == ("scripted", 4711, "shell")
        assert parse_iso(shown.last_activity) - parse_iso(shown.since) == timedelta(seconds=5)
        await dispatcher.stop_turn(number, ME)
        assert dispatcher.get_turn_status(number) is None


async def test_an_engines_memory_comes_back_in_the_chats_next_turn_and_in_no_other_chat(layout):
    async def play_script(assignment):
        yield EngineStateSaved(f"session of {assignment.prompt}")
        yield ReplyCompleted(f"knew {assignment.memory!r}")

    async with working(layout, ScriptedEngine(play_script)) as (services, _):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await services.chats.wait_until_idle(number, 60)
    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, _):
        await services.chats.append_prompt(number, "b", "", ME)
        other = (await services.chats.create(NewChat(prompt="c"), ME)).id
        await services.chats.wait_until_idle(number, 60)
        await services.chats.wait_until_idle(other, 60)
        memories = {one.prompt: one.engine_state for one in engine.given}
        assert memories == {"b": "session of a", "c": ""}


async def test_what_was_spent_before_a_turn_was_interrupted_is_recorded(layout):
    async def play_script(_):
        yield UsageReported(Usage(input=3, output=4), Decimal("0.125"))
        await asyncio.Event().wait()

    engine = ScriptedEngine(play_script)
    async with working(layout, engine) as (services, dispatcher):
        number = (await services.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        await until(lambda: dispatcher.get_turn_status(number).last_activity)
        await asyncio.sleep(0)
        await dispatcher.stop(0)
        assert services.chats.get_summary(number).cost == Decimal("0.125")
        assert await list_roles(services, number) == [("user", "a"), ("error", SHUTDOWN)]
