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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.agent.conversation import (
    Ask,
    Conversation,
    Launch,
    Linger,
    Over,
    Pauses,
    Restart,
    Send,
    Step,
    Withdrawn,
)
from agentd.agent.engine import (
    Alive,
    Answer,
    Assignment,
    Failed,
    Kept,
    Limited,
    Progress,
    Question,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
    Wrote,
)
from agentd.errors import NotFound, Unavailable
from agentd.outside.program import Graces
from agentd.outside.stdio_engine import Make, StdioEngine
from agentd.outside.stdio_turn import Patience
from agentd.proxy.price import Usage
from tests.outside.loopback import let_pass

QUICK = Patience(silence=60.0, tool=60.0, stop=0.3, graces=Graces(exit=0.3, terminate=0.3))

PRELUDE = """
import json, os, signal, subprocess, sys, time
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
"""


class Words:
    """A conversation of single words: ``reply X``, ``ask N``, ``over`` and so on."""

    def __init__(self, assignment: Assignment) -> None:
        self._prompt = assignment.prompt + assignment.memory
        self._held: list[Step] = []

    def begin(self) -> Iterator[Step]:
        yield Send(self._prompt.encode())

    def heard(self, line: bytes) -> Iterator[Step]:  # noqa: PLR0912 - one for each word
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        match word:
            case "reply":
                yield Replied(rest)
            case "hold":
                self._held.append(Replied(rest))
            case "wrote":
                yield Wrote(rest)
            case "tool":
                yield ToolStarted(rest, "")
            case "used":
                yield ToolUsed(rest, "", "")
            case "spent":
                yield Spent(Usage(input=int(rest)), Decimal(1))
            case "keep":
                yield Kept(rest)
            case "ask":
                yield Ask(rest, Question("shell", "sh", rest))
            case "withdraw":
                yield Withdrawn(rest)
            case "linger":
                yield Linger(float(rest))
            case "pause":
                yield Pauses("Later.", float(rest))
            case "restart":
                yield Restart(Launch((sys.executable, "-c", PRELUDE + rest.replace("|", "\n"))))
            case "over":
                yield Over()

    def answered(self, ask: str, answer: Answer) -> Iterator[Step]:
        yield Send(f"{ask} {'yes' if answer.allowed else 'no ' + answer.reason}".encode())

    def stop(self) -> Iterator[Step]:
        yield Send(b"stop")

    def ended(self) -> Iterator[Step]:
        held, self._held = self._held, []
        yield from held


def making(launch: Launch) -> Make:
    """Each turn is begun so, and led in single words."""

    async def make(assignment: Assignment) -> tuple[Launch, Conversation]:
        return launch, Words(assignment)

    return make


class Allows:
    """Says yes at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(True)


class Waits:
    """Decides when it is told to, ``at once`` at once; several questions may be open."""

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Future[Answer]] = {}
        self.answered: list[str] = []
        self.cancelled: list[str] = []

    async def ask(self, question: Question) -> Answer:
        if question.subject == "at once":
            return Answer(True)
        decided = self.open[question.subject] = asyncio.get_running_loop().create_future()
        try:
            answer = await decided
        except asyncio.CancelledError:
            self.cancelled.append(question.subject)
            raise
        self.answered.append(question.subject)
        return answer

    async def has(self, *asked: str) -> None:
        while not self.open.keys() >= set(asked):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def engine(
    source: str, *, patience: Patience = QUICK, folder: str = "/", **variables
) -> StdioEngine:
    launch = Launch((sys.executable, "-c", PRELUDE + source), variables)
    return StdioEngine("odd", folder, making(launch), patience=lambda: patience)


TURN = f"test{os.getpid()}.1.2"


def assignment(prompt: str = "hello", *, turn: str = "") -> Assignment:
    return Assignment(chat_id=1, prompt=prompt, turn=turn or f"{TURN}x{time.monotonic_ns()}")


async def carried_out(
    one: StdioEngine, given: Assignment | None = None, approver=None
) -> list[Progress]:
    """All that a turn tells, from its start to its end."""
    async with asyncio.timeout(100):
        run = one.run(given or assignment(), approver or Allows())
        async with aclosing(run) as progress:
            return [step async for step in progress]


def told(source: str, **more) -> list[Progress]:
    """What a turn of this program tells, but for the first sign of life."""
    steps = asyncio.run(carried_out(engine(source, **more)))
    assert isinstance(steps[0], Alive)
    until(lambda: gone(steps[0].process))
    return steps[1:]


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass within 30 seconds"
        time.sleep(0.005)


def gone(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def memory() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No descriptor is left that was not there before."""
    await asyncio.to_thread(int)  # the thread pool's own
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    yield
    loop = asyncio.get_running_loop()
    end = loop.time() + 30
    while len(os.listdir("/proc/self/fd")) > before:
        assert loop.time() < end, "a descriptor is left"
        await asyncio.sleep(0.005)


