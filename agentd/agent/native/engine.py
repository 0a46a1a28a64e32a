"""The loop of the native engine: ask the model, do what it asks for, until it is done.

``turn`` says what to ask and when to end, ``supplier`` what to do about trouble; here is the
waiting. Closing the generator leaves every ``async with`` on the way: the supplier's connection
is cut, and a command line is killed with all its children.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from decimal import Decimal

from msgspec import Struct, structs

from agentd.agent.engine import (
    Answer,
    Approver,
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
from agentd.agent.native.memory import Brought, read_memory, write_memory
from agentd.agent.native.opening import ADVICE, system
from agentd.agent.native.showing import Misuse, input_of, offered, outcome, shown, understood
from agentd.agent.native.supplier import (
    Patience,
    Recovery,
    SupplierAccess,
    Suppliers,
    Trim,
    Trouble,
    Wait,
)
from agentd.agent.native.turn import Limits, Turn, batches
from agentd.agent.results import FileText
from agentd.agent.text import plain
from agentd.agent.toolbox import Toolbox
from agentd.agent.tools import ReadFile, RunCommand, ToolUse
from agentd.clock import Clock, SystemClock
from agentd.errors import (
    AgentdError,
    BadRequest,
    Forbidden,
    NotFound,
    SupplierUnreachable,
    TooLarge,
)
from agentd.proxy.dialects import anthropic, openai_chat, openai_responses
from agentd.proxy.dialects.conversation import (
    DialectName,
    Draft,
    Event,
    Finished,
    SupplierError,
    Text,
    TextDelta,
    ToolResult,
)
from agentd.proxy.dialects.dialect import Dialect, address
from agentd.proxy.dialects.failure import failure
from agentd.proxy.price import NOTHING, Prices
from agentd.proxy.upstream import Request, Response, Upstream

DIALECTS: Mapping[DialectName, Dialect] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
}

_LARGEST_ERROR = 256 * 1024
_LONGEST_WHY = 500
_DRAIN = 0.5
_PATIENCE = Patience()


class NativeEngine:
    """Carries out turns with any model that one of the suppliers has.

    ``prices`` tells those of a supplier's model, None where they are not known, ``limits`` how
    far the turns that begin may go. With ``dated``
    the model is told today's date.
    """

    name = "native"

    def __init__(
        self,
        tools: Toolbox,
        upstream: Upstream,
        suppliers: Suppliers,
        prices: Callable[[str, str], Prices | None],
        *,
        limits: Callable[[], Limits] = Limits,
        patience: Patience = _PATIENCE,
        clock: Clock | None = None,
        dated: bool = False,
    ) -> None:
        self._tools = tools
        self._upstream = upstream
        self._suppliers = suppliers
        self._prices = prices
        self._limits = limits
        self._patience = patience
        self._clock = clock or SystemClock()
        self._dated = dated

    async def run(
        self, assignment: Assignment, approver: Approver
    ) -> AsyncGenerator[Progress, None]:
        """Ask the model and use tools for it until it has no more to do, or a limit is reached."""
        try:
            job = await self._begin(assignment, approver)
        except AgentdError as error:
            yield Failed(error.message)
            return
        try:
            async with self._tools.turn(assignment.turn), aclosing(self._steps(job)) as steps:
                async for progress in steps:
                    if isinstance(progress, Limited | Failed):  # nothing is heard after these
                        for kept in job.memory():
                            yield kept
                    yield progress
            for kept in job.memory():
                yield kept
        except asyncio.CancelledError:
            for attempt in job.asking:
                usage = job.turn.used(attempt.draft)
                yield Spent(usage, job.turn.spend(usage))
            for kept in job.memory():
                yield kept
            raise

    async def _steps(self, job: "_Job") -> AsyncGenerator[Progress, None]:
        while not (reason := job.turn.end(job.seconds)):
            async with aclosing(self._step(job)) as step:
                async for progress in step:
                    yield progress
                    if isinstance(progress, Limited | Failed):
                        return
            if job.turn.done:
                if not job.turn.replied:
                    yield Failed(f"{job.assignment.model} ended the turn without a word.")
                return
        yield Failed(reason)

    async def _begin(self, assignment: Assignment, approver: Approver) -> "_Job":
        if not assignment.model:
            raise NotFound("No model is chosen: choose one of config/models.yml for this chat.")
        access = await self._suppliers(assignment.supplier)
        watch = _Watch(approver, self._clock)
        advice = None
        for name in ADVICE:
            with suppress(NotFound, BadRequest, Forbidden):
                found = await self._tools.use(ReadFile(name), watch)
                assert isinstance(found, FileText)
                advice = found
                break
        prompt = system(assignment, advice, self._clock.now() if self._dated else "")
        prices = self._prices(assignment.supplier, assignment.model)
        limits = self._limits()
        turn = Turn(assignment, prompt, offered(), limits, prices)
        return _Job(assignment, access, turn, watch, limits.seconds)

    async def _step(self, job: "_Job") -> AsyncGenerator[Progress, None]:
        """One reply of the model, and what it asks for; or what ends the turn."""
        whole = None
        async with aclosing(self._reply(job)) as told:
            async for progress in told:
                if isinstance(progress, _Attempt):
                    whole = progress
                else:
                    yield progress
        if whole is None:
            return
        draft = whole.draft
        job.turn.take(draft)
        if draft.text.strip():
            yield Replied(draft.text, draft.usage, whole.price)
        elif draft.usage != NOTHING:
            yield Spent(draft.usage, whole.price)
        if draft.calls:
            async with aclosing(self._use_tools(job, draft)) as used:
                async for progress in used:
                    yield progress
        elif isinstance(draft.end, Finished) and draft.end.reason == "refused":
            yield Failed(f"{job.assignment.model}, or a filter of its supplier, refused to go on.")

    async def _reply(self, job: "_Job") -> AsyncGenerator["Progress | _Attempt", None]:
        """Ask until there is a whole reply, which comes last; or what ends the turn."""
        recovery = Recovery(job.access, job.assignment.model, self._patience, self._clock)
        while job.left > 0:
            attempt = _Attempt()
            job.asking.append(attempt)
            async with aclosing(self._ask(job, attempt)) as words:
                async for wrote in words:
                    yield wrote
            attempt.price = job.turn.spend(attempt.draft.usage)
            job.asking.remove(attempt)
            if attempt.trouble is None:
                yield attempt
                return
            if attempt.draft.usage != NOTHING:
                yield Spent(attempt.draft.usage, attempt.price)
            match recovery.after(attempt.trouble, shown=bool(attempt.draft.text)):
                case Wait(seconds):
                    await asyncio.sleep(min(seconds, job.left))
                case Trim():
                    job.turn.halve()
                case over:
                    yield over
                    return

    async def _ask(self, job: "_Job", attempt: "_Attempt") -> AsyncGenerator[Wrote, None]:
        """One request; what came of it is in the attempt."""
        access = job.access
        dialect = DIALECTS[access.dialect]
        total = min(self._patience.timeouts.total, max(job.left, 1.0))
        try:
            request = Request(
                "POST",
                address(access.url, dialect.path(job.assignment.model)),
                dialect.headers(access.key),
                dialect.request(job.turn.conversation(), job.assignment.model),
                structs.replace(self._patience.timeouts, total=total),
            )
            async with (
                self._upstream.send(request) as response,
                aclosing(_events(dialect, response)) as events,
            ):
                async for event in events:
                    attempt.draft.add(event)
                    if isinstance(event, TextDelta):
                        yield Wrote(event.text)
        except SupplierUnreachable as error:
            attempt.broken = error
        except (BadRequest, TooLarge) as error:
            attempt.broken = SupplierError("invalid_request", error.message)

    async def _use_tools(self, job: "_Job", draft: Draft) -> AsyncGenerator[Progress, None]:
        """All calls of a reply: those that read beside each other, the rest in their order."""
        uses = [understood(call) for call in draft.calls]
        why = plain(draft.text.strip()[-_LONGEST_WHY:])
        outcomes: list[_Outcome] = []
        for batch in batches(uses):
            for use in batch:
                yield ToolStarted(use.name, input_of(use))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._use(use, job, why)) for use in batch]
            for use, task in zip(batch, tasks, strict=True):
                outcomes.append(task.result())
                yield ToolUsed(use.name, input_of(use), outcomes[-1].short)
        results = [
            ToolResult(call.id, (Text(came.text),), came.failed)
            for call, came in zip(draft.calls, outcomes, strict=True)
        ]
        job.turn.give(uses, results)
        job.brought.extend(
            Brought(use.name, input_of(use), came.text)
            for use, came in zip(uses, outcomes, strict=True)
        )

    async def _use(self, use: ToolUse | Misuse, job: "_Job", why: str) -> "_Outcome":
        if isinstance(use, Misuse):
            return _Outcome(f"failed: {use.why}", use.why, failed=True)
        if isinstance(use, RunCommand):
            use = structs.replace(use, seconds=max(min(use.seconds, int(job.left)), 1))
        try:
            brought = await self._tools.use(use, job.watch, job.assignment.turn, why)
        except AgentdError as error:
            return _Outcome(f"failed: {plain(error.message)}", error.message, failed=True)
        return _Outcome(outcome(brought), shown(brought))


class _Watch:
    """Asks the approver, and knows how long the work took, without the time for answers."""

    def __init__(self, approver: Approver, clock: Clock) -> None:
        self._approver = approver
        self._clock = clock
        self._began = clock.monotonic()
        self._waited = 0.0

    async def ask(self, question: Question) -> Answer:
        asked = self._clock.monotonic()
        try:
            return await self._approver.ask(question)
        finally:
            self._waited += self._clock.monotonic() - asked

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._began - self._waited


class _Job(Struct, frozen=True):
    """A turn with all that it takes to carry it out."""

    assignment: Assignment
    access: SupplierAccess
    turn: Turn
    watch: _Watch
    longest: float
    asking: list["_Attempt"] = []
    """The request that is under way, if one is."""
    brought: list[Brought] = []
    """What the tools brought in this turn."""

    def memory(self) -> Iterator[Kept]:
        """Tell once what the chat's next turn is to know of this one and those before."""
        if self.brought:
            earlier = read_memory(self.assignment.memory)
            yield Kept(write_memory([*earlier, *self.brought]))
            self.brought.clear()

    @property
    def seconds(self) -> float:
        return self.watch.seconds

    @property
    def left(self) -> float:
        """Seconds until the turn's limit."""
        return max(self.longest - self.seconds, 0.0)


