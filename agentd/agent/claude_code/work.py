"""What Claude Code does in a turn, told as it goes: replies with their usage, tools."""

from collections.abc import Iterator
from decimal import Decimal

from agentd.agent.claude_code.tools import described, outcome
from agentd.agent.claude_code.usage import Ledger
from agentd.agent.conversation import Step
from agentd.agent.engine import Replied, Spent, ToolStarted, ToolUsed, Wrote
from agentd.agent.foreign import Bounds
from agentd.agent.json_rpc import each, pick, text
from agentd.proxy.price import NOTHING

INTERRUPTED = "Interrupted."

_SYNTHETIC = "<synthetic>"
_LATER = Decimal(0)
"""The cost of all replies but the last: that of the whole turn comes at its end."""


class Work:
    """Replies and uses of tools, each told once.

    One answer of the model comes in pieces, block by block, with its id on each. A reply is held
    until something follows it: until then it may be the last one, which the cost belongs to.
    Helpers (subagents) have a tool's use as parent: their tools and tokens are told, their words
    are the tool's outcome.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.replied = False
        self.trouble = ""
        """What Claude Code itself put in place of an answer: why there is none."""
        self.error = ""
        """The kind of that trouble, such as ``rate_limit``."""
        self._bounds = bounds
        self._ledger = Ledger()
        self._held: list[str] = []
        self._held_of = ""
        self._calls: dict[str, str] = {}
        """The call that is being streamed: its message's id, by its parent."""
        self._tools: dict[str, tuple[str, str]] = {}
        """Those at work: name and input, by use."""
        self._done: set[str] = set()
        """Uses and blocks that were told."""

    def answered(self, given: object) -> Iterator[Step]:
        """A block of an answer is whole."""
        block_id = text(given, "uuid")
        if block_id in self._done:
            return
        self._done |= {block_id} if block_id else set()
        number = text(given, "message", "id")
        if text(given, "error") or text(given, "message", "model") == _SYNTHETIC:
            self.error = text(given, "error")
            parts = [text(block, "text") for block in each(given, "message", "content")]
            self.trouble = "\n".join(parts).strip()
            return
        self._ledger.heard(number, pick(given, "message", "usage"))
        for block in each(given, "message", "content"):
            match text(block, "type"):
                case "text" if not text(given, "parent_tool_use_id"):
                    yield from self._hold(number, text(block, "text"))
                case "tool_use":
                    yield from self._started(block)

    def came_back(self, given: object) -> Iterator[Step]:
        """What came of tools."""
        for block in each(given, "message", "content"):
            use = text(block, "tool_use_id")
            if use in self._tools:
                yield from self.release()
                self._done.add(use)
                yield ToolUsed(*self._tools.pop(use), outcome(block))

    def streamed(self, given: object) -> Iterator[Step]:
        """A piece of an answer."""
        parent = text(given, "parent_tool_use_id")
        match text(given, "event", "type"):
            case "message_start":
                self._calls[parent] = text(given, "event", "message", "id")
                usage = pick(given, "event", "message", "usage")
                self._ledger.heard(self._calls[parent], usage)
            case "message_delta":
                self._ledger.heard(self._calls.get(parent, ""), pick(given, "event", "usage"))
            case "content_block_delta":
                piece = text(given, "event", "delta", "text")
                if piece and not parent and text(given, "event", "delta", "type") == "text_delta":
                    yield Wrote(piece)

    def release(self, cost: Decimal | None = _LATER) -> Iterator[Step]:
        """Tell the reply that is held, if there is one."""
        said, self._held = "".join(self._held), []
        if said.strip():
            self.replied = True
            yield Replied(said, self._ledger.take(), cost)

    def finished(self, cost: Decimal | None, fallback: str = "") -> Iterator[Step]:
        """The turn is over: what it cost; ``fallback`` is its reply if none was told."""
        if fallback.strip() and not self.replied and not self._held:
            self._held = [fallback]
        told = list(self.release(cost))
        usage = NOTHING if told else self._ledger.take()
        yield from told
        if not told and (usage != NOTHING or cost):
            yield Spent(usage, cost)
        yield from (ToolUsed(*tool, INTERRUPTED) for tool in self._tools.values())
        self._tools.clear()

    def _hold(self, number: str, piece: str) -> Iterator[Step]:
        if number != self._held_of:
            yield from self.release()
            self._held_of = number
        self._held.append(piece)

    def _started(self, block: object) -> Iterator[Step]:
        use = text(block, "id")
        if use and use not in self._tools and use not in self._done:
            self._tools[use] = described(block, self._bounds)
            yield ToolStarted(*self._tools[use])
