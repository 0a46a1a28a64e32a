"""The embedded engine: no language model, no network, and it never pretends otherwise.

It understands a documented set of requests about the workspace (``/help`` lists them), uses the
tools for them (after asking, where that is due), and answers in Markdown. This is the loop that
carries the tools' work between ``agentd.agent.offline.answers`` and the world.
"""

from collections.abc import AsyncGenerator

from agentd.agent.engine import (
    Approver,
    Assignment,
    Failed,
    Progress,
    Replied,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.offline.answers import Answer, answer
from agentd.agent.offline.understanding import requests_in
from agentd.agent.results import ToolResult
from agentd.agent.text import plain
from agentd.agent.toolbox import Toolbox
from agentd.agent.tools import ToolUse, told
from agentd.errors import AgentdError, Unavailable


class OfflineEngine:
    """Answers from the workspace itself; its replies cost nothing."""

    name = "offline"

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools

    async def run(
        self, assignment: Assignment, approver: Approver
    ) -> AsyncGenerator[Progress, None]:
        """Each tool use as it is done, then one reply to everything that the prompt asks.

        What cannot be done is told in the reply; only when the workspace or a needed program
        is not there does the turn fail.
        """
        parts: list[str] = []
        failure = None
        async with self._tools.turn(assignment.turn):
            try:
                for request in requests_in(assignment.prompt):
                    steps = answer(request)
                    step = _go_on(steps, None)
                    while not isinstance(step, str):
                        yield ToolStarted(step.name, plain(told(step)))
                        brought = await self._use(step, assignment, approver)
                        yield ToolUsed(step.name, plain(told(step)), plain(_outcome(brought)))
                        step = _go_on(steps, brought)
                    parts.append(step)
            except Unavailable as error:
                failure = Failed(error.message)
        if parts:
            yield Replied("\n\n---\n\n".join(parts))
        if failure:
            yield failure

    async def _use(
        self, use: ToolUse, assignment: Assignment, approver: Approver
    ) -> ToolResult | AgentdError:
        """What the tool brought, or what it raised."""
        try:
            return await self._tools.use(use, approver, assignment.turn)
        except AgentdError as error:
            return error


def _go_on(steps: Answer, brought: ToolResult | AgentdError | None) -> ToolUse | str:
    """The next tool that an answer needs, or the finished answer; ``Unavailable`` is raised."""
    try:
        if isinstance(brought, AgentdError):
            return steps.throw(brought)
        return steps.send(brought)
    except StopIteration as end:
        return str(end.value)
    except Unavailable:
        raise
    except AgentdError as error:
        return f"I could not do that: {plain(error.message)}"


def _outcome(brought: ToolResult | AgentdError) -> str:
    return f"failed: {brought.message}" if isinstance(brought, AgentdError) else str(brought)
