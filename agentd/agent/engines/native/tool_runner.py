"""Runs the tool calls of a reply: reading ones in parallel, the rest in their order."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any

from msgspec import Struct, structs

from agentd.agent.engine import (
    ApprovalAnswer,
    Approver,
    EngineEvent,
    Question,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.engines.native.job import NativeJob
from agentd.agent.engines.native.opening import NO_RESULT
from agentd.agent.engines.native.project_knowledge import render_instructions
from agentd.agent.engines.native.subtask import SubTaskReport
from agentd.agent.engines.native.tool_calls import (
    AnyUse,
    InvalidToolCall,
    describe_input,
    list_paths,
    parse_call,
    parse_mcp_call,
    render_mcp_result,
    render_result,
    summarize_mcp_result,
    summarize_result,
)
from agentd.agent.engines.native.turn import split_into_batches
from agentd.agent.hooks.turn_hooks import HookVerdict
from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.agent.text import sanitize
from agentd.agent.tools.model import RunCommand, RunTask, ToolUse
from agentd.agent.tools.toolbox import Toolbox, get_diff, has_succeeded
from agentd.core.errors import AgentdError
from agentd.llm.conversation import ContentPart, ReplyBuilder, TextPart, ToolResult

_LONGEST_WHY = 500
_LONGEST_REPORT = 4_000
"""Characters of a sub-task's reply that the history shows."""


class ToolOutcome(Struct, frozen=True):
    """The outcome of a call: short for the history, complete for the model."""

    short: str
    content: tuple[ContentPart, ...]
    failed: bool = False
    ok: bool = False
    diff: str = ""
    use: ToolUse | McpToolUse | None = None
    """The use of the tool where hooks have given it another input."""


class ToolRunner:
    """Runs tool calls with ``tools``, and sub-tasks with ``run_task``."""

    def __init__(
        self,
        tools: Toolbox,
        run_task: Callable[[RunTask, NativeJob, str], Awaitable[SubTaskReport]],
    ) -> None:
        self._numbers = count(1)
        self._tools = tools
        self._run_task = run_task

    async def use_all(
        self, job: NativeJob, draft: ReplyBuilder
    ) -> AsyncGenerator[EngineEvent, None]:
        """Run all calls of a reply, and add their results to the turn."""
        uses: list[AnyUse] = [
            parse_mcp_call(call) if job.mcp.has(call.name) else parse_call(call, job.tools)
            for call in draft.calls
        ]
        why = sanitize(draft.text.strip()[-_LONGEST_WHY:])
        outcomes: list[ToolOutcome] = []
        try:
            for batch in split_into_batches(uses, job.mcp):
                ids = [self._make_id(use) for use in batch]
                for use, call in zip(batch, ids, strict=True):
                    yield ToolStarted(use.name, describe_input(use), call)
                tasks = [
                    asyncio.create_task(self._use(use, job, why, call))
                    for use, call in zip(batch, ids, strict=True)
                ]
                async with aclosing(_follow(tasks, job)) as events:
                    async for event in events:
                        yield event
                used = [task.result().use or use for use, task in zip(batch, tasks, strict=True)]
                done = [
                    await _add_instructions(use, task.result(), job)
                    for use, task in zip(used, tasks, strict=True)
                ]
                outcomes += done
                for use, came, call in zip(used, done, ids, strict=True):
                    yield ToolUsed(
                        use.name, describe_input(use), came.short, came.ok, came.diff, call
                    )
        finally:  # also when the turn is stopped: the next one knows what was done
            outcomes += [_fail(NO_RESULT)] * (len(uses) - len(outcomes))
            results = [
                ToolResult(call.id, came.content, came.failed)
                for call, came in zip(draft.calls, outcomes, strict=True)
            ]
            job.turn.add_tool_results(uses, results)

    def _make_id(self, use: AnyUse) -> str:
        return f"{use.name} {next(self._numbers)}" if isinstance(use, RunTask) else ""

    async def _use(self, use: AnyUse, job: NativeJob, why: str, call: str) -> ToolOutcome:
        if isinstance(use, InvalidToolCall):
            return _fail(use.why)
        verdict = await job.hooks.before_tool(use, job.left)
        use = verdict.use or use
        came = await self._use_as_judged(use, verdict, job, why, call)
        return structs.replace(came, use=verdict.use)

    async def _use_as_judged(
        self,
        use: ToolUse | McpToolUse,
        verdict: HookVerdict,
        job: NativeJob,
        why: str,
        call: str,
    ) -> ToolOutcome:
        """Run a tool as the hooks before it decided, and the hooks after it."""
        if verdict.blocked:
            return _fail(verdict.blocked)
        watch: Approver = job.watch
        if verdict.ask:
            question = Question("other", use.name, describe_input(use), why, verdict.ask)
            answer = await watch.ask(question)
            if not answer.allowed:
                return _fail(f"This was not allowed: {answer.reason}")
        if verdict.ask or verdict.allowed:
            watch = _GrantingApprover(watch)
        came = await self._run_tool(use, job, watch, why, call)
        text = "\n".join(part.text for part in came.content if isinstance(part, TextPart))
        hook_messages = await job.hooks.after_tool(use, text, job.left, ok=came.ok)
        notes = tuple(map(TextPart, (*verdict.context, *hook_messages)))
        return structs.replace(came, content=(*came.content, *notes))

    async def _run_tool(
        self, use: ToolUse | McpToolUse, job: NativeJob, watch: Approver, why: str, call: str
    ) -> ToolOutcome:
        if isinstance(use, RunCommand):
            use = structs.replace(use, seconds=max(min(use.seconds, int(job.left)), 1))
        if isinstance(use, RunTask):
            return _report(await self._run_task(use, job, call))
        approver = _NotingApprover(watch)
        if isinstance(use, McpToolUse):
            return await _use_mcp_tool(use, job, approver, why)
        try:
            brought = await self._tools.use(use, approver, job.assignment.turn_tag, why)
        except AgentdError as error:
            return _fail(error.message)
        return ToolOutcome(
            summarize_result(brought),
            (*render_result(brought), *approver.render_notes()),
            ok=has_succeeded(brought),
            diff=get_diff(brought),
        )


