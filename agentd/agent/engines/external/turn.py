"""Runs one turn of an external program: its pipes, its questions, its timeouts."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.engine import (
    ApprovalAnswer,
    ApprovalRequested,
    Approver,
    EngineEvent,
    EngineStarted,
    EngineStateSaved,
    Question,
    RateLimited,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnFailed,
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
from agentd.agent.mcp_servers.handover import hide_in_failure
from agentd.agent.reset_time import lasts_longer
from agentd.agent.text import sanitize
from agentd.core.clock import SystemClock, parse_iso
from agentd.core.errors import AgentdError, Unavailable
from agentd.core.redaction import mask_values, scrub
from agentd.system.dialogue import Graces, Program, open_secret_memfd
from agentd.system.limit_mark import mark_process
from agentd.system.lines import LONGEST_LINE, Lines
from agentd.system.process import GIT_SAFETY_VARIABLES, MARK, build_environment

log = logging.getLogger(__name__)

MAX_LAST_WORDS = 4 * 1024
"""Characters of a program's last output in an error."""
READABLE_LINE = 400
"""Characters of one line of it."""

MAX_NOISE = 64 * 2**20
"""Bytes that a program may write without a meaningful line ..."""
_LINE = 512
"""... plus this for each line, since each takes time to parse."""

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


_PASSED_OVER = "%s wrote a line of more than %d bytes; ignored"


class TurnTimeouts(Struct, frozen=True):
    """Seconds to wait for a program; without limit while a question is open."""

    silence: float = 600.0
    """Seconds to wait for its next line."""
    tool: float = 3600.0
    """Seconds to wait for its next line while it uses a tool, such as a build."""
    unknown_pause: float = 30.0
    """Seconds to wait for its next line while it waits for a supplier, nobody knows how long; and
    of silence, after which its log is looked at for a limit that lasts longer than the timeout."""
    stop: float = 4.0
    """Seconds to wait for the end of the turn when it is asked to stop."""
    graces: Graces = Graces()
    longest_line: int = LONGEST_LINE
    """Bytes."""


