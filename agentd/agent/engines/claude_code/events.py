"""Turns Claude Code messages into engine events: replies with usage, tools."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from agentd.agent.engine import (
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    UsageReported,
)
from agentd.agent.engines.claude_code.plan import TASKS, TODOS, ClaudePlan
from agentd.agent.engines.claude_code.tools import (
    describe_outcome,
    describe_use,
    has_succeeded,
    render_diff,
)
from agentd.agent.engines.claude_code.usage import CallUsage
from agentd.agent.engines.external.common import COMPACTED, WorkspaceBounds
from agentd.agent.engines.external.conversation import Step
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.plan import PLAN_TOOL, render_plan, summarize_plan
from agentd.llm.price import NO_USAGE

INTERRUPTED = "Interrupted."
CLEARED = "A new session was started: the model knows nothing of this chat so far."
STARTERS = ("Agent", "Task")
"""The tools that start subagents."""

_SYNTHETIC = "<synthetic>"
_DONE: Mapping[str, str] = {"compact": COMPACTED, "clear": CLEARED}
_LATER = Decimal(0)
"""Cost of all replies but the last, which carries that of the whole turn."""


class ClaudeEvents:
    """Replies and tool uses, each reported once.

    An answer of the model comes block by block, each with its id. A reply is held until something
    follows it: until then it may be the last one, which carries the cost. Messages of subagents
    have a tool use as parent: their tools and tokens are reported, their text is the tool's
    outcome.

    With ``priced``, costs are computed from the tokens: Claude Code counts by its own prices.
    """

    def __init__(self, bounds: WorkspaceBounds, *, priced: bool = False) -> None:
        self._priced = priced
        self.replied = False
        self.problem = ""
        """Claude Code's own text in place of a reply: the reason for its absence."""
        self.error = ""
        """The kind of that problem, such as ``rate_limit``."""
        self._bounds = bounds
        self._ledger = CallUsage()
        self._held: list[str] = []
        self._held_of = ""
        self._calls: dict[str, str] = {}
        """The streaming call: its message's id, by its parent."""
        self._tools: dict[str, tuple[str, str]] = {}
        """Running ones: name and input, by use."""
        self._inputs: dict[str, tuple[str, object]] = {}
        """The running tools' own names and whole inputs, by use."""
        self._parents: dict[str, str] = {}
        """The uses that started the subagents of others, by those."""
        self._plan = ClaudePlan()
        self._diffs: dict[str, str] = {}
        """The changes in files by the running tools, by use."""
        self._done: set[str] = set()
        """Uses and blocks already reported."""

    def on_assistant(self, given: object) -> Iterator[Step]:
        """Report a complete block of an answer."""
        block_id = get_text(given, "uuid")
        if block_id in self._done:
            return
        self._done |= {block_id} if block_id else set()
        number = get_text(given, "message", "id")
        if get_text(given, "error") or get_text(given, "message", "model") == _SYNTHETIC:
            self.error = get_text(given, "error")
            parts = [get_text(block, "text") for block in iter_list(given, "message", "content")]
            self.problem = "\n".join(parts).strip()
            return
        self._ledger.add_report(number, get_path(given, "message", "usage"))
        for block in iter_list(given, "message", "content"):
            match get_text(block, "type"):
                case "text" if not get_text(given, "parent_tool_use_id"):
                    yield from self._hold_reply(number, get_text(block, "text"))
                case "tool_use":
                    yield from self._start_tool(block, get_text(given, "parent_tool_use_id"))

    def on_tool_results(self, given: object) -> Iterator[Step]:
        """Report results of tools."""
        for block in iter_list(given, "message", "content"):
            use = get_text(block, "tool_use_id")
            if use in self._tools:
                yield from self.flush_reply()
                yield from self._report_usage()
                self._done.add(use)
                yield self._finish_tool(use, block, given)

    def on_stream_event(self, given: object) -> Iterator[Step]:
        """Report a piece of an answer."""
        parent = get_text(given, "parent_tool_use_id")
        match get_text(given, "event", "type"):
            case "message_start":
                self._calls[parent] = get_text(given, "event", "message", "id")
                usage = get_path(given, "event", "message", "usage")
                self._ledger.add_report(self._calls[parent], usage)
            case "message_delta":
                self._ledger.add_report(
                    self._calls.get(parent, ""), get_path(given, "event", "usage")
                )
            case "content_block_delta":
                if not parent:
                    yield from _read_delta(get_path(given, "event", "delta"))

    def on_first_report(self, report: object) -> None:
        """Note what a session had used before the turn."""
        self._ledger.set_baseline(report)

    def on_late_report(self, report: object) -> None:
        """Count what the session has used by the end of a turn without a last result."""
        self._ledger.add_total(report)

    def on_result(self, given: object) -> None:
        """Count what the calls until a result used."""
        self._ledger.add_result(given)

    def find_reply(self, given: object) -> str:
        """Return the text of a result; of a command that it carries out itself, what it did.

        Such commands are done without the model, and most have a text of their own.
        """
        command = get_text(given, "local_command")
        done = self.problem or _DONE.get(command, f"/{command} is done.")
        return get_text(given, "result") or (done if command else "")

    def flush_reply(self, cost: Decimal | None = _LATER) -> Iterator[Step]:
        """Report the reply that is held back, if there is one."""
        text, self._held = "".join(self._held), []
        if text.strip():
            self.replied = True
            yield ReplyCompleted(text, self._ledger.take_new(), None if self._priced else cost)

    def report_result(self, cost: Decimal | None, fallback: str = "") -> Iterator[Step]:
        """Report the reply that a result ends, or what was used without one, at its cost.

        ``fallback`` is the reply if there was none.
        """
        if fallback.strip() and not self.replied and not self._held:
            self._held = [fallback]
        cost = None if self._priced else cost
        events = list(self.flush_reply(cost))
        usage = NO_USAGE if events else self._ledger.take_new()
        yield from events
        if not events and (usage != NO_USAGE or cost):
            yield UsageReported(usage, cost)

    def finish(self, cost: Decimal | None, fallback: str = "") -> Iterator[Step]:
        """Report the end of the turn like a result, and the tools that are still running."""
        yield from self.report_result(cost, fallback)
        yield from (
            ToolUsed(
                *tool,
                INTERRUPTED,
                ok=False,
                id=self._get_id(use),
                parent=self._parents.get(use, ""),
            )
            for use, tool in self._tools.items()
        )
        self._tools.clear()

    def hold_output(self, text: str) -> Iterator[Step]:
        """Hold a reply that fits the output schema, unless the model has written it out itself."""
        if "".join(self._held).strip() != text:
            yield from self.flush_reply()
            self._held = [text]

    def _report_usage(self) -> Iterator[Step]:
        """Report what calls without a reply used, so that a budget is noticed within the turn."""
        if self._priced and (usage := self._ledger.take_new()) != NO_USAGE:
            yield UsageReported(usage)

    def _hold_reply(self, number: str, piece: str) -> Iterator[Step]:
        if number != self._held_of:
            yield from self.flush_reply()
            self._held_of = number
        self._held.append(piece)

    def _finish_tool(self, use: str, block: object, given: object) -> ToolUsed:
        """Return the outcome of a tool; the plan, where it is the chat's own and was changed."""
        starter = self._get_id(use)
        shown, (tool, taken) = self._tools.pop(use), self._inputs.pop(use)
        ok, diff = has_succeeded(block), self._diffs.pop(use, "")
        if ok and not get_text(given, "parent_tool_use_id"):
            steps = self._plan.read_use(tool, taken, get_path(given, "tool_use_result"))
            if steps:
                return ToolUsed(PLAN_TOOL, summarize_plan(steps), render_plan(steps))
        outcome, parent = describe_outcome(block), self._parents.get(use, "")
        return ToolUsed(*shown, outcome, ok, diff if ok else "", starter, parent)

    def _start_tool(self, block: object, parent: str) -> Iterator[Step]:
        use = get_text(block, "id")
        if use and use not in self._tools and use not in self._done:
            self._tools[use] = describe_use(block, self._bounds)
            self._inputs[use] = get_text(block, "name"), get_path(block, "input")
            diff = render_diff(get_text(block, "name"), get_path(block, "input"), self._bounds)
            if diff:
                self._diffs[use] = diff
            if parent:
                self._parents[use] = parent
            if self._inputs[use][0] not in (TODOS, *TASKS):  # those are shown as the plan
                yield ToolStarted(*self._tools[use], self._get_id(use), parent)

    def _get_id(self, use: str) -> str:
        """Return the id of a running use that starts a subagent; empty for others."""
        return use if self._inputs[use][0] in STARTERS else ""


def _read_delta(delta: object) -> Iterator[Step]:
    """Report a piece of a reply, or of the thinking before it."""
    match get_text(delta, "type"):
        case "text_delta" if piece := get_text(delta, "text"):
            yield ReplyDelta(piece)
        case "thinking_delta" if piece := get_text(delta, "thinking"):
            yield ThinkingProgress(piece)
