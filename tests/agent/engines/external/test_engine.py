"""A program that is spoken with in lines: whatever it does, the turn ends clearly.

The programs here are real and hostile. After each nothing is left: no process, no descriptor.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.agent.engine import (
    ApprovalAnswer,
    ApprovalRequested,
    EngineEvent,
    EngineStarted,
    EngineStateSaved,
    Question,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
    UsageWindowsReported,
)
from agentd.agent.engines.external.conversation import (
    AskApproval,
    AwaitLateOutput,
    EngineConversation,
    ProgramLaunch,
    QuestionCancelled,
    RestartProgram,
    SendLine,
    Step,
    SupplierPause,
    TurnDone,
)
from agentd.agent.engines.external.engine import PrepareTurn, StdioEngine
from agentd.agent.engines.external.refused_images import FORGOTTEN, LEFT_OUT, NOTE
from agentd.agent.engines.external.turn import TurnTimeouts
from agentd.core.errors import NotFound, Unavailable
from agentd.llm.price import Usage
from agentd.models.program_state import UsageWindow
from agentd.system.dialogue import Graces
from tests.conftest import until as async_until
from tests.support.loopback import advance_loop_clock
from tests.support.waiting import is_gone, until, wait_until_gone

QUICK = TurnTimeouts(silence=60.0, tool=60.0, stop=0.3, graces=Graces(exit=0.3, terminate=0.3))

PRELUDE = """
import json, os, signal, subprocess, sys, time
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
"""


class Words:
    """A conversation of single words: ``reply X``, ``ask N``, ``over`` and so on."""

    def __init__(self, assignment: TurnRequest) -> None:
        self._prompt = assignment.prompt + assignment.engine_state
        self._held: list[Step] = []

    def on_start(self) -> Iterator[Step]:
        yield SendLine(self._prompt.encode())

    def on_line(self, line: bytes) -> Iterator[Step]:  # noqa: PLR0912 - one for each word
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        match word:
            case "reply":
                yield ReplyCompleted(rest)
            case "hold":
                self._held.append(ReplyCompleted(rest))
            case "wrote":
                yield ReplyDelta(rest)
            case "tool":
                yield ToolStarted(rest, "")
            case "used":
                yield ToolUsed(rest, "", "")
            case "spent":
                yield UsageReported(Usage(input=int(rest)), Decimal(1))
            case "keep":
                yield EngineStateSaved(rest)
            case "ask":
                yield AskApproval(rest, Question("shell", "sh", rest))
            case "withdraw":
                yield QuestionCancelled(rest)
            case "linger":
                yield AwaitLateOutput(float(rest))
            case "pause":
                yield SupplierPause("Later.", float(rest) if rest else None)
            case "window":
                yield UsageWindowsReported((UsageWindow(rest, 100, None),))
            case "restart":
                yield RestartProgram(
                    ProgramLaunch((sys.executable, "-c", PRELUDE + rest.replace("|", "\n")))
                )
            case "fail":
                yield TurnFailed(rest)
            case "over":
                yield TurnDone()

    def on_decision(self, ask: str, answer: ApprovalAnswer) -> Iterator[Step]:
        yield SendLine(f"{ask} {'yes' if answer.allowed else 'no ' + answer.reason}".encode())

    def stop(self) -> Iterator[Step]:
        yield SendLine(b"stop")

    def explain_silence(self, errors: str) -> RateLimited | None:
        return RateLimited(errors.strip()) if "refused" in errors else None

    def on_exit(self) -> Iterator[Step]:
        held, self._held = self._held, []
        yield from held


def prepare_with(launch: ProgramLaunch) -> PrepareTurn:
    """Return a function that prepares each turn with this launch and single words."""

    async def make(assignment: TurnRequest) -> tuple[ProgramLaunch, EngineConversation]:
        return launch, Words(assignment)  # type: ignore[return-value]

    return make


class Allows:
    """Says yes at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> ApprovalAnswer:
        self.asked.append(question)
        return ApprovalAnswer(True)


class Waits:
    """Decides when it is told to, ``at once`` at once; several questions may be open."""

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Future[ApprovalAnswer]] = {}
        self.answered: list[str] = []
        self.cancelled: list[str] = []

    async def ask(self, question: Question) -> ApprovalAnswer:
        if question.subject == "at once":
            return ApprovalAnswer(True)
        decided = self.open[question.subject] = asyncio.get_running_loop().create_future()
        try:
            answer = await decided
        except asyncio.CancelledError:
            self.cancelled.append(question.subject)
            raise
        self.answered.append(question.subject)
        return answer

    async def has(self, *asked: str) -> None:
        await async_until(lambda: self.open.keys() >= set(asked))