# As it should be.


def test_a_turn_is_told_as_it_comes():
    source = "say('wrote', hear()); say('reply hi'); say('over'); sys.stdin.read()"
    assert told(source) == [Wrote("hello"), Replied("hi")]


def test_lines_may_end_as_on_windows():
    assert told(r"sys.stdout.write('reply hi\r\nover\r\n')") == [Replied("hi")]


def test_several_questions_are_open_at_once_and_answered_in_any_order():
    source = """
hear(); say('ask one'); say('ask two')
for _ in range(2): say('reply', hear())
say('over')
"""

    async def scene() -> list[Progress]:
        waits = Waits()
        task = asyncio.create_task(carried_out(engine(source), approver=waits))
        await waits.has("one", "two")
        waits.open["two"].set_result(Answer(False, reason="never"))
        while "two" not in waits.answered:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        waits.open["one"].set_result(Answer(True))
        return (await task)[1:]

    assert asyncio.run(scene()) == [Replied("two no never"), Replied("one yes")]


def test_a_withdrawn_question_is_asked_no_more():
    source = """
hear(); say('ask one'); say('ask at once'); hear()
say('withdraw one'); say('ask two'); say('reply', hear()); say('over')
"""

    async def scene() -> tuple[list[Progress], list[str]]:
        waits = Waits()
        task = asyncio.create_task(carried_out(engine(source), approver=waits))
        await waits.has("one", "two")
        waits.open["two"].set_result(Answer(True))
        return (await task)[1:], waits.cancelled

    assert asyncio.run(scene()) == ([Replied("two yes")], ["one"])


def test_a_question_that_cannot_be_asked_is_denied_for_that_reason():
    class Broken:
        async def ask(self, question: Question) -> Answer:
            raise Unavailable("The disk is full.")

    source = "hear(); say('ask one'); say('reply', hear()); say('over')"
    steps = asyncio.run(carried_out(engine(source), approver=Broken()))
    assert steps[1:] == [Replied("one no The disk is full.")]


def test_what_comes_late_is_waited_for_and_what_was_held_back_is_told():
    assert told("say('hold late'); say('linger 60'); say('used x'); say('over'); hear()") == [
        ToolUsed("x", "", "")
    ]
    assert told("say('hold late'); say('linger 0.05'); time.sleep(60)") == [Replied("late")]


def test_a_program_is_started_once_more_when_its_conversation_wants_that():
    source = (
        "say('reply first'); say('restart', 'say(\"reply\", hear())|say(\"over\")'); time.sleep(60)"
    )
    steps = told(source)
    assert [type(step) for step in steps] == [Replied, Alive, Replied]
    assert steps[2] == Replied("hello")


def test_it_may_exit_by_itself_when_its_input_ends(tmp_path):
    done = tmp_path / "done"
    patience = Patience(graces=Graces(exit=60.0, terminate=0.3))
    told(f"say('over'); sys.stdin.read(); open({str(done)!r}, 'w').close()", patience=patience)
    assert done.exists()


def test_it_sees_neither_our_secrets_nor_our_descriptors(monkeypatch):
    """The allow-list, what its launch adds, and the mark; no socket, no lock of the daemon."""
    monkeypatch.setenv("AGENT_API_KEY", "canary")
    source = """
say('reply', json.dumps([dict(os.environ), sorted(os.listdir('/proc/self/fd'))]))
say('over')
"""
    given = assignment()
    with socket.socket() as listening, open("/dev/null") as lock:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        os.set_inheritable(listening.fileno(), True)
        os.set_inheritable(lock.fileno(), True)
        _, reply = asyncio.run(carried_out(engine(source, EXTRA="1"), given))
    assert isinstance(reply, Replied)
    assert "canary" not in reply.text
    assert f'"AGENTD_TURN": "{given.turn}"' in reply.text
    assert '"EXTRA": "1"' in reply.text
    assert reply.text.endswith('["0", "1", "2", "3"]]')  # 3: the listing of the folder itself