class StdioTurn:
    """Alternate ``wait_for_steps`` and ``apply`` until it is ``over``, then ``end`` it."""

    install_hint = ""
    """The advice for a missing program."""

    def __init__(
        self,
        name: str,
        folder: str,
        launch: ProgramLaunch,
        conversation: EngineConversation,
        approver: Approver,
        mark: str,
        patience: TurnTimeouts,
    ) -> None:
        self.over = False
        self.undelivered: list[EngineEvent] = []
        """Events since the turn was stopped, except for the reason of its end."""
        self._name = name
        self._folder = folder
        self._launch = launch
        self._conversation = conversation
        self._questions = _PendingQuestions(approver)
        self._mark = mark
        self._timeouts = patience
        self._program: Program | None = None
        self._lines = Lines(patience.longest_line)
        self._reading: asyncio.Task[bytes] | None = None
        self._silent_seconds = 0.0
        """Seconds of silence, counted while it was listened to."""
        self._next_look = patience.unknown_pause  # after so much silence its log is looked at
        self._errors_seen = 0
        """Bytes of its standard error at its last line."""
        self._noise = 0
        """Bytes since its last meaningful line."""
        self._late_until: float | None = None
        """Loop time after which no late output is awaited."""
        self._tools = 0
        self._steps: Iterator[Step] = iter(())
        """The steps being applied."""
        self._restart = self._stopping = False
        self._limited: RateLimited | None = None
        """A limit that lasts longer than the timeout."""
        self._unknown_pause = ""
        """Why the program waits for its supplier, nobody knows how long; empty: it does not."""

    async def wait_for_steps(self) -> Iterable[Step]:
        """Wait for what happens next; return the steps that follow from it."""
        if self._restart:
            self._restart = False
            await self._end_program()
        if self._limited:
            return chain(self._conversation.on_exit(), [self._limited])
        if self._program is None:
            return await self._start_program()
        if self._reading is None:
            self._reading = asyncio.create_task(self._program.read())
        await self._wait(self._reading)
        if decided := self._questions.pop_decided():
            return self._conversation.on_decision(*decided)
        if not self._reading.done():
            return self._on_timeout()
        data, self._reading = self._reading.result(), None
        return self._on_data(data) if data else await self._on_output_end(self._program)

    def apply(self, steps: Iterable[Step]) -> Iterator[EngineEvent]:
        """Apply steps until the turn is over, and yield the events for the dispatcher."""
        self._steps = iter(steps)
        for step in self._steps:
            if isinstance(step, AskApproval):
                yield ApprovalRequested()  # first, since it ends a turn whose budget is spent
            if event := self._apply_step(step):
                yield event
            if self.over:
                return

    async def end(self) -> None:
        """End the program; if the turn is not over, first ask the program to end it."""
        try:
            if self._program and not self.over:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timeouts.stop):
                        await self._stop()
                if not self.over:  # it does not respond: what it reported before counts
                    self._collect(self._conversation.on_exit())
        finally:
            self._questions.cancel_all()
            await self._end_program()

    # What the program does.

    async def _start_program(self) -> Iterable[Step]:
        try:
            self._program = await self._launch_program()
        except Unavailable as error:
            missing = isinstance(error.__cause__, FileNotFoundError) and "PATH" in error.message
            return [TurnFailed(f"{error.message} {self.install_hint if missing else ''}".rstrip())]
        self._lines = Lines(self._timeouts.longest_line)
        self._silent_seconds, self._errors_seen = 0.0, 0
        return chain([EngineStarted(self._program.process)], self._conversation.on_start())

    async def _launch_program(self) -> Program:
        mark = {MARK: self._mark} if self._mark else {}
        with _open_descriptors(self._launch) as (launch, descriptors):
            env = build_environment(**{**launch.environment, **GIT_SAFETY_VARIABLES, **mark})
            program = await Program.start(
                launch.command,
                folder=self._folder,
                env=env,
                descriptors=descriptors,
            )
        if self._mark:  # before the prompt, so that all commands of the model inherit it
            mark_process(program.process, self._mark)
        return program

    def _on_data(self, data: bytes) -> Iterator[Step]:
        before = self._lines.passed_over
        self._noise += len(data)
        for line in self._lines.feed(data):
            self._silent_seconds, self._next_look = 0.0, self._timeouts.unknown_pause
            self._errors_seen = self._program.stderr_size if self._program else 0
            self._noise = 0 if line.startswith(b"{") else self._noise + _LINE
            yield from self._conversation.on_line(line)
        if self._noise > MAX_NOISE:
            yield TurnFailed(f"{self._name} keeps writing meaningless output, so it was ended.")
        if self._lines.passed_over > before:
            log.warning(_PASSED_OVER, self._name, self._timeouts.longest_line)

    async def _on_output_end(self, program: Program) -> Iterable[Step]:
        """Handle the end of the program's output before the end of the turn."""
        last = chain.from_iterable(map(self._conversation.on_line, self._lines.iter_rest()))
        steps = [*last, *self._conversation.on_exit()]
        if not any(
            isinstance(step, TurnDone | RestartProgram | TurnFailed | RateLimited) for step in steps
        ):
            code = await program.wait_for_exit(self._timeouts.graces.exit)
            gone = f"The workspace {self._folder} no longer exists; {self._name} ended."
            how = f"{self._name} {_describe_exit(code)}."
            there = os.path.isdir(self._folder)
            words = _mask_secrets(program.last_words, self._launch)
            steps.append(TurnFailed(_add_last_words(how, words) if there else gone))
        return steps

    # What is sent to it.

    def _apply_step(self, step: Step) -> EngineEvent | None:
        match step:
            case SendLine(line=line):
                return self._send(line)
            case AskApproval(id=ask, question=question):
                if not self._stopping:
                    self._questions.ask(ask, question)
            case QuestionCancelled(id=ask):
                self._questions.cancel(ask)
            case AwaitLateOutput(seconds=seconds):
                self._late_until = asyncio.get_running_loop().time() + seconds
            case SupplierPause(reason=reason, seconds=seconds):
                if seconds is None:
                    self._unknown_pause = reason
                elif seconds >= self._timeouts.silence and not self._stopping:
                    self._limited = RateLimited(reason, seconds=seconds)
            case RestartProgram(launch=launch):
                self._launch, self._restart = launch, True
            case TurnDone():
                self.over = True
            case UsageWindowsReported():
                return step  # not a sign that a pause is over
            case _:
                self._unknown_pause = ""
                self._tools += isinstance(step, ToolStarted) - isinstance(step, ToolUsed)
                self._tools = max(self._tools, 0)
                self.over = isinstance(step, TurnFailed | RateLimited)
                return hide_in_failure(step, self._launch.mcp_servers)
        return None

    def _send(self, line: bytes) -> EngineEvent | None:
        try:
            if self._program:
                self._program.write(line)
        except Unavailable as error:
            self.over = True
            return TurnFailed(f"{self._name}: {error.message}")
        return None

    # How long it takes.

    async def _wait(self, reading: "asyncio.Task[bytes]") -> None:
        """Wait until it writes something, a question is decided, or a timeout is reached."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting: set[asyncio.Task[Any]] = {reading, *self._questions.tasks}
        left = self._count_remaining_seconds(began)
        await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        silent = self._silent_seconds + loop.time() - began
        self._silent_seconds = 0.0 if self._questions.tasks else silent

    def _count_remaining_seconds(self, now: float) -> float | None:
        if self._late_until is not None:
            return max(self._late_until - now, 0.0)
        if self._questions.tasks:
            return None
        return max(min(self._longest_silence, self._next_look) - self._silent_seconds, 0.0)

    @property
    def _longest_silence(self) -> float:
        most = self._timeouts.tool if self._tools else self._timeouts.silence
        return min(most, self._timeouts.unknown_pause) if self._unknown_pause else most

    def _on_timeout(self) -> Iterable[Step]:
        if self._late_until is not None:
            return chain(self._conversation.on_exit(), [TurnDone()])
        end, left = self._explain_silence(), self._longest_silence - self._silent_seconds
        if left > 0 and not _is_hopeless(end, left):
            self._next_look = self._silent_seconds + self._timeouts.unknown_pause
            return ()
        return chain(self._conversation.on_exit(), [end])

    def _explain_silence(self) -> RateLimited | TurnFailed:
        if self._unknown_pause:
            return RateLimited(_mask_secrets(self._unknown_pause, self._launch))
        errors = self._program.read_stderr_after(self._errors_seen) if self._program else ""
        if limit := self._conversation.explain_silence(errors):
            return replace(limit, reason=_mask_secrets(limit.reason, self._launch))
        reason = (
            f"{self._name} said nothing for {self._silent_seconds:,.0f} seconds, so it was ended."
        )
        return TurnFailed(reason)

    # How it ends.

    async def _stop(self) -> None:
        """Ask the program to end the turn, and collect its last events."""
        self._stopping = True
        self._collect(chain(self._steps, self._conversation.stop()))
        while not self.over and not self._restart:
            self._collect(await self.wait_for_steps())

    def _collect(self, steps: Iterable[Step]) -> None:
        event = self.apply(steps)
        self.undelivered += [
            one
            for one in event
            if isinstance(one, EngineStateSaved | ReplyCompleted | UsageReported | ToolUsed)
        ]

    async def _end_program(self) -> None:
        reading, self._reading = self._reading, None
        if reading:
            reading.cancel()
        if self._program:
            await self._program.end(self._timeouts.graces)
            self._program = None


@contextmanager
def _open_descriptors(launch: ProgramLaunch) -> Iterator[tuple[ProgramLaunch, tuple[int, ...]]]:
    """Open the descriptors of a launch; yield it with their numbers, and those it needs."""
    with open_secret_memfd(launch.secret) as secret, open_secret_memfd(launch.config) as config:
        contents = ((secret, launch.secret), (config, launch.config))
        needed = tuple(number for number, content in contents if content)
        yield launch.with_descriptors(secret, config), needed


class _PendingQuestions:
    """The open questions; there may be several."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self._open: dict[str, asyncio.Task[ApprovalAnswer]] = {}

    @property
    def tasks(self) -> "list[asyncio.Task[ApprovalAnswer]]":
        return list(self._open.values())

    def ask(self, ask: str, question: Question) -> None:
        if ask not in self._open:
            self._open[ask] = asyncio.create_task(self._decide(question))

    def pop_decided(self) -> tuple[str, ApprovalAnswer] | None:
        """Return and forget a question that was decided."""
        for ask, task in self._open.items():
            if task.done():
                del self._open[ask]
                return ask, task.result()
        return None

    def cancel(self, ask: str) -> None:
        if task := self._open.pop(ask, None):
            task.cancel()

    def cancel_all(self) -> None:
        for ask in list(self._open):
            self.cancel(ask)

    async def _decide(self, question: Question) -> ApprovalAnswer:
        try:
            return await self._approver.ask(question)
        except AgentdError as error:
            return ApprovalAnswer(False, reason=error.message)