def make_engine(
    source: str, *, patience: TurnTimeouts = QUICK, folder: str = "/", **variables
) -> StdioEngine:
    launch = ProgramLaunch((sys.executable, "-c", PRELUDE + source), variables)
    return StdioEngine("odd", folder, prepare_with(launch), timeouts=lambda: patience)


TURN = f"test{os.getpid()}.1.2"


def make_request(prompt: str = "hello", *, turn: str = "") -> TurnRequest:
    return TurnRequest(chat_id=1, prompt=prompt, turn_tag=turn or f"{TURN}x{time.monotonic_ns()}")


async def run_turn(
    one: StdioEngine, given: TurnRequest | None = None, approver=None
) -> list[EngineEvent]:
    """Return all events of a turn, from its start to its end."""
    async with asyncio.timeout(100):
        run = one.run(given or make_request(), approver or Allows())
        async with aclosing(run) as progress:
            return [step async for step in progress]


def run_program(source: str, **more) -> list[EngineEvent]:
    """Return the events of a turn of this program, without its first sign of life."""
    steps = asyncio.run(run_turn(make_engine(source, **more)))
    assert isinstance(steps[0], EngineStarted)
    wait_until_gone(steps[0].pid)
    return steps[1:]


def measure_memory() -> int:
    """Return the resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No descriptor is left that was not there before."""
    await asyncio.to_thread(int)  # the thread pool's own
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    yield
    await async_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


# As it should be.


def test_a_turn_is_reported_as_it_comes():
    source = "say('wrote', hear()); say('reply hi'); say('over'); sys.stdin.read()"
    assert run_program(source) == [ReplyDelta("hello"), ReplyCompleted("hi")]


def test_lines_may_end_as_on_windows():
    assert run_program(r"sys.stdout.write('reply hi\r\nover\r\n')") == [ReplyCompleted("hi")]


def test_several_questions_are_open_at_once_and_answered_in_any_order():
    source = """
hear(); say('ask one'); say('ask two')
for _ in range(2): say('reply', hear())
say('over')
"""

    async def run_scenario() -> list[EngineEvent]:
        waits = Waits()
        task = asyncio.create_task(run_turn(make_engine(source), approver=waits))
        await waits.has("one", "two")
        waits.open["two"].set_result(ApprovalAnswer(False, reason="never"))
        await async_until(lambda: "two" in waits.answered)
        await asyncio.sleep(0)
        waits.open["one"].set_result(ApprovalAnswer(True))
        return (await task)[1:]

    assert asyncio.run(run_scenario()) == [
        ApprovalRequested(),
        ApprovalRequested(),
        ReplyCompleted("two no never"),
        ReplyCompleted("one yes"),
    ]


def test_a_withdrawn_question_is_asked_no_more():
    source = """
hear(); say('ask one'); say('ask at once'); hear()
say('withdraw one'); say('ask two'); say('reply', hear()); say('over')
"""

    async def run_scenario() -> tuple[list[EngineEvent], list[str]]:
        waits = Waits()
        task = asyncio.create_task(run_turn(make_engine(source), approver=waits))
        await waits.has("one", "two")
        waits.open["two"].set_result(ApprovalAnswer(True))
        return (await task)[1:], waits.cancelled

    asked = [ApprovalRequested()] * 3
    assert asyncio.run(run_scenario()) == ([*asked, ReplyCompleted("two yes")], ["one"])


def test_a_question_that_cannot_be_asked_is_denied_for_that_reason():
    class Broken:
        async def ask(self, question: Question) -> ApprovalAnswer:
            raise Unavailable("The disk is full.")

    source = "hear(); say('ask one'); say('reply', hear()); say('over')"
    steps = asyncio.run(run_turn(make_engine(source), approver=Broken()))
    assert steps[1:] == [ApprovalRequested(), ReplyCompleted("one no The disk is full.")]


def test_a_turn_that_is_ended_at_its_question_asks_nobody():
    source = "hear(); say('ask one'); say('got ' + hear()); time.sleep(60)"

    async def run_scenario() -> list[str]:
        waits = Waits()
        engine = make_engine(source)
        async with asyncio.timeout(60), aclosing(engine.run(make_request(), waits)) as progress:
            async for step in progress:
                if isinstance(step, ApprovalRequested):
                    break
        return [*waits.open, *waits.answered]

    assert asyncio.run(run_scenario()) == []


