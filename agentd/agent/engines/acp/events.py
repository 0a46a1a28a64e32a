"""Turns ACP updates into engine events: replies assembled from chunks, tools."""

from collections.abc import Iterator

from agentd.agent.engine import (
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
)
from agentd.agent.engines.acp.tools import AcpTool, render_block
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import Step
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.plan import PLAN_TOOL, PlanStep, make_step, render_plan, summarize_plan
from agentd.agent.turn import LONGEST_REPLY

INTERRUPTED = "Interrupted."


class AcpEvents:
    """The updates of a turn. A reply is complete when a tool, another message or the end follows.

    An agent that retries after a broken stream reports both attempts as one message (opencode
    does), and the protocol cannot retract the first one: both are kept.
    """

    def __init__(self, bounds: WorkspaceBounds) -> None:
        self._bounds = bounds
        self._pieces: list[str] = []
        self._length = 0
        self._message = ""
        self._tools: dict[str, AcpTool] = {}
        self._started: dict[str, str] = {}
        """The names of tools as reported at their start: an agent may change a title later."""
        self._plan: list[PlanStep] = []
        self._done: set[str] = set()

    def on_update(self, update: object) -> Iterator[Step]:
        """Report what an update adds; updates about neither replies nor tools are ignored."""
        match get_text(update, "sessionUpdate"):
            case "agent_message_chunk":
                yield from self._add_chunk(update)
            case "agent_thought_chunk" if thought := render_block(get_path(update, "content")):
                yield ThinkingProgress(thought)
            case "tool_call" | "tool_call_update":
                yield from self._update_tool(update)
            case "plan":
                yield from self._report_plan(list(iter_list(update, "entries")))

    def get_tool(self, call: object) -> AcpTool:
        """Return the tool that needs approval, with everything known about it."""
        return self._tools.get(get_text(call, "toolCallId"), AcpTool()).with_update(call)

    def flush_tools(self) -> Iterator[Step]:
        """Report tools that were still running as interrupted."""
        for number, tool in self._tools.items():
            if number in self._started:
                name = self._started[number]
                yield ToolUsed(name, tool.describe_input(self._bounds), INTERRUPTED, ok=False)
        self._tools.clear()

    def take_reply(self) -> str:
        """Return the reply written so far, and clear it."""
        whole = "".join(self._pieces).strip()
        self._pieces.clear()
        self._length = 0
        return whole

    def _add_chunk(self, update: object) -> Iterator[Step]:
        message = get_text(update, "messageId")
        if message != self._message:
            self._message = message
            yield from self._flush_reply()
        piece = render_block(get_path(update, "content"))
        if piece:
            self._length += len(piece)
            if self._length <= 2 * LONGEST_REPLY:  # the turn is ended long before
                self._pieces.append(piece)
            yield ReplyDelta(piece)

    def _update_tool(self, update: object) -> Iterator[Step]:
        number = get_text(update, "toolCallId")
        if not number or number in self._done:
            return
        tool = self._tools[number] = self._tools.get(number, AcpTool()).with_update(update)
        if tool.status in ("", "pending"):
            return  # its input is often reported only when it begins
        if tool.todos and number not in self._started:
            yield from self._report_plan(tool.todos)
            self._done |= {number} if tool.over else set()
            return
        if number not in self._started:
            self._started[number] = tool.name
            yield from self._flush_reply()
            yield ToolStarted(tool.name, tool.describe_input(self._bounds))
        if tool.over:
            self._done.add(number)
            del self._tools[number]
            ok = tool.status != "failed"
            yield ToolUsed(
                self._started[number],
                tool.describe_input(self._bounds),
                tool.describe_outcome(),
                ok,
                tool.render_diff(self._bounds) if ok else "",
            )

    def _report_plan(self, entries: list[object]) -> Iterator[Step]:
        """Report a plan that has changed; opencode has a tool for it, others an update."""
        steps = [make_step(get_text(one, "content"), get_text(one, "status")) for one in entries]
        if steps and steps != self._plan:
            self._plan = steps
            yield from self._flush_reply()
            yield ToolUsed(PLAN_TOOL, summarize_plan(steps), render_plan(steps))

    def _flush_reply(self) -> Iterator[Step]:
        if whole := self.take_reply():
            yield ReplyCompleted(whole)
