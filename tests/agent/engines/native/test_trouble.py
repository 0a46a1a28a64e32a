"""The native engine when something goes wrong, or somebody wants quiet."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from agentd.agent.engine import (
    EngineEvent,
    RateLimited,
    ReplyDelta,
    ToolStarted,
    TurnFailed,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.native.supplier import RetryPolicy
from agentd.agent.engines.native.turn import TurnLimits
from agentd.core.clock import FrozenClock
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.protocol import Timeouts
from tests.agent.engines.native.scene import (
    KEY,
    Person,
    Scene,
    join_deltas,
    list_used_tools,
    read_replies,
)
from tests.conftest import until as until_now
from tests.supplier.steps import (
    Answer,
    Break,
    Call,
    Fail,
    Garble,
    Refuse,
    Say,
    Stall,
    Think,
    Tokens,
)
from tests.supplier.supplier import Supplier
from tests.support.loopback import advance_loop_clock
from tests.support.waiting import until, wait_until_gone

DIALECTS = ("openai-chat", "openai-responses", "anthropic")
LONG = "one two three four five six seven eight"


@pytest.fixture
def supplier():
    with Supplier() as it:
        yield it


@pytest.fixture
def scene(tmp_path: Path, supplier) -> Scene:
    root = tmp_path / "work"
    root.mkdir()
    return Scene(root, supplier)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_what_passes_is_tried_again(scene, supplier, dialect, status):
    scene.dialect = dialect
    supplier.script(Refuse(status, "Busy."), Refuse(status, "Busy."), Say("Here."))
    told = scene.run()
    assert read_replies(told) == ["Here."]
    assert join_deltas(told) == "Here."
    assert len(supplier.requests) == 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_endless_refusal_limits_the_turn_without_an_end(scene, supplier, dialect):
    scene.dialect = dialect
    supplier.answer_always(Refuse(429, "Too many requests."))
    assert scene.run() == [RateLimited("acme limits its use: Too many requests.")]
    assert len(supplier.requests) == RetryPolicy().tries


def test_a_supplier_that_stays_broken_fails_the_turn(scene, supplier):
    supplier.answer_always(Refuse(500, "It hurts."))
    assert scene.run() == [TurnFailed("acme could not answer: It hurts.")]
    assert len(supplier.requests) == RetryPolicy().tries


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_wait_puts_the_turn_off_until_then(scene, supplier, dialect):
    scene.dialect, scene.clock = dialect, FrozenClock()
    supplier.script(Refuse(429, "Later.", headers={"Retry-After": "3600"}))
    assert scene.run() == [RateLimited("acme limits its use: Later.", "2026-01-01T01:00:00.000Z")]
    assert len(supplier.requests) == 1


def test_a_short_wait_is_waited(scene, supplier):
    supplier.script(Refuse(429, "Soon.", headers={"Retry-After": "1"}), Say("Here."))
    began = time.monotonic()
    assert read_replies(scene.run()) == ["Here."]
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_that_is_not_accepted_is_told_without_the_key(scene, supplier, dialect, caplog):
    caplog.set_level(logging.DEBUG)
    scene.dialect = dialect
    supplier.script(Refuse(401, f"Incorrect API key provided: {KEY}."))
    (failed,) = scene.run()
    assert isinstance(failed, TurnFailed)
    assert "acme did not accept its key" in failed.reason
    assert "suppliers.acme.key in config/models.yml" in failed.reason
    assert KEY not in failed.reason
    assert KEY not in caplog.text
    assert len(supplier.requests) == 1


@pytest.mark.parametrize(
    ("refuse", "told"),
    [
        (Refuse(403, "No."), "does not allow this"),
        (Refuse(404, "No such model."), "does not know the model large"),
        (Refuse(400, "A strange body."), "could not answer: A strange body."),
        (Refuse(429, "You exceeded your current quota", code="insufficient_quota"), "until it is"),
        (Refuse(502, body="<html>Bad gateway</html>"), "could not answer"),
    ],
)
def test_each_refusal_is_told_with_its_reason(scene, supplier, refuse, told):
    supplier.answer_always(refuse)
    (failed,) = scene.run()
    assert isinstance(failed, TurnFailed)
    assert told in failed.reason


def test_a_host_that_is_not_there_is_told(scene, supplier):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        scene.url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        (failed,) = scene.run()
    assert isinstance(failed, TurnFailed)
    assert "cannot be connected to" in failed.reason


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("fault", [Break(6), Garble(6, "{garbage"), Fail(6, "Overloaded now")])
def test_an_answer_that_breaks_off_is_asked_for_anew_once(scene, supplier, dialect, fault):
    scene.dialect = dialect
    broken = Answer((Say(LONG),), faults=(fault,))
    supplier.script(broken, Say("All of it."))
    told = scene.run()
    assert read_replies(told) == ["All of it."]
    assert join_deltas(told).startswith("one two")
    assert join_deltas(told).endswith("All of it.")
    supplier.script(broken, broken)
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert read_replies(told) == []
    assert len(supplier.requests) == 4


@pytest.mark.parametrize(("after", "shown"), [(0, ""), (4, "one two three")])
def test_an_answer_that_stalls_is_asked_for_anew(scene, supplier, after, shown):
    stall = Stall(after)
    scene.patience = RetryPolicy(first=0.001, timeouts=Timeouts(head=900, idle=900, total=9000))
    supplier.script(Answer((Say(LONG),), faults=(stall,)), Say("Here."))

    async def run() -> list[EngineEvent]:
        turn = asyncio.create_task(scene.collect_events())
        await asyncio.wrap_future(stall.reached)
        await until_now(lambda: join_deltas(scene.so_far) == shown)
        advance_loop_clock(1000)
        return await turn

    scene.seconds += 1000
    assert read_replies(asyncio.run(run())) == ["Here."]


def test_a_turns_time_ends_an_answer_that_never_ends(scene, supplier):
    """By the clock of the turn all its time is gone once the answer has begun."""
    clock = FrozenClock()
    scene.clock, scene.limits = clock, TurnLimits(seconds=1.2)

    def answer_endlessly(_: object) -> Answer:
        clock.move(10)
        return Answer((Say("word " * 10_000),), pause=0.05)

    supplier.answer_always(answer_endlessly)
    told = scene.run()
    assert isinstance(told[-1], TurnFailed)
    assert "limit of 1 seconds" in told[-1].reason
    supplier.requests[0].gone.result(60)


def test_an_answer_that_is_not_streamed_is_understood_too(scene, supplier):
    message = {"role": "assistant", "content": "In one piece."}
    body = {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    supplier.script(Refuse(200, body=body), Refuse(200, body={"error": {"message": "Odd."}}))
    assert read_replies(scene.run()) == ["In one piece."]
    assert isinstance(scene.run()[-1], TurnFailed)


def test_what_broke_before_anything_was_shown_is_tried_more_often(scene, supplier):
    broken = Answer((Say(LONG),), faults=(Break(0),))
    supplier.script(broken, broken, broken, Say("Here."))
    assert read_replies(scene.run()) == ["Here."]


def test_a_step_that_breaks_keeps_the_steps_before_it(scene, supplier):
    supplier.script(
        Call("write_file", {"path": "a", "text": "x"}),
        Answer((Say(LONG),), faults=(Break(4),)),
        Say("Done."),
    )
    told = scene.run()
    assert list_used_tools(told) == [("write_file", "new file, 1 line written")]
    assert read_replies(told) == ["Done."]
    assert supplier.requests[1].body == supplier.requests[2].body


def test_calls_of_an_answer_that_broke_off_are_not_carried_out(scene, supplier):
    supplier.script(
        Answer((Call("shell", {"command": "touch x"}), Say(LONG)), faults=(Break(8),)),
        Say("Done."),
    )
    told = scene.run()
    assert list_used_tools(told) == []
    assert not (scene.root / "x").exists()


def test_what_a_broken_answer_used_is_booked(scene, supplier):
    scene.dialect = "anthropic"
    supplier.script(
        Answer((Say(LONG),), usage=Tokens(input=1000), faults=(Break(5),)), Say("Done.")
    )
    spent = [progress for progress in scene.run() if isinstance(progress, UsageReported)]
    assert [progress.usage.input for progress in spent] == [1000]


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
def test_what_a_broken_answer_used_is_estimated_where_it_is_told_at_the_end(
    scene, supplier, dialect
):
    scene.dialect = dialect
    supplier.script(Answer((Say(LONG),), faults=(Break(7),)), Say("Done."))
    (spent,) = [progress for progress in scene.run() if isinstance(progress, UsageReported)]
    assert spent.usage.total_input > 100 and spent.usage.total_output > 0
    assert spent.cost


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "part", [Call("write_file", {"path": "x", "text": "word " * 1000}), Think("word " * 1000)]
)
def test_all_that_came_of_a_broken_answer_is_counted(scene, supplier, dialect, part):
    """An unfinished call and thinking, too; of the output, Anthropic tells one token at first."""
    scene.dialect = dialect
    supplier.script(Answer((part,), faults=(Break(300),)), Say("Done."))
    (spent,) = [one for one in scene.run() if isinstance(one, UsageReported)]
    assert spent.usage.total_input > 0 and spent.usage.total_output > 200


async def cancel_once(
    scene: Scene, reached: Callable[[list[EngineEvent]], bool]
) -> list[EngineEvent]:
    """Begin a turn, and cancel it as soon as it reached a point; return the events until then."""
    told: list[EngineEvent] = []
    upstream = HttpUpstream()

    async def run_turn() -> None:
        stream = scene.build_engine(upstream).run(
            TurnRequest(1, "Go.", model="large", supplier="acme"), scene.person
        )
        async with aclosing(stream) as progresses:
            async for progress in progresses:
                told.append(progress)

    task = asyncio.create_task(run_turn())
    await until_now(lambda: reached(told) or task.done())
    assert not task.done()
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 20
    await upstream.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return told


@pytest.mark.parametrize("after", [0, 5])
def test_stopping_cuts_the_suppliers_call(scene, supplier, after):
    stall = Stall(after)
    supplier.script(Answer((Say(LONG),), faults=(stall,)))
    asyncio.run(cancel_once(scene, lambda told: stall.reached.done()))
    supplier.requests[0].gone.result(60)


def test_stopping_kills_a_command_with_its_children(scene, supplier):
    pids = scene.root / "pids"
    command = f"sleep 60 & echo $$ $! > {pids}~; mv {pids}~ {pids}; sleep 60"
    supplier.script([Call("shell", {"command": command}), Call("shell", {"command": "touch x"})])
    told = asyncio.run(cancel_once(scene, lambda told: pids.exists()))
    assert isinstance(told[-1], ToolStarted)
    for pid in map(int, pids.read_text().split()):
        wait_until_gone(pid)
    assert not (scene.root / "x").exists()
    assert list_used_tools(told) == []


def test_stopping_while_somebody_is_asked_or_a_pause_is_waited_for_is_quick(scene, supplier):
    class Away(Person):
        async def ask(self, question):
            self.asked.append(question)
            await asyncio.Event().wait()

    scene.person = Away()
    supplier.script(Call("shell", {"command": "touch x"}))
    asyncio.run(cancel_once(scene, lambda told: bool(scene.person.asked)))
    assert not (scene.root / "x").exists()
    supplier.script(Refuse(429, "Wait.", headers={"Retry-After": "50"}))
    asyncio.run(cancel_once(scene, lambda told: len(supplier.requests) == 2))


def test_closing_the_stream_between_two_progresses_leaves_nothing(scene, supplier):
    async def run_scenarios() -> None:
        upstream = HttpUpstream()
        for kind in (ReplyDelta, ToolStarted):
            supplier.script([Say(LONG), Call("shell", {"command": "sleep 60"})])
            stream = scene.build_engine(upstream).run(
                TurnRequest(1, "Go.", model="large", supplier="acme"), Person()
            )
            async for progress in stream:
                if isinstance(progress, kind):
                    break
            await stream.aclose()
            assert asyncio.all_tasks() == {asyncio.current_task()}
        await upstream.close()

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(run_scenarios())
    # The supplier's own ends of the connections are in this process, and close a little later.
    until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_many_turns_at_once_do_not_meet(scene, supplier):
    def answer(request) -> Say | Call:
        if request.results:
            return Say(request.results[-1].text.split()[-1])
        return Call("shell", {"command": f"sleep 0.1; echo {request.prompt}"})

    supplier.answer_always(answer)
    prompts = [f"turn-{number}" for number in range(12)]

    async def run_scenarios() -> list[list[EngineEvent]]:
        return await asyncio.gather(*(scene.collect_events(prompt) for prompt in prompts))

    assert [read_replies(told) for told in asyncio.run(run_scenarios())] == [
        [prompt] for prompt in prompts
    ]


def test_a_supplier_that_never_hangs_up_after_its_answer_is_not_waited_for(scene, supplier):
    stall = Stall(5)
    supplier.script(Answer((Say("Whole."),), faults=(stall,)))
    began = time.monotonic()
    assert read_replies(scene.run()) == ["Whole."]
    assert stall.reached.done()
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_stopped_answer_used_is_told(scene, supplier, dialect):
    """Suppliers of OpenAI's dialects tell it at the end, which never comes: it is estimated."""
    stall = Stall(7)
    scene.dialect = dialect
    supplier.script(Answer((Say(LONG),), faults=(stall,), usage=Tokens(input=700, output=90)))

    async def run() -> list[EngineEvent]:
        turn = asyncio.create_task(scene.collect_events())
        await asyncio.wrap_future(stall.reached)
        await until_now(lambda: bool(join_deltas(scene.so_far)))
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
        return scene.so_far

    spent = asyncio.run(run())[-1]
    assert isinstance(spent, UsageReported)
    assert spent.usage.total_input > 100 and spent.usage.total_output > 0
    assert spent.cost