def test_what_comes_late_is_waited_for_and_what_was_held_back_is_reported():
    assert run_program(
        "say('hold late'); say('linger 60'); say('used x'); say('over'); hear()"
    ) == [ToolUsed("x", "", "")]
    assert run_program("say('hold late'); say('linger 0.05'); time.sleep(60)") == [
        ReplyCompleted("late")
    ]


REFUSED = "odd: This model takes no images."


def test_a_prompt_is_sent_again_without_images_when_the_supplier_refuses_them(tmp_path: Path):
    source = f"""
hear()
if not os.path.exists({str(tmp_path / "refused")!r}):
    open({str(tmp_path / "refused")!r}, "w").close()
    say("spent 5\\nkeep session\\nfail {REFUSED}"); sys.stdin.read()
hear(); say("reply", hear()); say("over")
"""
    engine = make_engine(source)
    first, *steps = asyncio.run(run_turn(engine))
    (again,) = [one for one in steps if isinstance(one, EngineStarted)]
    assert isinstance(first, EngineStarted)
    assert first.pid != again.pid
    steps.remove(again)
    assert [one for one in steps if not isinstance(one, UsageReported)] == [
        EngineStateSaved("session"),
        ToolUsed("odd", "images", LEFT_OUT, ok=False),
        ReplyCompleted(NOTE),
    ]
    _, *later = asyncio.run(run_turn(engine, make_request("hello\n\nonce more")))
    assert later[-1] == ReplyCompleted("once more")
    # What was used before is in no cost twice.
    spent = [one.usage.input for one in (*steps, *later) if isinstance(one, UsageReported)]
    assert spent == [5]


def test_a_session_whose_tool_read_a_refused_image_is_left():
    source = f"say('used look\\nkeep session\\nfail {REFUSED}\\nover'); sys.stdin.read()"
    assert run_program(source) == [
        ToolUsed("look", "", ""),
        EngineStateSaved("session"),
        EngineStateSaved(""),
        TurnFailed(f"{REFUSED}\n\n{FORGOTTEN}"),
    ]


def test_the_last_words_of_a_program_refuse_no_image():
    (failed,) = run_program("print('no image', file=sys.stderr); sys.exit(3)")
    assert isinstance(failed, TurnFailed)
    assert "no image" in failed.reason
    assert FORGOTTEN not in failed.reason


def test_a_program_is_started_once_more_when_its_conversation_wants_that():
    source = (
        "say('reply first'); say('restart', 'say(\"reply\", hear())|say(\"over\")'); time.sleep(60)"
    )
    steps = run_program(source)
    assert [type(step) for step in steps] == [ReplyCompleted, EngineStarted, ReplyCompleted]
    assert steps[2] == ReplyCompleted("hello")


def test_it_may_exit_by_itself_when_its_input_ends(tmp_path):
    done = tmp_path / "done"
    patience = TurnTimeouts(graces=Graces(exit=60.0, terminate=0.3))
    run_program(
        f"say('over'); sys.stdin.read(); open({str(done)!r}, 'w').close()", patience=patience
    )
    assert done.exists()


def test_it_sees_neither_our_secrets_nor_our_descriptors(monkeypatch):
    """The allow-list, what its launch adds, and the mark; no socket, no lock of the daemon."""
    monkeypatch.setenv("AGENT_API_KEY", "canary")
    source = """
say('reply', json.dumps([dict(os.environ), sorted(os.listdir('/proc/self/fd'))]))
say('over')
"""
    given = make_request()
    with socket.socket() as listening, open("/dev/null") as lock:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        os.set_inheritable(listening.fileno(), True)
        os.set_inheritable(lock.fileno(), True)
        _, reply = asyncio.run(run_turn(make_engine(source, EXTRA="1"), given))
    assert isinstance(reply, ReplyCompleted)
    assert "canary" not in reply.text
    assert f'"AGENTD_TURN": "{given.turn_tag}"' in reply.text
    assert '"EXTRA": "1"' in reply.text
    assert reply.text.endswith('["0", "1", "2", "3"]]')  # 3: the listing of the folder itself


# Programs that misbehave.