class _Outcome(Struct, frozen=True):
    """What came of a call: in short for the history, whole for the model."""

    short: str
    text: str
    failed: bool = False


class _Attempt:
    """One request and its answer, as far as it came."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.broken: Trouble | None = None
        self.price: Decimal | None = None

    @property
    def trouble(self) -> Trouble | None:
        """Why it is no whole reply; None when it is one."""
        if self.broken or isinstance(self.draft.end, Finished):
            return self.broken
        return self.draft.end or SupplierError("broken", "The answer ended too early")


async def _events(dialect: Dialect, response: Response) -> AsyncGenerator[Event, None]:
    """What an answer tells, whichever form it has."""
    if not 200 <= response.status < 300:
        yield failure(response.status, response.headers, await _beginning(response))
    elif "application/json" in response.headers.get("content-type", ""):
        for event in dialect.answer(await response.read()):
            yield event
    else:
        reader = dialect.reader()
        chunks = response.chunks()
        async for data in chunks:
            for event in reader.feed(data):
                if isinstance(event, Finished):
                    await _drained(chunks)
                yield event
                if isinstance(event, SupplierError):
                    return
        for event in reader.close():
            yield event


async def _drained(chunks: AsyncIterator[bytes]) -> None:
    """Wait a little for the body's end, so that the connection can be used again."""
    with suppress(TimeoutError, SupplierUnreachable):
        async with asyncio.timeout(_DRAIN):
            async for _ in chunks:
                pass


async def _beginning(response: Response) -> bytes:
    """The body of an error; what is larger than any error says nothing."""
    try:
        return await response.read(_LARGEST_ERROR)
    except TooLarge:
        return b""