# Programs that misbehave.


def test_what_is_no_line_of_the_protocol_is_passed_over():
    source = r"""
out = sys.stdout.buffer
out.write(b'\x00\xff\xfe garbage \xc3\x28\n\n\n{"half": \n' + os.urandom(5000).replace(b'o', b'-'))
out.write(b'\nreply hi\nover\n'); out.flush()
"""
    assert told(source) == [Replied("hi")]


def test_a_long_line_arrives_whole():
    steps = told("say('reply', 'x' * 3_000_000); say('over')")
    assert steps == [Replied("x" * 3_000_000)]


def test_a_line_that_is_too_long_is_passed_over_and_said_to_the_log(caplog):
    patience = Patience(longest_line=100_000, graces=QUICK.graces)
    source = "say('reply', 'x' * 5_000_000); say('reply', 'y' * 99_000); say('over')"
    with caplog.at_level(logging.WARNING):
        assert told(source, patience=patience) == [Replied("y" * 99_000)]
    assert "odd wrote a line of more than 100000 bytes" in caplog.text


def test_a_half_line_and_death_end_the_turn_with_the_reason():
    source = """
sys.stdout.write('{"type": "assi'); sys.stdout.flush()
sys.stderr.write('no memory\\n'); sys.exit(3)
"""
    assert told(source) == [
        Failed("odd ended in the middle of the turn with exit code 3. Its last words:\n\nno memory")
    ]


def test_the_reason_is_readable_beside_a_line_of_minified_code():
    source = """
sys.stderr.write('17 | ' + 'x;' * 3_000 + '\\n' + 'error: no sandbox\\n'); sys.exit(1)
"""
    [failed] = told(source)
    assert failed.reason.endswith("error: no sandbox")
    assert len(failed.reason) < 700


def test_a_last_line_without_an_end_counts():
    assert told("sys.stdout.write('reply hi\\nover')") == [Replied("hi")]


def test_death_by_a_signal_is_told_and_what_was_held_back_too():
    assert told("say('hold so far'); os.kill(os.getpid(), signal.SIGSEGV)") == [
        Replied("so far"),
        Failed("odd was ended in the middle of the turn by SIGSEGV."),
    ]


def test_its_last_words_are_bounded_and_without_secrets():
    source = """
sys.stderr.write('x' * 300_000 + '\\n')
sys.stderr.write('the key ' + os.environ['SOME_KEY'] + ' was refused\\n')
sys.stderr.write('Authorization: Bearer abcdefghijk\\n\\x1b[31mred')
sys.exit(1)
"""
    (failed,) = told(source, SOME_KEY="plain-words-as-key")
    assert isinstance(failed, Failed)
    assert "the key *** was refused" in failed.reason
    assert "abcdefghijk" not in failed.reason
    assert "\x1b" not in failed.reason
    assert len(failed.reason) < 4096 + 200


def test_a_program_that_says_nothing_is_ended():
    patience = Patience(silence=0.2, graces=QUICK.graces)
    (failed,) = told("time.sleep(60)", patience=patience)
    assert isinstance(failed, Failed)
    assert "odd said nothing for" in failed.reason


def test_a_pause_longer_than_its_patience_is_a_limit_and_a_shorter_one_is_waited_for():
    """What it had held back is told; nothing is sent to a supplier that wants to be left alone."""
    assert told("say('hold half'); say('pause 60'); time.sleep(60)", patience=QUICK) == [
        Replied("half"),
        Limited("Later.", seconds=60.0),
    ]
    assert told("say('pause 59'); say('reply well'); say('over')", patience=QUICK) == [
        Replied("well")
    ]