def test_what_is_no_line_of_the_protocol_is_passed_over():
    source = r"""
out = sys.stdout.buffer
out.write(b'\x00\xff\xfe garbage \xc3\x28\n\n\n{"half": \n' + os.urandom(5000).replace(b'o', b'-'))
out.write(b'\nreply hi\nover\n'); out.flush()
"""
    assert run_program(source) == [ReplyCompleted("hi")]


def test_a_long_line_arrives_whole():
    steps = run_program("say('reply', 'x' * 3_000_000); say('over')")
    assert steps == [ReplyCompleted("x" * 3_000_000)]


def test_a_line_that_is_too_long_is_passed_over_and_said_to_the_log(caplog):
    patience = TurnTimeouts(longest_line=100_000, graces=QUICK.graces)
    source = "say('reply', 'x' * 5_000_000); say('reply', 'y' * 99_000); say('over')"
    with caplog.at_level(logging.WARNING):
        assert run_program(source, patience=patience) == [ReplyCompleted("y" * 99_000)]
    assert "odd wrote a line of more than 100000 bytes" in caplog.text


def test_a_half_line_and_death_end_the_turn_with_the_reason():
    source = """
sys.stdout.write('{"type": "assi'); sys.stdout.flush()
sys.stderr.write('no memory\\n'); sys.exit(3)
"""
    assert run_program(source) == [
        TurnFailed(
            "odd ended in the middle of the turn with exit code 3. Its last words:\n\nno memory"
        )
    ]


def test_the_reason_is_readable_beside_a_line_of_minified_code():
    source = """
sys.stderr.write('17 | ' + 'x;' * 3_000 + '\\n' + 'error: no sandbox\\n'); sys.exit(1)
"""
    [failed] = run_program(source)
    assert failed.reason.endswith("error: no sandbox")
    assert len(failed.reason) < 700


def test_a_last_line_without_an_end_counts():
    assert run_program("sys.stdout.write('reply hi\\nover')") == [ReplyCompleted("hi")]


def test_death_by_a_signal_is_reported_and_what_was_held_back_too():
    assert run_program("say('hold so far'); os.kill(os.getpid(), signal.SIGSEGV)") == [
        ReplyCompleted("so far"),
        TurnFailed("odd was ended in the middle of the turn by SIGSEGV."),
    ]


def test_its_last_words_are_bounded_and_without_secrets():
    source = """
sys.stderr.write('x' * 300_000 + '\\n')
sys.stderr.write('the key ' + os.environ['SOME_KEY'] + ' was refused\\n')
sys.stderr.write('Authorization: Bearer abcdefghijk\\n\\x1b[31mred')
sys.exit(1)
"""
    (failed,) = run_program(source, SOME_KEY="plain-words-as-key")
    assert isinstance(failed, TurnFailed)
    assert "the key *** was refused" in failed.reason
    assert "abcdefghijk" not in failed.reason
    assert "\x1b" not in failed.reason
    assert len(failed.reason) < 4096 + 200


def test_a_program_that_says_nothing_is_ended():
    patience = TurnTimeouts(silence=0.2, graces=QUICK.graces)
    (failed,) = run_program("time.sleep(60)", patience=patience)
    assert isinstance(failed, TurnFailed)
    assert "odd said nothing for" in failed.reason


def test_a_silence_that_the_programs_errors_explain_is_a_limit():
    """Only what it wrote there since it said anything counts.

    The silence is longer than a slow machine needs to start the program.
    """
    patience = TurnTimeouts(silence=5.0, graces=QUICK.graces)
    complain = "sys.stderr.write('refused sk-ant-api03-abcdefghijklmnop\\n'); sys.stderr.flush()"
    be_heard = "say('ask 1'); hear()"
    asked, half, limited = run_program(
        f"hear(); say('hold half'); {be_heard}; {complain}; time.sleep(60)", patience=patience
    )
    assert (asked, half) == (ApprovalRequested(), ReplyCompleted("half"))
    assert isinstance(limited, RateLimited)
    assert limited.reason.startswith("refused") and "abcdefgh" not in limited.reason
    asked, half, failed = run_program(
        f"hear(); {complain}; {be_heard}; say('hold half'); time.sleep(60)", patience=patience
    )
    assert (asked, half) == (ApprovalRequested(), ReplyCompleted("half"))
    assert isinstance(failed, TurnFailed)


