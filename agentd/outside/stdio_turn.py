"""One turn of a program that is spoken with in lines: its pipes, its questions, its silence."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from msgspec import Struct

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
    Approver,
    Failed,
    Kept,
    Limited,
    Progress,
    Question,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.text import plain
from agentd.errors import AgentdError, Unavailable
from agentd.outside.lines import LONGEST_LINE, Lines
from agentd.outside.process import GIT_CAUTION, MARK, environment
from agentd.outside.program import Graces, Program, secret_descriptor
from agentd.redaction import scrub

log = logging.getLogger(__name__)

TOLD = 4 * 1024
"""Characters of a program's last words that are told."""
READABLE_LINE = 400
"""Characters of a single line of them."""

MOST_NOISE = 64 * 2**20
"""Bytes that a program may write without a line that could mean something ..."""
_LINE = 512
"""... each line counted as so many more: it takes time to look at."""

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


class Patience(Struct, frozen=True):
    """For how many seconds a program is waited for; while a question is open, without an end."""

    silence: float = 600.0
    """For its next line."""
    tool: float = 3600.0
    """For its next line while it uses a tool: a build, say."""
    stop: float = 4.0
    """For it to end the turn by itself when it is asked to."""
    graces: Graces = Graces()
    longest_line: int = LONGEST_LINE
    """Bytes."""