def test_bytes_without_a_line_are_no_sign_of_life():
    patience = Patience(silence=0.3, graces=QUICK.graces)
    (failed,) = told(
        "while True: sys.stdout.write('x'); sys.stdout.flush(); time.sleep(.01)", patience=patience
    )
    assert isinstance(failed, Failed)


def test_it_may_be_silent_longer_while_it_uses_a_tool(tmp_path):
    made = tmp_path / "made"
    source = f"say('tool make')\nwhile not os.path.exists({str(made)!r}): time.sleep(.01)\n"
    source += "say('used make'); say('over')"

    async def scene() -> list[Progress]:
        one = engine(source, patience=Patience(silence=60.0, tool=1000.0, graces=QUICK.graces))
        steps = []
        async with aclosing(one.run(assignment(), Allows())) as progress:
            async for step in progress:
                steps.append(step)
                if isinstance(step, ToolStarted):
                    loop = asyncio.get_running_loop()
                    loop.call_soon(let_pass, 61)  # while it is waited for
                    loop.call_later(61.01, made.touch)
        return steps[1:]

    assert asyncio.run(scene()) == [ToolStarted("make", ""), ToolUsed("make", "", "")]


def test_it_may_be_silent_longer_while_a_question_is_open():
    class Slow:
        async def ask(self, question: Question) -> Answer:
            let_pass(61)
            await asyncio.sleep(0.01)  # whatever is due by then is done before
            return Answer(True)

    source = "hear(); say('ask one'); say('reply', hear()); say('over')"

    async def scene() -> list[Progress]:
        run = engine(source).run(assignment(), Slow())
        async with aclosing(run) as progress:
            return [step async for step in progress][1:]

    assert asyncio.run(scene()) == [Replied("one yes")]


def test_a_closed_output_ends_the_turn_though_the_program_lives():
    source = "os.close(1); time.sleep(60)"
    assert told(source) == [Failed("odd closed its output in the middle of the turn.")]


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
    steps = told(source)
    assert steps[-1] == Failed("odd ended in the middle of the turn with exit code 4.")
    until(lambda: gone(int(pid.read_text())))


def test_a_flood_is_read_no_faster_than_it_is_taken():
    """Gigabytes stand ready; the reader is slow; memory stays where it was."""
    source = "line = 'wrote ' + 'x' * 10_000 + '\\n'\nwhile True: sys.stdout.write(line)"

    async def scene() -> int:
        run = engine(source).run(assignment(), Allows())
        async with aclosing(run) as progress:
            await anext(progress)
            before = memory()
            await asyncio.sleep(0.5)
            for _ in range(2000):
                await anext(progress)
            return memory() - before

    assert asyncio.run(scene()) < 20 * 2**20


@pytest.mark.parametrize("noise", ["'x\\n' * 10_000", "'x' * 10_000_000 + '\\n'"])
def test_a_flood_that_means_nothing_ends_the_turn(noise):
    patience = Patience(graces=QUICK.graces)  # a slow machine takes its time for 64 MiB
    (failed,) = told(f"while True: sys.stdout.write({noise})", patience=patience)
    assert failed == Failed("odd writes without end what means nothing, so it was ended.")


def test_a_flood_of_errors_is_drained_and_forgotten():
    source = """
hear(); say('reply first')
for _ in range(300): sys.stderr.write('x' * 1_000_000)
say('reply second'); hear()
"""

    async def scene() -> int:
        one = engine(source, patience=Patience(graces=QUICK.graces))  # for a slow machine, too
        async with aclosing(one.run(assignment(), Allows())) as progress:
            assert [await anext(progress) for _ in range(2)][1] == Replied("first")
            before = memory()
            assert await anext(progress) == Replied("second")
            return memory() - before

    assert asyncio.run(scene()) < 15 * 2**20


def test_a_program_that_reads_nothing_blocks_nobody():
    """Its pipe is full after 64 KiB or so; what it is told waits, up to a limit."""
    source = "say('reply early')\nfor _ in range(30): say('ask', _ , 'x' * 900_000)\ntime.sleep(60)"
    steps = asyncio.run(carried_out(engine(source), assignment("p" * 3_000_000)))
    assert steps[1] == Replied("early")
    assert steps[-1] == Failed("odd: It does not read what it is told.")


# What is not there.