@pytest.mark.parametrize(
    ("told", "limited"),
    [("It never resets.", True), ("It resets at 2999-01-01.", False), ("Later.", False)],
)
def test_a_limit_that_outlasts_its_patience_is_seen_in_its_errors_before_that_is_over(
    told: str, limited: bool
) -> None:
    """What does not say so is waited for: the program may have gone on."""
    patience = TurnTimeouts(silence=600.0, unknown_pause=0.3, graces=QUICK.graces)
    complain = f"sys.stderr.write('refused: {told}\\n'); sys.stderr.flush()"
    steps = run_program(
        f"hear(); {complain}; time.sleep(2); say('reply well'); say('over')", patience=patience
    )
    well = ReplyCompleted("well")
    assert steps == [RateLimited(f"refused: {told}") if limited else well]


def test_a_pause_longer_than_its_patience_is_a_limit_and_a_shorter_one_is_waited_for():
    """Held-back events are reported; nothing is sent to a supplier that is cooling down."""
    assert run_program("say('hold half'); say('pause 60'); time.sleep(60)", patience=QUICK) == [
        ReplyCompleted("half"),
        RateLimited("Later.", seconds=60.0),
    ]
    assert run_program("say('pause 59'); say('reply well'); say('over')", patience=QUICK) == [
        ReplyCompleted("well")
    ]


def test_a_pause_of_unknown_length_is_a_limit_after_a_short_silence():
    patience = TurnTimeouts(unknown_pause=0.3, graces=QUICK.graces)
    assert run_program("say('pause'); time.sleep(60)", patience=patience) == [RateLimited("Later.")]
    assert run_program(
        "say('pause'); say('reply well'); time.sleep(1); say('over')", patience=patience
    ) == [ReplyCompleted("well")], "what it says ends the pause"
    assert run_program("say('pause'); say('window week'); time.sleep(60)", patience=patience) == [
        UsageWindowsReported((UsageWindow("week", 100, None),)),
        RateLimited("Later."),
    ]


def test_bytes_without_a_line_are_no_sign_of_life():
    patience = TurnTimeouts(silence=0.3, graces=QUICK.graces)
    (failed,) = run_program(
        "while True: sys.stdout.write('x'); sys.stdout.flush(); time.sleep(.01)", patience=patience
    )
    assert isinstance(failed, TurnFailed)


def test_it_may_be_silent_longer_while_it_uses_a_tool(tmp_path):
    made = tmp_path / "made"
    source = f"say('tool make')\nwhile not os.path.exists({str(made)!r}): time.sleep(.01)\n"
    source += "say('used make'); say('over')"

    async def run_scenario() -> list[EngineEvent]:
        one = make_engine(
            source, patience=TurnTimeouts(silence=60.0, tool=1000.0, graces=QUICK.graces)
        )
        steps = []
        async with aclosing(one.run(make_request(), Allows())) as progress:
            async for step in progress:
                steps.append(step)
                if isinstance(step, ToolStarted):
                    loop = asyncio.get_running_loop()
                    loop.call_soon(advance_loop_clock, 61)  # while it is waited for
                    loop.call_later(61.01, made.touch)
        return steps[1:]

    assert asyncio.run(run_scenario()) == [ToolStarted("make", ""), ToolUsed("make", "", "")]


def test_it_may_be_silent_longer_while_a_question_is_open():
    class SlowApprover:
        async def ask(self, question: Question) -> ApprovalAnswer:
            advance_loop_clock(61)
            await asyncio.sleep(0.01)  # whatever is due by then is done before
            return ApprovalAnswer(True)

    source = "hear(); say('ask one'); say('reply', hear()); say('over')"

    async def run_scenario() -> list[EngineEvent]:
        run = make_engine(source).run(make_request(), SlowApprover())
        async with aclosing(run) as progress:
            return [step async for step in progress][1:]

    assert asyncio.run(run_scenario()) == [ApprovalRequested(), ReplyCompleted("one yes")]


def test_a_closed_output_ends_the_turn_though_the_program_lives():
    source = "os.close(1); time.sleep(60)"
    assert run_program(source) == [TurnFailed("odd closed its output in the middle of the turn.")]


@pytest.mark.parametrize("then", ["while True: time.sleep(.01); say('wrote x')", "time.sleep(60)"])
def test_an_output_held_open_by_what_fled_does_not_keep_the_turn(tmp_path, then):
    """The grandchild left the group, and is ended by its mark."""
    pid = tmp_path / "pid"
    source = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    with open({str(pid)!r} + '~', 'w') as file: file.write(str(os.getpid()))
    os.rename({str(pid)!r} + '~', {str(pid)!r})
    {then}