class StdioTurn:
    """Wait for the ``next`` steps, have each carried out until it is ``over``, then ``end`` it."""

    advice = ""
    """What to do when the program is not there."""

    def __init__(
        self,
        name: str,
        folder: str,
        launch: Launch,
        conversation: Conversation,
        approver: Approver,
        mark: str,
        patience: Patience,
    ) -> None:
        self.over = False
        self.unheard: list[Progress] = []
        """What was told since the turn was to be stopped, but for a reason to end it."""
        self._name = name
        self._folder = folder
        self._launch = launch
        self._conversation = conversation
        self._questions = _Questions(approver)
        self._mark = mark
        self._patience = patience
        self._program: Program | None = None
        self._lines = Lines(patience.longest_line)
        self._reading: asyncio.Task[bytes] | None = None
        self._waited = 0.0
        """Seconds since it said anything, as far as it was listened to."""
        self._noise = 0
        """Bytes since it wrote a line that could mean something."""
        self._lingers: float | None = None
        """When the loop's clock shows this, nothing more is waited for."""
        self._tools = 0
        self._steps: Iterator[Step] = iter(())
        """Those that are being carried out."""
        self._restart = self._stopping = False
        self._limited: Limited | None = None
        """A limit that lasts longer than the program is waited for."""

    async def next(self) -> Iterable[Step]:
        """Wait for what happens next; the steps that it leads to."""
        if self._restart:
            self._restart = False
            await self._end_program()
        if self._limited:
            return chain(self._conversation.ended(), [self._limited])
        if self._program is None:
            return await self._start()
        if self._reading is None:
            self._reading = asyncio.create_task(self._program.read())
        await self._wait(self._reading)
        if decided := self._questions.decided():
            return self._conversation.answered(*decided)
        if not self._reading.done():
            return self._out_of_patience()
        data, self._reading = self._reading.result(), None
        return self._heard(data) if data else await self._gone(self._program)

    def carry_out(self, steps: Iterable[Step]) -> Iterator[Progress]:
        """Do what the steps say, until the turn is over; what is to be told of them."""
        self._steps = iter(steps)
        for step in self._steps:
            if told := self._do(step):
                yield told
            if self.over:
                return

    async def end(self) -> None:
        """End the program: when the turn is not over it is asked to end that first."""
        try:
            if self._program and not self.over:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._patience.stop):
                        await self._stop()
                if not self.over:  # it does not listen: what it had told before counts
                    self._hear(self._conversation.ended())
        finally:
            self._questions.withdraw_all()
            await self._end_program()

    # What the program does.

    async def _start(self) -> Iterable[Step]:
        try:
            self._program = await self._started()
        except Unavailable as error:
            missing = isinstance(error.__cause__, FileNotFoundError) and "PATH" in error.message
            return [Failed(f"{error.message} {self.advice if missing else ''}".rstrip())]
        self._lines = Lines(self._patience.longest_line)
        self._waited = 0.0
        return chain([Alive(self._program.process)], self._conversation.begin())

    async def _started(self) -> Program:
        mark = {MARK: self._mark} if self._mark else {}
        with secret_descriptor(self._launch.secret) as secret:
            launch = self._launch.with_descriptor(secret)
            env = environment(**{**launch.environment, **GIT_CAUTION, **mark})
            return await Program.start(
                launch.command,
                folder=self._folder,
                env=env,
                descriptors=(secret,) if launch.secret else (),
            )

    def _heard(self, data: bytes) -> Iterator[Step]:
        before = self._lines.passed_over
        self._noise += len(data)
        for line in self._lines.feed(data):
            self._waited = 0.0
            self._noise = 0 if line.startswith(b"{") else self._noise + _LINE
            yield from self._conversation.heard(line)
        if self._noise > MOST_NOISE:
            yield Failed(f"{self._name} writes without end what means nothing, so it was ended.")
        if self._lines.passed_over > before:
            limit = self._patience.longest_line
            log.warning("%s wrote a line of more than %d bytes; passed over", self._name, limit)

    async def _gone(self, program: Program) -> Iterable[Step]:
        """It will say no more, and the turn is not over."""
        last = chain.from_iterable(map(self._conversation.heard, self._lines.rest()))
        steps = [*last, *self._conversation.ended()]
        if not any(isinstance(step, Over | Restart | Failed | Limited) for step in steps):
            code = await program.exit_code(self._patience.graces.exit)
            steps.append(Failed(self._epitaph(program, code)))
        return steps

    def _epitaph(self, program: Program, code: int | None) -> str:
        if not os.path.isdir(self._folder):
            return f"The workspace {self._folder} is not there any more; {self._name} ended."
        words = _without_secrets(program.last_words, self._launch)
        how = f"{self._name} {_ending(code)}."
        return f"{how} Its last words:\n\n{words}" if words else how

    # What is said to it.

    def _do(self, step: Step) -> Progress | None:
        match step:
            case Send(line=line):
                return self._send(line)
            case Ask(id=ask, question=question):
                if not self._stopping:
                    self._questions.ask(ask, question)
            case Withdrawn(id=ask):
                self._questions.withdraw(ask)
            case Linger(seconds=seconds):
                self._lingers = asyncio.get_running_loop().time() + seconds
            case Pauses(reason=reason, seconds=seconds):
                if seconds >= self._patience.silence and not self._stopping:
                    self._limited = Limited(reason, seconds=seconds)
            case Restart(launch=launch):
                self._launch, self._restart = launch, True
            case Over():
                self.over = True
            case _:
                self._tools += isinstance(step, ToolStarted) - isinstance(step, ToolUsed)
                self._tools = max(self._tools, 0)
                self.over = isinstance(step, Failed | Limited)
                return step
        return None

    def _send(self, line: bytes) -> Progress | None:
        try:
            if self._program:
                self._program.write(line)
        except Unavailable as error:
            self.over = True
            return Failed(f"{self._name}: {error.message}")
        return None

    # How long it takes.

    async def _wait(self, reading: "asyncio.Task[bytes]") -> None:
        """Until it says something, a question is decided, or there is no patience left."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting: set[asyncio.Task[Any]] = {reading, *self._questions.tasks}
        await asyncio.wait(
            waiting, timeout=self._timeout(began), return_when=asyncio.FIRST_COMPLETED
        )
        self._waited = 0.0 if self._questions.tasks else self._waited + loop.time() - began

    def _timeout(self, now: float) -> float | None:
        if self._lingers is not None:
            return max(self._lingers - now, 0.0)
        if self._questions.tasks:
            return None
        most = self._patience.tool if self._tools else self._patience.silence
        return max(most - self._waited, 0.0)

    def _out_of_patience(self) -> Iterable[Step]:
        if self._lingers is not None:
            return chain(self._conversation.ended(), [Over()])
        reason = f"{self._name} said nothing for {self._waited:,.0f} seconds, so it was ended."
        return chain(self._conversation.ended(), [Failed(reason)])

    # How it ends.

    async def _stop(self) -> None:
        """Ask the program to end the turn, and hear it out."""
        self._stopping = True
        self._hear(chain(self._steps, self._conversation.stop()))
        while not self.over and not self._restart:
            self._hear(await self.next())

    def _hear(self, steps: Iterable[Step]) -> None:
        told = self.carry_out(steps)
        self.unheard += [one for one in told if isinstance(one, Kept | Replied | Spent | ToolUsed)]

    async def _end_program(self) -> None:
        reading, self._reading = self._reading, None
        if reading:
            reading.cancel()
        if self._program:
            await self._program.end(self._patience.graces)
            self._program = None


class _Questions:
    """The open ones; several may be."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self._open: dict[str, asyncio.Task[Answer]] = {}

    @property
    def tasks(self) -> "list[asyncio.Task[Answer]]":
        return list(self._open.values())

    def ask(self, ask: str, question: Question) -> None:
        if ask not in self._open:
            self._open[ask] = asyncio.create_task(self._decision(question))

    def decided(self) -> tuple[str, Answer] | None:
        """A decision that was made; it is told once."""
        for ask, task in self._open.items():
            if task.done():
                del self._open[ask]
                return ask, task.result()
        return None

    def withdraw(self, ask: str) -> None:
        if task := self._open.pop(ask, None):
            task.cancel()

    def withdraw_all(self) -> None:
        for ask in list(self._open):
            self.withdraw(ask)

    async def _decision(self, question: Question) -> Answer:
        try:
            return await self._approver.ask(question)
        except AgentdError as error:
            return Answer(False, reason=error.message)


def _ending(code: int | None) -> str:
    """How a program ended that was not to end, by its exit code; None: it did not."""
    if code is None:
        return "closed its output in the middle of the turn"
    if code >= 0:
        return f"ended in the middle of the turn with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended in the middle of the turn by {name}"


def _without_secrets(words: str, launch: Launch) -> str:
    """The end of what a program said, without what only it was to know."""
    named = [
        value
        for name, value in launch.environment.items()
        if any(part in name.upper() for part in _SECRET_NAMES)
    ]
    for secret in filter(None, (launch.secret, *named)):
        words = words.replace(secret, "***")
    return plain(scrub("\n".join(map(_shortened_line, words.splitlines())))[-TOLD:])


def _shortened_line(line: str) -> str:
    """A line whose middle is left out when no person would read it.

    A program of JavaScript that breaks down shows the line where it did, and that line is all of
    its minified code.
    """
    if len(line) <= READABLE_LINE:
        return line
    half = READABLE_LINE // 2
    return f"{line[:half]} [… {len(line) - 2 * half:,} characters …] {line[-half:]}"