def test_a_missing_program_is_told_with_what_to_do():
    launch = Launch(("no-such-program", "serve"))
    one = StdioEngine("odd", "/", making(launch), advice="Install it first.")
    assert asyncio.run(carried_out(one)) == [
        Failed("The program no-such-program is not installed, or not in PATH. Install it first.")
    ]


def test_a_missing_workspace_is_told(tmp_path):
    steps = asyncio.run(carried_out(engine("pass", folder=str(tmp_path / "gone"))))
    assert steps == [Failed(f"The workspace {tmp_path / 'gone'} is not there any more.")]


def test_a_workspace_that_vanishes_meanwhile_is_told(tmp_path):
    folder = tmp_path / "soon"
    folder.mkdir()
    steps = told(f"os.rmdir({str(folder)!r}); sys.exit(1)", folder=str(folder))
    assert steps == [Failed(f"The workspace {folder} is not there any more; odd ended.")]


def test_what_cannot_be_made_fails_the_turn():
    async def refuse(given: Assignment) -> tuple[Launch, Words]:
        raise NotFound("No supplier is named x.")

    one = StdioEngine("odd", "/", refuse)
    assert asyncio.run(carried_out(one)) == [Failed("No supplier is named x.")]


def test_an_argument_with_a_nul_fails_the_turn():
    one = StdioEngine("odd", "/", making(Launch(("true", "a\0b"))))
    (failed,) = asyncio.run(carried_out(one))
    assert isinstance(failed, Failed)
    assert "cannot be started" in failed.reason


# Stopping.


async def stopped_after(one: StdioEngine, step: Progress, approver=None) -> tuple[int, float]:
    """Close the turn once it has told this; the program's id, and how long closing took."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(100):
        run = one.run(assignment(), approver or Allows())
        process = 0
        async for told in run:
            process = told.process if isinstance(told, Alive) else process
            if told == step:
                break
        began = loop.time()
        await run.aclose()
        return process, loop.time() - began


def test_a_stopped_turn_is_ended_by_the_program_itself_and_its_cost_and_memory_count_next_time():
    """Nobody listens any more when they are told."""
    source = """
if hear() == 'again: new': say('over'); sys.exit()
say('keep : old'); say('reply one')
while hear() != 'stop': pass
say('spent 5'); say('keep : new'); say('over')
"""

    async def scene() -> list[Progress]:
        one = engine(source, patience=Patience(stop=60.0, graces=QUICK.graces))
        process, seconds = await stopped_after(one, Replied("one"))
        assert seconds < 60
        assert gone(process)
        steps = await carried_out(one, assignment("again"))
        return [step for step in steps if not isinstance(step, Alive)]

    assert asyncio.run(scene()) == [Spent(Usage(input=5), Decimal(1)), Kept(": new")]


def test_a_cancelled_turn_tells_what_it_used_before_it_ends():
    source = """
say('reply one')
while hear() != 'stop': pass
say('spent 5'); say('keep : new'); say('over')
"""

    async def scene() -> None:
        one = engine(source, patience=Patience(stop=60.0, graces=QUICK.graces))
        told: list[Progress] = []

        async def listen() -> None:
            async for step in one.run(assignment(), Allows()):
                told.append(step)

        listening = asyncio.create_task(listen())
        while Replied("one") not in told:  # noqa: ASYNC110 - it is told by another process
            await asyncio.sleep(0.01)
        listening.cancel()
        await asyncio.wait([listening])
        assert listening.cancelled()
        assert told[-2:] == [Spent(Usage(input=5), Decimal(1)), Kept(": new")]

    asyncio.run(scene())


def test_what_was_told_in_the_same_breath_is_heard_before_the_program_is_asked_to_stop():
    source = "sys.stdout.write('reply one\\nspent 7\\nover\\n'); sys.stdout.flush(); time.sleep(60)"

    async def scene() -> None:
        one = engine(source, patience=Patience(stop=60.0, graces=QUICK.graces))
        _, seconds = await stopped_after(one, Replied("one"))
        assert seconds < 60
        steps = await carried_out(one)
        assert Spent(Usage(input=7), Decimal(1)) in steps

    asyncio.run(scene())


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

    async def scene() -> int:
        async with nothing_left():
            process, seconds = await stopped_after(engine(source), Replied("one"))
            assert seconds < 60
        return process

    process = asyncio.run(scene())
    assert gone(process)
    until(lambda: all(map(gone, map(int, pids.read_text().split()))))  # as the kernel gets to it


def test_a_program_may_tidy_up_when_it_is_told_to_end(tmp_path):
    tidied = tmp_path / "tidied"
    source = f"""