while not os.path.exists({str(pid)!r}): time.sleep(.01)
sys.exit(4)
"""
    steps = run_program(source)
    assert steps[-1] == TurnFailed("odd ended in the middle of the turn with exit code 4.")
    wait_until_gone(int(pid.read_text()))


def test_a_flood_is_read_no_faster_than_it_is_taken():
    """Gigabytes stand ready; the reader is slow; memory stays where it was."""
    source = "line = 'wrote ' + 'x' * 10_000 + '\\n'\nwhile True: sys.stdout.write(line)"

    async def run_scenario() -> int:
        run = make_engine(source).run(make_request(), Allows())
        async with aclosing(run) as progress:
            await anext(progress)
            before = measure_memory()
            await asyncio.sleep(0.5)
            for _ in range(2000):
                await anext(progress)
            return measure_memory() - before

    assert asyncio.run(run_scenario()) < 20 * 2**20


@pytest.mark.parametrize("noise", ["'x\\n' * 10_000", "'x' * 10_000_000 + '\\n'"])
def test_a_flood_that_means_nothing_ends_the_turn(noise):
    patience = TurnTimeouts(graces=QUICK.graces)  # a slow machine takes its time for 64 MiB
    (failed,) = run_program(f"while True: sys.stdout.write({noise})", patience=patience)
    assert failed == TurnFailed("odd keeps writing meaningless output, so it was ended.")


def test_a_flood_of_errors_is_drained_and_forgotten():
    source = """
hear(); say('reply first')
for _ in range(300): sys.stderr.write('x' * 1_000_000)
say('reply second'); hear()
"""

    async def run_scenario() -> int:
        one = make_engine(
            source, patience=TurnTimeouts(graces=QUICK.graces)
        )  # for a slow machine, too
        async with aclosing(one.run(make_request(), Allows())) as progress:
            assert [await anext(progress) for _ in range(2)][1] == ReplyCompleted("first")
            before = measure_memory()
            assert await anext(progress) == ReplyCompleted("second")
            return measure_memory() - before

    assert asyncio.run(run_scenario()) < 15 * 2**20


def test_a_program_that_reads_nothing_blocks_nobody():
    """Its pipe is full after 64 KiB or so; what it is told waits, up to a limit."""
    source = "say('reply early')\nfor _ in range(30): say('ask', _ , 'x' * 900_000)\ntime.sleep(60)"
    steps = asyncio.run(run_turn(make_engine(source), make_request("p" * 3_000_000)))
    assert steps[1] == ReplyCompleted("early")
    assert steps[-1] == TurnFailed("odd: The program does not read its input.")


# What is not there.


def test_a_missing_program_is_reported_with_what_to_do():
    launch = ProgramLaunch(("no-such-program", "serve"))
    one = StdioEngine("odd", "/", prepare_with(launch), install_hint="Install it first.")
    assert asyncio.run(run_turn(one)) == [
        TurnFailed(
            "The program no-such-program is not installed, or not in PATH. Install it first."
        )
    ]


def test_a_missing_workspace_is_reported(tmp_path):
    steps = asyncio.run(run_turn(make_engine("pass", folder=str(tmp_path / "gone"))))
    assert steps == [TurnFailed(f"The workspace {tmp_path / 'gone'} is not there any more.")]


def test_a_workspace_that_vanishes_meanwhile_is_reported(tmp_path):
    folder = tmp_path / "soon"
    folder.mkdir()
    steps = run_program(f"os.rmdir({str(folder)!r}); sys.exit(1)", folder=str(folder))
    assert steps == [TurnFailed(f"The workspace {folder} no longer exists; odd ended.")]


def test_what_cannot_be_made_fails_the_turn():
    async def refuse(given: TurnRequest) -> tuple[ProgramLaunch, Words]:
        raise NotFound("No supplier is named x.")

    one = StdioEngine("odd", "/", refuse)
    assert asyncio.run(run_turn(one)) == [TurnFailed("No supplier is named x.")]


def test_an_argument_with_a_nul_fails_the_turn():
    one = StdioEngine("odd", "/", prepare_with(ProgramLaunch(("true", "a\0b"))))
    (failed,) = asyncio.run(run_turn(one))
    assert isinstance(failed, TurnFailed)
    assert "cannot be started" in failed.reason


# Stopping.


async def stop_after(one: StdioEngine, step: EngineEvent, approver=None) -> tuple[int, float]:
    """Close the turn after this event; return the program's id, and how long closing took."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(100):
        run = one.run(make_request(), approver or Allows())
        process = 0
        async for told in run:
            process = told.pid if isinstance(told, EngineStarted) else process
            if told == step:
                break
        began = loop.time()
        await run.aclose()
        return process, loop.time() - began


