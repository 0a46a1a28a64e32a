"""The offline engine: no language model, no network.

It understands a documented set of requests about the workspace (``/help`` lists them), uses tools
for them (with approval where needed), and answers in Markdown. This module is the loop between
the tools and ``agentd.agent.engines.offline.answers``.
"""

from collections.abc import AsyncGenerator

from agentd.agent.engine import (
    Approver,
    EngineEvent,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)
from agentd.agent.engines.offline.answers import Answer, answer_request
from agentd.agent.engines.offline.understanding import parse_prompt
from agentd.agent.text import sanitize
from agentd.agent.tools.model import ToolUse, describe_arguments
from agentd.agent.tools.results import ToolResult
from agentd.agent.tools.toolbox import Toolbox, get_diff, has_succeeded
from agentd.core.errors import AgentdError, Unavailable

MOST_EARLIER = 10
"""Earlier prompts in which the request is looked for that ``and in src?`` repeats."""


class OfflineEngine:
    """Answers from the workspace itself; its replies cost nothing."""

    name = "offline"

    def __init__(self, tools: Toolbox) -> None:
        self._tools = tools

    async def run(
        self, assignment: TurnRequest, approver: Approver
    ) -> AsyncGenerator[EngineEvent, None]:
        """Report each tool use, then one reply to everything that the prompt asks.

        The reply says what cannot be done; the turn fails only when the workspace or a needed
        program is missing.
        """
        parts: list[str] = []
        failure = None
        async with self._tools.open_turn(assignment.turn_tag):
            try:
                earlier = [one.text for one in assignment.history if one.role == "user"]
                for request in parse_prompt(assignment.prompt, earlier[-MOST_EARLIER:]):
                    steps = answer_request(request)
                    step = _advance(steps, None)
                    while not isinstance(step, str):
                        yield ToolStarted(step.name, sanitize(describe_arguments(step)))
                        brought = await self._use_tool(step, assignment, approver)
                        yield ToolUsed(
                            step.name,
                            sanitize(describe_arguments(step)),
                            sanitize(_describe_outcome(brought)),
                            not isinstance(brought, AgentdError) and has_succeeded(brought),
                            "" if isinstance(brought, AgentdError) else get_diff(brought),
                        )
                        step = _advance(steps, brought)
                    parts.append(step)
            except Unavailable as error:
                failure = TurnFailed(error.message)
        if parts:
            yield ReplyCompleted("\n\n---\n\n".join(parts))
        if failure:
            yield failure

    async def _use_tool(
        self, use: ToolUse, assignment: TurnRequest, approver: Approver
    ) -> ToolResult | AgentdError:
        """Return the tool's result, or the error that it raised."""
        try:
            return await self._tools.use(use, approver, assignment.turn_tag)
        except AgentdError as error:
            return error


def _advance(steps: Answer, brought: ToolResult | AgentdError | None) -> ToolUse | str:
    """Return the next tool that an answer needs, or the answer; ``Unavailable`` is raised."""
    try:
        if isinstance(brought, AgentdError):
            return steps.throw(brought)
        return steps.send(brought)
    except StopIteration as end:
        return str(end.value)
    except Unavailable:
        raise
    except AgentdError as error:
        return f"I could not do that: {sanitize(error.message)}"


def _describe_outcome(brought: ToolResult | AgentdError) -> str:
    return f"failed: {brought.message}" if isinstance(brought, AgentdError) else str(brought)