async def _use_mcp_tool(
    use: McpToolUse, job: NativeJob, approver: "_NotingApprover", why: str
) -> ToolOutcome:
    try:
        brought = await job.mcp.use(use, approver, why)
    except AgentdError as error:
        return _fail(error.message)
    return ToolOutcome(
        summarize_mcp_result(brought),
        (*render_mcp_result(brought), *approver.render_notes()),
        failed=brought.failed,
        ok=not brought.failed,
    )


async def _follow(
    tasks: Sequence["asyncio.Task[ToolOutcome]"], job: NativeJob
) -> AsyncGenerator[EngineEvent, None]:
    """Yield the events of sub-tasks until all tools have ended; closing ends the tools."""
    waiting: set[asyncio.Task[Any]] = {*tasks}
    news = asyncio.create_task(job.events.get()) if job.events and not job.parent else None
    try:
        while waiting:
            wanted = {*waiting, *([news] if news else [])}
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            waiting = {task for task in waiting if not task.done()}
            if news and job.events and news.done():
                event, news = news.result(), asyncio.create_task(job.events.get())
                yield event
        for event in job.take_events():
            yield event
    finally:
        if news and job.events and news.done():
            job.events.put_nowait(news.result())
        ended: list[asyncio.Task[Any]] = [*tasks, *([news] if news else [])]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)


def _report(found: SubTaskReport) -> ToolOutcome:
    counted = f"{found.uses} uses of tools"
    short = f"{counted}\n\n{sanitize(found.reply[:_LONGEST_REPORT])}"
    if found.problem:
        text = f"The helper did not come to its end: {found.problem}\nIts last words: {found.reply}"
        return ToolOutcome(f"failed: {found.problem} {short}", (TextPart(text),), failed=True)
    return ToolOutcome(short, (TextPart(found.reply),), ok=True)


async def _add_instructions(use: AnyUse, came: ToolOutcome, job: NativeJob) -> ToolOutcome:
    """Add to a result what the project says of the folders that it has to do with."""
    if came.failed or isinstance(use, InvalidToolCall | McpToolUse):
        return came
    try:
        text = render_instructions(await job.knowledge.read_for(list_paths(use)))
    except AgentdError as error:  # the disk or the network fails
        text = f"[The project's instructions for this place are missing: {error.message}]"
    return structs.replace(came, content=(*came.content, TextPart(text))) if text else came


class _GrantingApprover:
    """Does not ask again about what hooks, or a person whom they asked, have allowed."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Return the decision."""
        return await self._approver.ask(structs.replace(question, granted=True))


class _NotingApprover:
    """Keeps what a person says to what is allowed, for the model to read."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver
        self._notes: list[str] = []

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Return the decision."""
        answer = await self._approver.ask(question)
        if answer.allowed and answer.reason and question.kind != "question":
            self._notes.append(answer.reason)
        return answer

    def render_notes(self) -> tuple[TextPart, ...]:
        """Return the notes as text."""
        return tuple(
            TextPart(f"[The person allowed this and says: {note}]") for note in self._notes
        )


def _fail(why: str) -> ToolOutcome:
    return ToolOutcome(f"failed: {sanitize(why)}", (TextPart(why),), failed=True)