def test_a_stopped_turn_is_ended_by_the_program_itself_and_its_cost_and_memory_count_next_time():
    """The events come when nobody listens any more."""
    source = """
if hear() == 'again: new': say('over'); sys.exit()
say('keep : old'); say('reply one')
while hear() != 'stop': pass
say('spent 5'); say('keep : new'); say('over')
"""

    async def run_scenario() -> list[EngineEvent]:
        one = make_engine(source, patience=TurnTimeouts(stop=60.0, graces=QUICK.graces))
        process, seconds = await stop_after(one, ReplyCompleted("one"))
        assert seconds < 60
        assert is_gone(process)
        steps = await run_turn(one, make_request("again"))
        return [step for step in steps if not isinstance(step, EngineStarted)]

    assert asyncio.run(run_scenario()) == [
        UsageReported(Usage(input=5), Decimal(1)),
        EngineStateSaved(": new"),
    ]


def test_a_cancelled_turn_shows_what_it_used_before_it_ends():
    source = """
say('reply one')
while hear() != 'stop': pass
say('spent 5'); say('keep : new'); say('over')
"""

    async def run_scenario() -> None:
        one = make_engine(source, patience=TurnTimeouts(stop=60.0, graces=QUICK.graces))
        told: list[EngineEvent] = []

        async def listen() -> None:
            async for step in one.run(make_request(), Allows()):
                told.append(step)

        listening = asyncio.create_task(listen())
        await async_until(lambda: ReplyCompleted("one") in told)
        listening.cancel()
        await asyncio.wait([listening])
        assert listening.cancelled()
        assert told[-2:] == [UsageReported(Usage(input=5), Decimal(1)), EngineStateSaved(": new")]

    asyncio.run(run_scenario())


def test_what_was_told_in_the_same_breath_is_heard_before_the_program_is_asked_to_stop():
    source = "sys.stdout.write('reply one\\nspent 7\\nover\\n'); sys.stdout.flush(); time.sleep(60)"

    async def run_scenario() -> None:
        one = make_engine(source, patience=TurnTimeouts(stop=60.0, graces=QUICK.graces))
        _, seconds = await stop_after(one, ReplyCompleted("one"))
        assert seconds < 60
        steps = await run_turn(one)
        assert UsageReported(Usage(input=7), Decimal(1)) in steps

    asyncio.run(run_scenario())


def test_a_program_that_ignores_everything_is_killed_with_its_children(tmp_path):
    pids = tmp_path / "pids"
    source = f"""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '60'])
fled = subprocess.Popen(['sleep', '60'], start_new_session=True)
open({str(pids)!r}, 'w').write(f'{{child.pid}} {{fled.pid}}')
say('reply one')
while True: time.sleep(60)
"""

    async def run_scenario() -> int:
        async with nothing_left():
            process, seconds = await stop_after(make_engine(source), ReplyCompleted("one"))
            assert seconds < 60
        return process

    process = asyncio.run(run_scenario())
    assert is_gone(process)
    until(lambda: all(map(is_gone, map(int, pids.read_text().split()))))  # as the kernel gets to it


def test_what_wiped_its_environment_and_fled_ends_with_the_turn(tmp_path):
    pid = tmp_path / "pid"
    source = f"""
hear()
fled = subprocess.Popen(['sleep', '60'], env={{}}, start_new_session=True)
open({str(pid)!r}, 'w').write(str(fled.pid))
say('over')
"""
    assert run_program(source) == []
    wait_until_gone(int(pid.read_text()))  # as the kernel gets to it


def test_a_program_may_tidy_up_when_it_is_asked_to_end(tmp_path):
    tidied = tmp_path / "tidied"
    source = f"""
def tidy(*_): open({str(tidied)!r}, 'w').close(); sys.exit()
signal.signal(signal.SIGTERM, tidy)
say('over')
while True: time.sleep(60)
"""
    patience = TurnTimeouts(graces=Graces(exit=0.05, terminate=60.0))
    assert run_program(source, patience=patience) == []
    assert tidied.exists()