def _add_last_words(how: str, words: str) -> str:
    return f"{how} Its last words:\n\n{words}" if words else how


def _is_hopeless(end: RateLimited | TurnFailed, left: float) -> bool:
    """Return whether a program waits for the end of a limit that comes after its time to wait."""
    now = parse_iso(SystemClock().now())
    return isinstance(end, RateLimited) and lasts_longer(end.reason, left, now)


def _describe_exit(code: int | None) -> str:
    """Describe an unexpected exit by its code; None: the program did not exit."""
    if code is None:
        return "closed its output in the middle of the turn"
    if code >= 0:
        return f"ended in the middle of the turn with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended in the middle of the turn by {name}"


def _mask_secrets(words: str, launch: ProgramLaunch) -> str:
    """Return the end of the program's output with its secrets masked."""
    named = [
        value
        for name, value in launch.environment.items()
        if any(part in name.upper() for part in _SECRET_NAMES)
    ]
    words = mask_values(words, (launch.secret, *named))
    return sanitize(scrub("\n".join(map(_shorten_line, words.splitlines())))[-MAX_LAST_WORDS:])


def _shorten_line(line: str) -> str:
    """Return a line with its middle left out if it is too long to read.

    A crashing JavaScript program prints the line of the error, which can be all of its minified
    code.
    """
    if len(line) <= READABLE_LINE:
        return line
    half = READABLE_LINE // 2
    return f"{line[:half]} [… {len(line) - 2 * half:,} characters …] {line[-half:]}"