def tidy(*_): open({str(tidied)!r}, 'w').close(); sys.exit()
signal.signal(signal.SIGTERM, tidy)
say('over')
while True: time.sleep(60)
"""
    patience = Patience(graces=Graces(exit=0.05, terminate=60.0))
    assert told(source, patience=patience) == []
    assert tidied.exists()


def test_without_a_mark_the_group_is_killed_all_the_same_and_no_pipe_is_left(tmp_path):
    """What fled holds the input, of which three megabytes are unread."""
    pids = tmp_path / "pids"
    source = f"""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(['sleep', '60'])
fled = subprocess.Popen(['sleep', '60'], start_new_session=True, stdin=0)
open({str(pids)!r}, 'w').write(f'{{child.pid}} {{fled.pid}}')
say('over')
while True: time.sleep(60)
"""

    async def scene() -> int:
        async with nothing_left():
            given = Assignment(chat_id=1, prompt="p" * 3_000_000)
            alive = (await carried_out(engine(source), given))[0]
        assert isinstance(alive, Alive)
        return alive.process

    process = asyncio.run(scene())
    child, fled = map(int, pids.read_text().split())
    os.kill(fled, signal.SIGKILL)
    until(lambda: gone(process) and gone(child))


def test_the_usual_patience_keeps_to_ten_seconds():
    patience = Patience()
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
    assert told(source) == [Replied("hi")]
    until(lambda: gone(int(pid.read_text())))


def test_open_questions_are_withdrawn_when_the_turn_is_stopped():
    async def scene() -> list[str]:
        waits = Waits()
        source = "hear(); say('ask one'); say('ask at once'); hear(); say('reply one'); hear()"
        await stopped_after(engine(source), Replied("one"), waits)
        await asyncio.sleep(0)
        return list(waits.cancelled)

    assert asyncio.run(scene()) == ["one"]


def test_cancelling_twice_leaves_nothing(tmp_path):
    """The second cancellation, while the first is being obeyed, must not set anything free."""

    async def scene() -> int:
        async with nothing_left():
            alive: asyncio.Future[int] = asyncio.get_running_loop().create_future()

            async def follow() -> None:
                source = (
                    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('reply x')\ntime.sleep(60)"
                )
                async with aclosing(engine(source).run(assignment(), Allows())) as progress:
                    async for step in progress:
                        if isinstance(step, Alive):
                            process = step.process
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

    assert gone(asyncio.run(scene()))


def test_many_turns_leave_no_descriptor_no_process_and_no_task():
    sources = (
        "say('reply hi'); say('over')",
        "sys.exit(1)",
        "os.close(1); time.sleep(60)",
        "say('ask one'); say('over')",
        "say('restart', 'say(\"over\")'); time.sleep(60)",
    )

    async def scene() -> None:
        async with nothing_left():
            for source in sources:
                for step in await carried_out(engine(source)):
                    assert not isinstance(step, Alive) or gone(step.process)
            missing = StdioEngine("odd", "/", making(Launch(("no-such",))))
            await carried_out(missing)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scene())


def test_signals_by_number_are_told_too(tmp_path: Path):
    number = signal.SIGRTMIN + 5
    assert told(f"os.kill(os.getpid(), {int(number)})") == [
        Failed(f"odd was ended in the middle of the turn by signal {int(number)}.")
    ]


def test_files_that_a_program_makes_have_the_usual_modes(tmp_path: Path) -> None:
    """The daemon's own files are private; those of the workspace are the person's."""
    script = PRELUDE + "hear(); open('made', 'w').close(); say('over')\n"
    launch = Launch((sys.executable, "-c", script))
    before = os.umask(0o077)
    try:
        one = StdioEngine("odd", str(tmp_path), making(launch), patience=lambda: QUICK)
        asyncio.run(carried_out(one))
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o644