def test_without_a_mark_the_group_is_killed_all_the_same_and_no_pipe_is_left(tmp_path):
    """The process that fled holds the input, of which three megabytes are unread."""
    pids = tmp_path / "pids"
    source = f"""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '60'])
fled = subprocess.Popen(['sleep', '60'], start_new_session=True, stdin=0)
open({str(pids)!r}, 'w').write(f'{{child.pid}} {{fled.pid}}')
say('over')
while True: time.sleep(60)
"""

    async def run_scenario() -> int:
        async with nothing_left():
            given = TurnRequest(chat_id=1, prompt="p" * 3_000_000)
            alive = (await run_turn(make_engine(source), given))[0]
        assert isinstance(alive, EngineStarted)
        return alive.pid

    process = asyncio.run(run_scenario())
    child, fled = map(int, pids.read_text().split())
    os.kill(fled, signal.SIGKILL)
    wait_until_gone(process)
    wait_until_gone(child)


def test_the_usual_patience_keeps_to_ten_seconds():
    patience = TurnTimeouts()
    most = patience.stop + patience.graces.exit + patience.graces.terminate
    assert most <= 8  # and two for the kernel


def test_a_daemonised_grandchild_does_not_outlive_a_turn_that_ended_well(tmp_path):
    pid = tmp_path / "pid"
    source = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    for one in range(3): os.close(one)
    with open({str(pid)!r} + '~', 'w') as file: file.write(str(os.getpid()))
    os.rename({str(pid)!r} + '~', {str(pid)!r})
    time.sleep(60)
while not os.path.exists({str(pid)!r}): time.sleep(.01)
say('reply hi'); say('over')
"""
    assert run_program(source) == [ReplyCompleted("hi")]
    wait_until_gone(int(pid.read_text()))


def test_open_questions_are_withdrawn_when_the_turn_is_stopped():
    async def run_scenario() -> list[str]:
        waits = Waits()
        source = "hear(); say('ask one'); say('ask at once'); hear(); say('reply one'); hear()"
        await stop_after(make_engine(source), ReplyCompleted("one"), waits)
        await asyncio.sleep(0)
        return list(waits.cancelled)

    assert asyncio.run(run_scenario()) == ["one"]


def test_cancelling_twice_leaves_nothing(tmp_path):
    """The second cancellation, while the first is being obeyed, must not set anything free."""

    async def run_scenario() -> int:
        async with nothing_left():
            alive: asyncio.Future[int] = asyncio.get_running_loop().create_future()

            async def follow() -> None:
                source = (
                    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('reply x')\ntime.sleep(60)"
                )
                async with aclosing(make_engine(source).run(make_request(), Allows())) as progress:
                    async for step in progress:
                        if isinstance(step, EngineStarted):
                            process = step.pid
                        else:
                            alive.set_result(process)

            task = asyncio.create_task(follow())
            process = await alive
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0.05)
            with pytest.raises(asyncio.CancelledError):
                await task
        return process

    assert is_gone(asyncio.run(run_scenario()))


def test_many_turns_leave_no_descriptor_no_process_and_no_task():
    sources = (
        "say('reply hi'); say('over')",
        "sys.exit(1)",
        "os.close(1); time.sleep(60)",
        "say('ask one'); say('over')",
        "say('restart', 'say(\"over\")'); time.sleep(60)",
    )

    async def run_scenario() -> None:
        async with nothing_left():
            for source in sources:
                for step in await run_turn(make_engine(source)):
                    assert not isinstance(step, EngineStarted) or is_gone(step.pid)
            missing = StdioEngine("odd", "/", prepare_with(ProgramLaunch(("no-such",))))
            await run_turn(missing)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run_scenario())


def test_signals_by_number_are_reported_too(tmp_path: Path):
    number = signal.SIGRTMIN + 5
    assert run_program(f"os.kill(os.getpid(), {int(number)})") == [
        TurnFailed(f"odd was ended in the middle of the turn by signal {int(number)}.")
    ]


def test_files_that_a_program_makes_have_the_usual_modes(tmp_path: Path) -> None:
    """The daemon's own files are private; those of the workspace are the person's."""
    script = PRELUDE + "hear(); open('made', 'w').close(); say('over')\n"
    launch = ProgramLaunch((sys.executable, "-c", script))
    before = os.umask(0o077)
    try:
        one = StdioEngine("odd", str(tmp_path), prepare_with(launch), timeouts=lambda: QUICK)
        asyncio.run(run_turn(one))
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o644
