"""Turns Codex notifications into engine events: replies with usage, tools."""

from collections.abc import Iterator

from msgspec import structs

from agentd.agent.engine import (
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    UsageReported,
)
from agentd.agent.engines.codex.items import (
    describe_item,
    describe_outcome,
    has_succeeded,
    render_diff,
)
from agentd.agent.engines.codex.launch import CodexState
from agentd.agent.engines.codex.usage import ThreadUsage
from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.agent.engines.external.conversation import Step
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.plan import PLAN_TOOL, make_step, render_plan, summarize_plan
from agentd.llm.price import NO_USAGE, Usage

INTERRUPTED = "Interrupted."


class CodexEvents:
    """The items of a turn, each reported once.

    Codex reports the usage of a reply right after it, or after the tools that belong to it. So a
    reply is held until its usage or the next item comes; usage without a reply is
    ``UsageReported``.
    ``thread`` and ``turn`` are set once they are known.
    """

    def __init__(self, bounds: WorkspaceBounds, state: CodexState) -> None:
        self.thread = ""
        self.turn = ""
        self.usage = ThreadUsage()
        self._bounds = bounds
        self._state = state
        """The state to save, but for the thread and its usage."""
        self._held = ""
        self._plan = ""
        """A proposed plan, until the message that it was taken from is complete."""
        self._tools: dict[str, tuple[str, str]] = {}
        """Running ones: name and input, by item."""
        self._done: set[str] = set()
        self._starters: dict[str, str] = {}
        """The uses that started subagents, by the threads of these."""

    @property
    def saved_state(self) -> str:
        """The state of the thread to save once its reported usage is recorded."""
        booked = self.usage.get_booked(self.thread)
        return str(structs.replace(self._state, thread=self.thread, booked=booked))

    def is_own_thread(self, params: object) -> bool:
        """Return whether a notification is about the chat's own thread, not a subagent's."""
        return get_text(params, "threadId") == self.thread

    def is_agent(self, thread: str) -> bool:
        """Return whether a thread is that of a subagent which this turn has used."""
        return thread in self._starters

    def on_item_started(self, params: object) -> Iterator[Step]:
        """Report the start of a tool; other items are reported when they are complete."""
        item = get_path(params, "item")
        number = get_text(item, "id")
        tool = describe_item(item, self._bounds)
        if tool and number not in self._tools and number not in self._done:
            yield from self.flush_reply()
            self._tools[number] = tool
            self._note_agents(item, number)
            yield ToolStarted(*tool, _get_id(item), self._get_parent(params))

    def on_item_completed(self, params: object) -> Iterator[Step]:
        """Report a completed item."""
        item = get_path(params, "item")
        number = get_text(item, "id")
        if number in self._done:
            return
        if tool := describe_item(item, self._bounds):
            self._done.add(number)
            self._tools.pop(number, None)
            yield from self.flush_reply()
            ok = has_succeeded(item)
            diff = render_diff(item, self._bounds) if ok else ""
            self._note_agents(item, number)
            outcome = describe_outcome(item)
            yield ToolUsed(*tool, outcome, ok, diff, _get_id(item), self._get_parent(params))
        elif get_text(item, "type") == "plan" and self.is_own_thread(params):
            self._done.add(number)
            self._plan = get_text(item, "text")
        elif get_text(item, "type") == "agentMessage" and self.is_own_thread(params):
            self._done.add(number)
            yield from self.flush_reply()
            parts, self._plan = (get_text(item, "text"), self._plan), ""
            self._held = "\n\n".join(filter(None, parts))

    def on_plan(self, params: object) -> Iterator[Step]:
        """Report the plan of the chat's own thread."""
        steps = [
            make_step(get_text(one, "step"), get_text(one, "status"))
            for one in iter_list(params, "plan")
        ]
        if steps and self.is_own_thread(params):
            yield from self.flush_reply()
            yield ToolUsed(PLAN_TOOL, summarize_plan(steps), render_plan(steps))

    def on_delta(self, params: object) -> Iterator[Step]:
        """Report a piece of a reply."""
        piece = get_text(params, "delta")
        if piece and self.is_own_thread(params):
            yield ReplyDelta(piece)

    def on_thinking(self, params: object) -> Iterator[Step]:
        """Report a piece of the thinking, or of its summary."""
        piece = get_text(params, "delta")
        if piece and self.is_own_thread(params):
            yield ThinkingProgress(piece)

    def on_thinking_part(self, params: object) -> Iterator[Step]:
        """Part the next paragraph of a summary from those before it."""
        if get_path(params, "summaryIndex") != 0 and self.is_own_thread(params):
            yield ThinkingProgress("\n\n")

    def on_usage(self, params: object) -> Iterator[Step]:
        """Report the rise of a thread's total; a resumed thread first repeats its old total.

        Its unrecorded part was used by a turn that a crash of agentd cut off.
        """
        ours = self.is_own_thread(params)
        before = not self.turn or (ours and get_text(params, "turnId") != self.turn)
        reported = get_path(params, "tokenUsage")
        usage = self.usage.add_report(get_text(params, "threadId"), reported, before=before)
        if usage != NO_USAGE and ours and self._held:
            yield from self.flush_reply(usage, self.saved_state)
        elif usage != NO_USAGE:
            yield UsageReported(usage, engine_state=self.saved_state if ours else "")

    def flush(self) -> Iterator[Step]:
        """Report the reply that waits for its usage, and the tools still running."""
        yield from self.flush_reply()
        if plan := self._plan:
            self._plan = ""
            yield ReplyCompleted(plan)
        yield from (ToolUsed(*tool, INTERRUPTED, ok=False) for tool in self._tools.values())
        self._tools.clear()

    def _note_agents(self, item: object, number: str) -> None:
        """Remember which use of a tool started the threads of subagents."""
        for thread in iter_list(item, "receiverThreadIds"):
            if isinstance(thread, str):
                self._starters.setdefault(thread, number)

    def _get_parent(self, params: object) -> str:
        """Return the use that started the subagent that a notification is about."""
        return self._starters.get(get_text(params, "threadId"), "")

    def flush_reply(self, usage: Usage = NO_USAGE, memory: str = "") -> Iterator[Step]:
        """Report the reply that waits for its usage."""
        held, self._held = self._held, ""
        if held:
            yield ReplyCompleted(held, usage, engine_state=memory)


def _get_id(item: object) -> str:
    """Return the id of an item that starts subagents; empty for others."""
    return get_text(item, "id") if get_text(item, "type") == "collabAgentToolCall" else ""
