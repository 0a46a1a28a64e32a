"""Sub-tasks: a conversation of its own that a running turn starts, and whose end it reads.

A sub-task has the turn's model, approvals and processes, and tools that only read or all but a few.
It has a budget of steps and, if the model wants, of money; the turn's limits of time and money hold
for both together. It knows nothing of the turn but what its prompt says; nothing of it is kept but
its reply.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import get_args

from msgspec import structs

from agentd.agent.engine import (
    EngineEvent,
    RateLimited,
    ReplyCompleted,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    UsageReported,
)
from agentd.agent.engines.native.job import NativeJob, TranscriptKeeper
from agentd.agent.engines.native.opening import build_initial_messages
from agentd.agent.engines.native.tool_calls import build_tool_definitions
from agentd.agent.engines.native.transcript_file import KeptTranscript, NoTranscripts
from agentd.agent.engines.native.turn import NativeTurn, TurnLimits
from agentd.agent.mcp_servers.turn_tools import NoMcpTools
from agentd.agent.tools.model import (
    TOOLS,
    AskPerson,
    FetchPage,
    Reading,
    RunTask,
    ToolUse,
    UpdateTodos,
)

_ROLE = """\

This is a sub-task of a larger work. Nobody answers questions; decide yourself. Your last reply is
all that is read of it: say there what was asked for, with paths, lines and exact values, and what
you did not find or do."""

ALL_TOOLS: Mapping[str, type[ToolUse]] = {
    name: tool for name, tool in TOOLS.items() if tool not in (RunTask, AskPerson, UpdateTodos)
}
READING_TOOLS: Mapping[str, type[ToolUse]] = {
    name: tool for name, tool in TOOLS.items() if tool is FetchPage or tool in get_args(Reading)
}


def build_child_job(use: RunTask, parent: NativeJob) -> NativeJob:
    """Return the job of a sub-task."""
    assignment = structs.replace(
        parent.assignment,
        prompt=use.prompt,
        images=(),
        history=(),
        missed=(),
        message=0,
        is_retry=False,
        output_schema="",
    )
    mcp = parent.mcp if use.tools == "all" else NoMcpTools()
    tools = ALL_TOOLS if use.tools == "all" else READING_TOOLS
    turn = NativeTurn(
        assignment,
        parent.turn.system + _ROLE,
        build_tool_definitions(tools) + mcp.definitions,
        TurnLimits(use.steps, parent.longest, Decimal(str(use.cost)) if use.cost else None),
        parent.turn.prices,
        build_initial_messages(assignment),
        cache_key=f"{parent.cache_key}-task",
    )
    turn.left_out |= parent.turn.left_out
    keeper = TranscriptKeeper(NoTranscripts(), assignment, KeptTranscript())
    return structs.replace(
        parent,
        assignment=assignment,
        turn=turn,
        keeper=keeper,
        knowledge=parent.knowledge.fork(),
        events=None,
        tools=tools,
        mcp=mcp,
        parent=parent.turn,
    )


class SubTaskReport:
    """The result of a sub-task: its uses of tools for the history, its reply for the model.

    ``call`` is the id of the use of a tool that started it.
    """

    def __init__(self, call: str = "") -> None:
        self._call = call
        self.reply = ""
        self.problem = ""
        self.uses = 0

    def handle(self, event: EngineEvent) -> EngineEvent | None:
        """Take in an event of the sub-task; return what the turn tells of it."""
        match event:
            case ReplyCompleted():
                self.reply = event.text
                return UsageReported(event.usage, event.cost)
            case ToolUsed():
                self.uses += 1
                return structs.replace(event, parent=self._call)
            case ToolStarted():
                return structs.replace(event, parent=self._call)
            case UsageReported():
                return event
            case TurnFailed() | RateLimited():
                self.problem = event.reason
        return None
