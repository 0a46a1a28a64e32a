"""What can happen to a turn at work: stopped, held, limited, shown; what proves that it lives."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest

from agentd.agent import work
from agentd.agent.assigning import Assigner
from agentd.agent.engine import (
    Alive,
    Kept,
    Limited,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
    Wrote,
)
from agentd.agent.work import SHUTDOWN
from agentd.chats.queue import Wanted
from agentd.chats.service import NewChat
from agentd.chats.turns import INTERRUPTED, STOPPED, Turns
from agentd.clock import iso, parse_iso
from agentd.events import MessageDelta
from agentd.proxy.price import Usage
from tests.agent.test_service import Scripted, roles, scripted, working
from tests.conftest import ME, TEST, living, until

pytestmark = pytest.mark.gen_test


async def test_a_stopped_turn_ends_with_what_was_written_and_holds_the_queue(layout):
    """The person wanted quiet: the next prompt, or a release, lets the queue go on."""

    async def script(_):
        yield Wrote("half a ")
        yield Wrote("sentence")
        await asyncio.Event().wait()

    engine = Scripted(script)
    async with working(layout, engine) as (life, dispatcher):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await life.chats.append(number, "b", "", ME)
        await until(lambda: engine.running)
        await until(lambda: [e for e in life.heard if isinstance(e, MessageDelta)])
        assert await dispatcher.stop_turn(number, "user:anna")
        assert engine.closed == 1
        summary = life.chats.summary(number)
        assert (summary.outcome, summary.status, summary.waiting) == ("stopped", "queued", 1)
        assert summary.held == "The turn was stopped by a person."
        assert await roles(life, number) == [
            ("user", "a"),
            ("assistant", "half a sentence"),
            ("tool", STOPPED),
        ]
        assert (await life.chats.get(number)).agent.hold.by == "user:anna"
        assert not await dispatcher.stop_turn(number, ME)
        assert engine.prompts == ["a"]
        await life.chats.append(number, "c", "", ME)
        await until(lambda: engine.prompts == ["a", "b"])


async def test_what_a_stopped_turn_used_and_what_it_left_undone_is_in_its_history(layout):
    """The engine tells it while it ends, also when the stop comes as a step is written down."""

    async def script(_):
        try:
            yield Spent(Usage(input=100), Decimal("0.25"))
            yield ToolStarted("shell", "make all")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield Spent(Usage(input=7), Decimal("0.065"))
            yield Kept("the session")
            raise

    async with working(layout, Scripted(script)) as (life, dispatcher):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: (now := dispatcher.evidence(number)) and now.last_tool == "shell")
        assert await dispatcher.stop_turn(number, "user:anna")
        assert await roles(life, number) == [
            ("user", "a"),
            ("tool", "make all\n\nInterrupted."),
            ("tool", STOPPED),
        ]
        chat = await life.chats.get(number)
        assert chat.cost == Decimal("0.315")
        assert chat.agent.memory["scripted"] == "the session"
    async with living(layout) as life:
        assert (await life.chats.get(number)).cost == Decimal("0.315")


async def test_a_stop_while_a_step_is_written_down_reaches_the_engine_too(layout, monkeypatch):
    begun, may_end = asyncio.Event(), asyncio.Event()
    real = Turns.add

    async def add(*arguments, **more):
        begun.set()
        await may_end.wait()
        await real(*arguments, **more)

    class Engine(Scripted):
        async def run(self, assignment, approver):
            try:
                yield Replied("one")
            except asyncio.CancelledError:
                yield Spent(Usage(input=7), Decimal("0.5"))
                raise

    monkeypatch.setattr(Turns, "add", add)
    async with working(layout, Engine()) as (life, dispatcher):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await begun.wait()
        stopped = asyncio.create_task(dispatcher.stop_turn(number, ME))
        await asyncio.sleep(0)
        may_end.set()
        assert await stopped
        assert (await life.chats.get(number)).cost == Decimal("0.5")


async def test_a_turn_can_be_stopped_before_its_engine_has_begun(layout, monkeypatch):
    """What is read for it from the disk may take long."""
    reading = asyncio.Event()

    async def never(*_: object) -> None:
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Assigner, "assignment", never)
    async with working(layout, Scripted()) as (life, dispatcher):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await reading.wait()
        assert await dispatcher.stop_turn(number, ME)
        assert life.chats.summary(number).outcome == "stopped"


async def test_many_who_stop_a_turn_stop_it_once_and_all_see_it_ended(layout):
    engine = Scripted()
    engine.go.clear()
    async with working(layout, engine) as (life, dispatcher):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        stopped = await asyncio.gather(*(dispatcher.stop_turn(number, ME) for _ in range(5)))
        assert stopped == [True] * 5
        assert engine.closed == 1
        assert [e for e in life.heard if getattr(e, "reason", "") == "turn.ended"].__len__() == 1


async def test_a_queue_held_by_hand_stands_still_until_it_is_released(layout):
    engine = Scripted()
    async with working(layout, engine) as (life, _):
        number = (await life.chats.create(NewChat(), ME)).id
        await life.chats.hold(number, "wait for Anna", ME)
        await life.chats.append(number, "a", "", ME)
        assert (await life.chats.rest(number, 60)).status == "queued"
        assert life.chats.summary(number).held == "wait for Anna"
    async with working(layout, engine) as (life, _):
        assert (await life.chats.rest(number, 60)).held == "wait for Anna"
        assert engine.prompts == []
        await life.chats.release(number, ME)
        assert (await life.chats.rest(number, 60)).status == "completed"
        assert engine.prompts == ["a"]
        seq = life.chats.summary(number).seq
        await life.chats.release(number, ME)
        assert life.chats.summary(number).seq == seq


async def test_a_limit_puts_the_prompt_back_and_it_is_tried_once_more_when_the_limit_is_over(
    layout, monkeypatch
):
    monkeypatch.setattr(work, "SPREAD_SECONDS", 1)
    tries = []

    async def script(assignment):
        tries.append(assignment)
        yield Spent(Usage(input=7), Decimal("0.5"))
        if len(tries) == 1:
            until = iso(parse_iso(life.clock.now()) + timedelta(hours=1))
            yield Limited("five-hour limit", until)
        yield Replied("done")

    engine = Scripted(script)
    async with working(layout, engine) as (life, _):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: life.chats.summary(number).waits_until)
        chat = await life.chats.get(number)
        assert (chat.summary().status, chat.summary().outcome) == ("queued", None)
        assert chat.agent.wait.reason == "five-hour limit"
        assert parse_iso(chat.agent.wait.until) > parse_iso(life.clock.now()) + timedelta(hours=1)
        assert [prompt.text for prompt in chat.queue] == ["a"]
        assert chat.cost == Decimal("0.5")
        await life.chats.append(number, "b", "", ME)
        assert len(tries) == 1
    async with working(layout, engine) as (life, _):  # a restart does not forget the wait
        await asyncio.sleep(0)
        assert len(tries) == 1
    async with living(layout) as life:
        waits_until = life.chats.summary(number).waits_until
    async with working(layout, engine, since=waits_until) as (life, _):
        await life.chats.rest(number, 60)
        assert [(one.prompt, one.again) for one in tries] == [
            ("a", False),
            ("a", True),
            ("b", False),
        ]
        said = await roles(life, number)
        assert said == [("user", "a"), ("assistant", "done"), ("user", "b"), ("assistant", "done")]
        assert life.chats.summary(number).cost == Decimal("1.5")


@pytest.mark.parametrize(
    ("limit", "waits"),
    [
        (Limited("Too much."), [60, 120, 240, 480, 900, 900]),
        (Limited("Too much. Please try again in 1h30m."), [5400, 5400]),
        (Limited("Too much.", seconds=700.0), [700, 700]),
    ],
)
async def test_a_limit_is_waited_for_as_told_and_else_longer_each_time(layout, limit, waits):
    engine = scripted(limit)
    async with working(layout, engine) as (life, _):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        seen = []
        for tries in range(1, len(waits) + 1):
            await until(lambda now=tries: len(engine.given) == now)
            await until(lambda: life.chats.summary(number).waits_until)
            left = parse_iso(life.chats.summary(number).waits_until) - parse_iso(life.clock.now())
            seen.append(left.total_seconds())
            await life.chats.release(number, ME)
        spread = [had - told for had, told in zip(seen, waits, strict=True)]
        assert all(0 < one <= work.SPREAD_SECONDS + 1 for one in spread), seen


async def test_a_prompt_that_waits_for_a_limit_can_be_rewritten_removed_and_released(layout):
    engine = scripted(Limited("too much"))
    async with working(layout, engine) as (life, _):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: life.chats.summary(number).waits_until)
        (prompt,) = (await life.chats.get(number)).queue
        await life.chats.rewrite(number, prompt.id, "other words", ME)
        await life.chats.release(number, ME)
        await until(lambda: len(engine.given) == 2)
        await until(lambda: life.chats.summary(number).waits_until)
        assert await roles(life, number) == [("user", "a"), ("user", "other words")]
        assert not engine.given[1].again
        await life.chats.replace(number, [], ME)
        assert life.chats.summary(number).status == "completed"
        await life.chats.replace(number, [Wanted("b")], ME)
        await life.chats.release(number, ME)
        await until(lambda: len(engine.given) == 3)


async def test_after_a_crash_a_prompt_is_sent_again_only_if_the_settings_say_so(layout):
    async with living(layout, crash=True) as life:
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await life.turns.start(number, TEST)
    async with living(layout, crash=True) as life:
        await life.turns.end_interrupted(again=True)
        chat = await life.chats.get(number)
        assert [prompt.text for prompt in chat.queue] == ["a"]
        await life.turns.start(number, TEST)
    engine = Scripted()
    async with working(layout, engine) as (life, _):
        assert (await life.chats.rest(number, 60)).outcome == "interrupted"
        assert engine.prompts == []
        assert await roles(life, number) == [("user", "a"), ("error", INTERRUPTED)]


async def test_a_growing_reply_is_shown_in_steps_and_never_after_it_is_whole(layout):
    async def script(_):
        for word in ("one ", "two ", "three"):
            yield Wrote(word)
            await asyncio.sleep(work.SHOW_SECONDS * 1.5)
        yield Replied("one two three")

    async with working(layout, Scripted(script)) as (life, _):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await life.chats.rest(number, 60)
        deltas = [event for event in life.heard if isinstance(event, MessageDelta)]
        assert "".join(delta.text for delta in deltas) == "one two three"
        assert len({delta.turn for delta in deltas}) == 1
        await asyncio.sleep(work.SHOW_SECONDS * 2)
        assert not isinstance(life.heard[-1], MessageDelta)


async def test_a_flood_of_small_pieces_becomes_few_events(layout):
    async def script(_):
        for _ in range(2000):
            yield Wrote("x")
        yield Replied("x" * 2000)

    async with working(layout, Scripted(script)) as (life, _):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await life.chats.rest(number, 60)
        assert len([event for event in life.heard if isinstance(event, MessageDelta)]) < 50


async def test_there_is_evidence_of_a_turn_at_work_and_none_without(layout):
    async def script(_):
        yield Alive(4711)
        yield ToolStarted("shell", "ls")
        life.clock.move(5)
        yield ToolUsed("shell", "ls", "a b")
        await asyncio.Event().wait()

    async with working(layout, Scripted(script)) as (life, dispatcher):
        assert dispatcher.evidence(1) is None
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: life.chats.summary(number).messages == 2)
        shown = dispatcher.evidence(number)
        assert (shown.engine, shown.process, shown.last_tool) == ("scripted", 4711, "shell")
        assert parse_iso(shown.last_sign) - parse_iso(shown.since) == timedelta(seconds=5)
        await dispatcher.stop_turn(number, ME)
        assert dispatcher.evidence(number) is None


async def test_an_engines_memory_comes_back_in_the_chats_next_turn_and_in_no_other_chat(layout):
    async def script(assignment):
        yield Kept(f"session of {assignment.prompt}")
        yield Replied(f"knew {assignment.memory!r}")

    async with working(layout, Scripted(script)) as (life, _):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await life.chats.rest(number, 60)
    engine = Scripted(script)
    async with working(layout, engine) as (life, _):
        await life.chats.append(number, "b", "", ME)
        other = (await life.chats.create(NewChat(prompt="c"), ME)).id
        await life.chats.rest(number, 60)
        await life.chats.rest(other, 60)
        memories = {one.prompt: one.memory for one in engine.given}
        assert memories == {"b": "session of a", "c": ""}


async def test_what_was_spent_before_a_turn_was_interrupted_is_booked(layout):
    async def script(_):
        yield Spent(Usage(input=3, output=4), Decimal("0.125"))
        await asyncio.Event().wait()

    engine = Scripted(script)
    async with working(layout, engine) as (life, dispatcher):
        number = (await life.chats.create(NewChat(prompt="a"), ME)).id
        await until(lambda: engine.running)
        await until(lambda: dispatcher.evidence(number).last_sign)
        await asyncio.sleep(0)
        await dispatcher.stop(0)
        assert life.chats.summary(number).cost == Decimal("0.125")
        assert await roles(life, number) == [("user", "a"), ("error", SHUTDOWN)]
