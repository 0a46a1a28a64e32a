"""The loop of the native engine: ask the model and run its tool calls until it is done.

``turn`` decides what to ask and when to end, ``supplier`` how to handle problems; this module
does the waiting. Closing the generator leaves every ``async with``: the supplier's connection is
closed, and a command line is killed with all its children.

What the model knows is kept step by step (``transcript_file``): before its tools run, when they
have ended, and at the end. A turn that is stopped or killed thus leaves what it did.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Literal

from msgspec import structs

from agentd.agent.engine import (
    Approver,
    EngineEvent,
    RateLimited,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
    UsageReported,
)
from agentd.agent.engines.native.compaction import list_tool_choices
from agentd.agent.engines.native.job import NativeJob, TimedApprover, TranscriptKeeper
from agentd.agent.engines.native.model_client import Attempt, ModelClient
from agentd.agent.engines.native.opening import has_prompt, open_conversation, render_process_news
from agentd.agent.engines.native.project_knowledge import ProjectKnowledge
from agentd.agent.engines.native.subtask import SubTaskReport, build_child_job
from agentd.agent.engines.native.supplier import (
    Extra,
    LeaveOut,
    Recovery,
    RetryAfter,
    RetryPolicy,
    SupplierLookup,
    TrimConversation,
)
from agentd.agent.engines.native.system_prompt import build_system_prompt
from agentd.agent.engines.native.tool_calls import build_tool_definitions
from agentd.agent.engines.native.tool_runner import ToolRunner
from agentd.agent.engines.native.transcript_file import NoTranscripts, TranscriptStore
from agentd.agent.engines.native.turn import NativeTurn, TurnLimits
from agentd.agent.engines.native.web_search import describe_citations
from agentd.agent.hooks.turn_hooks import TurnHooks
from agentd.agent.mcp_servers.turn_tools import McpTools
from agentd.agent.text import sanitize
from agentd.agent.tools.model import RunTask
from agentd.agent.tools.toolbox import Toolbox
from agentd.core.clock import Clock, SystemClock
from agentd.core.errors import AgentdError, Forbidden, NotFound
from agentd.llm.conversation import ReplyFinished
from agentd.llm.output_schema_check import explain_mismatch
from agentd.llm.price import NO_USAGE, Prices
from agentd.llm.upstream.protocol import Upstream

COMPACT = "compact"
"""The name that the history gives to the summary of a conversation."""

CONNECT = "mcp"
"""The name that the history gives to the start of MCP servers."""

_PATIENCE = RetryPolicy()
_FULL = "The conversation fills the model's context, so it is summed up."
_NO_SUMMARY = "failed: there is no summary; the oldest results are left out instead"


class NativeEngine:
    """Runs turns with any model of the suppliers.

    ``prices`` returns the prices of a supplier's model, None if unknown; ``limits`` those of new
    turns. With ``dated`` the system prompt has today's date.
    """

    name = "native"

    def __init__(
        self,
        tools: Toolbox,
        upstream: Upstream,
        suppliers: SupplierLookup,
        prices: Callable[[str, str], Prices | None],
        *,
        transcripts: TranscriptStore | None = None,
        limits: Callable[[], TurnLimits] = TurnLimits,
        retry_policy: RetryPolicy = _PATIENCE,
        clock: Clock | None = None,
        dated: bool = False,
    ) -> None:
        self._tools = tools
        self._runner = ToolRunner(tools, self._run_task)
        self._client = ModelClient(upstream, retry_policy.timeouts)
        self._suppliers = suppliers
        self._prices = prices
        self._transcripts = transcripts or NoTranscripts()
        self._limits = limits
        self._retry_policy = retry_policy
        self._clock = clock or SystemClock()
        self._dated = dated
        self._refused: defaultdict[tuple[str, str], set[Extra]] = defaultdict(set)
        """The parts of requests that suppliers' models refused."""

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Ask the model and run its tool calls until it is done or a limit is reached."""
        try:
            job = await self._prepare(assignment, approver)
        except AgentdError as error:
            yield TurnFailed(error.message)
            return
        try:
            for event in (*_tell_failures(job.mcp), *job.take_events()):
                yield event
            async with (
                self._tools.open_turn(assignment.turn_tag),
                aclosing(self._run_steps(job)) as steps,
            ):
                async for progress in steps:
                    yield progress
        except asyncio.CancelledError:
            for event in job.take_events():
                yield event
            for attempt in job.asking:
                usage = attempt.usage
                yield UsageReported(usage, job.add_cost(usage, attempt.draft.searches))
                if attempt.own:
                    job.turn.keep_words(attempt.draft)
            await job.save()
            raise
        finally:
            job.mcp.close()

    async def _run_steps(self, job: NativeJob) -> AsyncGenerator[EngineEvent, None]:
        await job.save()
        while not (reason := job.explain_limit()):
            if job.turn.is_full:
                async with aclosing(self._compact(job)) as summing:
                    async for progress in summing:
                        yield progress
            async with aclosing(self._run_step(job)) as step:
                async for progress in step:
                    yield progress
                    if isinstance(progress, RateLimited | TurnFailed):
                        return
            if job.turn.done and (why := await self._find_reason_to_go_on(job)):
                job.turn.go_on(why)
            for event in job.take_events():
                yield event
            if job.turn.done and not await _is_sent_back(job):
                await job.save(ended=job.turn.replied)
                if not job.turn.replied:
                    yield TurnFailed(f"{job.assignment.model} ended the turn without a reply.")
                return
            await job.save()
            if await job.mcp.refresh():
                job.turn.offer_tools(build_tool_definitions(job.tools) + job.mcp.definitions)
        yield TurnFailed(reason)

    async def _find_reason_to_go_on(self, job: NativeJob) -> str:
        """Return what hooks tell a model that has ended its turn; empty: it may end."""
        if job.parent or not job.turn.replied:
            return ""
        return await job.hooks.before_end(job.turn.last_words, job.left)

    async def _ask_hooks(self, hooks: TurnHooks, assignment: TurnRequest, seconds: float) -> str:
        """Return the prompt with what the hooks add; ``Forbidden`` if one refuses it."""
        async with self._tools.open_turn(assignment.turn_tag):
            verdict = await hooks.before_prompt(assignment.prompt, seconds)
        if verdict.blocked:
            raise Forbidden(f"The prompt was not sent. {verdict.blocked}")
        return "\n\n".join((assignment.prompt, *verdict.context))

    async def _prepare(self, assignment: TurnRequest, approver: Approver) -> NativeJob:
        if not assignment.model:
            raise NotFound("No model is chosen: choose one of config/models.yml for this chat.")
        access = await self._suppliers(assignment.supplier, assignment.model)
        watch = TimedApprover(approver, self._clock)
        knowledge = ProjectKnowledge(self._tools.read_unasked)
        project = await knowledge.read_root()
        prompt = build_system_prompt(assignment, project, self._clock.now() if self._dated else "")
        limits = self._limits()
        hooks = await self._tools.open_hooks(assignment, watch)
        kept = await self._transcripts.load(assignment.chat_id)
        typed = assignment.prompt
        if not has_prompt(assignment, kept):
            typed = await self._ask_hooks(hooks, assignment, limits.seconds)
        images = await asyncio.to_thread(self._tools.read_images, assignment.prompt)
        assignment = structs.replace(assignment, prompt=typed, images=images)
        processes = self._tools.take_process_news(assignment.turn_tag)
        opened = open_conversation(assignment, kept, render_process_news(processes))
        knowledge.mark_shown(opened.messages)
        prices = self._prices(assignment.supplier, assignment.model)
        keeper = TranscriptKeeper(self._transcripts, assignment, kept)
        mcp = await self._tools.open_mcp(assignment.chat_id, watch)
        tools = build_tool_definitions() + mcp.definitions
        turn = NativeTurn(assignment, prompt, tools, limits, prices, opened)
        turn.left_out |= self._refused[assignment.supplier, assignment.model]
        job = NativeJob(assignment, access, turn, watch, keeper, knowledge, limits.seconds)
        return structs.replace(job, events=asyncio.Queue(), mcp=mcp, hooks=hooks)

    async def _run_task(self, use: RunTask, parent: NativeJob, call: str) -> SubTaskReport:
        """Run a sub-task to its end; its events are reported among those of the turn."""
        assert parent.events
        child = build_child_job(use, parent)
        report = SubTaskReport(call)
        async with aclosing(self._run_steps(child)) as steps:
            async for progress in steps:
                if event := report.handle(progress):
                    parent.events.put_nowait(event)
        return report

    async def _run_step(self, job: NativeJob) -> AsyncGenerator[EngineEvent, None]:
        """Get one reply of the model and run its tool calls, or report what ends the turn."""
        whole = None
        async with aclosing(self._get_reply(job)) as reply:
            async for progress in reply:
                if isinstance(progress, Attempt):
                    whole = progress
                else:
                    yield progress
        if whole is None:
            return
        draft = whole.draft
        if draft.cited:
            yield describe_citations(draft.cited.values())
        job.asking.remove(whole)  # from here on it is told with its reply
        job.turn.add_reply(draft)
        if draft.text.strip():
            yield ReplyCompleted(draft.text, draft.usage, whole.price)
        elif draft.usage != NO_USAGE:
            yield UsageReported(draft.usage, whole.price)
        if draft.calls:
            await job.save()
            async with aclosing(self._runner.use_all(job, draft)) as used:
                async for event in used:
                    yield event
        elif isinstance(draft.end, ReplyFinished) and draft.end.reason == "refused":
            yield TurnFailed(
                f"{job.assignment.model}, or a filter of its supplier, refused to continue."
            )

    async def _get_reply(self, job: NativeJob) -> AsyncGenerator[EngineEvent | Attempt, None]:
        """Ask until there is a complete reply, yielded last, or report what ends the turn."""
        recovery = Recovery(
            job.access,
            job.assignment.model,
            self._retry_policy,
            self._clock,
            extras=job.turn.extras,
        )
        while job.left > 0:
            conversation = job.build_conversation()
            attempt = Attempt(job.turn.asked_tokens, own=job.parent is None)
            job.asking.append(attempt)
            sending = self._client.send(
                job.access, job.assignment.model, conversation, job.left, attempt
            )
            async with aclosing(sending) as words:
                async for wrote in words:
                    yield wrote
            used = attempt.usage
            attempt.price = job.add_cost(used, attempt.draft.searches)
            if attempt.problem is None:
                yield attempt
                return
            job.asking.remove(attempt)
            if used != NO_USAGE or attempt.price:
                yield UsageReported(used, attempt.price)
            match recovery.decide(attempt.problem, shown=bool(attempt.draft.text)):
                case RetryAfter(seconds):
                    await asyncio.sleep(min(seconds, job.left))
                case TrimConversation():
                    job.turn.halve_budget()
                case LeaveOut(extra):
                    job.turn.left_out.add(extra)
                    if extra != "images":  # it may have been for this one image
                        self._refused[job.assignment.supplier, job.assignment.model].add(extra)
                case over:
                    yield over
                    return

    async def _compact(self, job: NativeJob) -> AsyncGenerator[EngineEvent, None]:
        """Let the model sum up the conversation; where it cannot, leave it as it is."""
        yield ToolStarted(COMPACT, _FULL)
        summary = ""
        for tool_choice in list_tool_choices(job.access.dialect):
            attempt = await self._ask_for_summary(job, tool_choice)
            if (used := attempt.usage) != NO_USAGE:
                yield UsageReported(used, job.add_cost(used, attempt.draft.searches))
            if attempt.problem or not attempt.draft.calls:
                summary = "" if attempt.problem else attempt.draft.text.strip()
                break
        job.sum_up(summary)
        await job.save()
        yield ToolUsed(COMPACT, _FULL, sanitize(summary) or _NO_SUMMARY, ok=bool(summary))

    async def _ask_for_summary(
        self, job: NativeJob, tool_choice: Literal["auto", "none"]
    ) -> Attempt:
        conversation = job.turn.build_summary_request(tool_choice)
        attempt = Attempt(job.turn.asked_tokens, own=False)
        job.asking.append(attempt)
        sending = self._client.send(
            job.access, job.assignment.model, conversation, job.left, attempt
        )
        async with aclosing(sending) as words:
            async for _ in words:
                pass
        job.asking.remove(attempt)
        return attempt


async def _is_sent_back(job: NativeJob) -> bool:
    """Send a reply back to the model that does not fit the output schema, if it may try again."""
    schema = job.assignment.output_schema
    if not schema or not job.turn.last_reply:
        return False
    mismatch = await explain_mismatch(schema, job.turn.last_reply)
    return bool(mismatch) and job.turn.demand_schema(mismatch)


def _tell_failures(mcp: McpTools) -> Iterator[EngineEvent]:
    """Yield for the history which servers cannot be used in this turn, or in part, and why."""
    for server, problem in mcp.failures:
        yield ToolStarted(CONNECT, server)
        yield ToolUsed(CONNECT, server, f"failed: {sanitize(problem)}", ok=False)
    for server, note in mcp.notes:
        yield ToolStarted(CONNECT, server)
        yield ToolUsed(CONNECT, server, note)
