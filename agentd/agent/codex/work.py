"""What Codex does in a turn, told as it goes: replies with their usage, tools, spending."""

from collections.abc import Iterator

from agentd.agent.codex.items import described, outcome
from agentd.agent.codex.usage import Ledger
from agentd.agent.conversation import Step
from agentd.agent.engine import Replied, Spent, ToolStarted, ToolUsed, Wrote
from agentd.agent.foreign import Bounds
from agentd.agent.json_rpc import pick, text
from agentd.proxy.price import NOTHING, Usage

INTERRUPTED = "Interrupted."


class Work:
    """The items of a turn, each told once.

    Codex tells what a reply used right after it, or, when tools belong to it, after those. So a
    reply is held until its usage or the next item comes; usage without a reply is ``Spent``.
    ``thread`` and ``turn`` are set once they are known.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.thread = ""
        self.turn = ""
        self.ledger = Ledger()
        self._bounds = bounds
        self._held = ""
        self._tools: dict[str, tuple[str, str]] = {}
        """Those at work: name and input, by item."""
        self._done: set[str] = set()

    def ours(self, params: object) -> bool:
        """Whether a notification is of the chat's own thread, not of a helper's."""
        return text(params, "threadId") == self.thread

    def started(self, params: object) -> Iterator[Step]:
        """An item begins; what is no tool is told when it is whole."""
        item = pick(params, "item")
        number = text(item, "id")
        tool = described(item, self._bounds)
        if tool and number not in self._tools and number not in self._done:
            yield from self._release()
            self._tools[number] = tool
            yield ToolStarted(*tool)

    def completed(self, params: object) -> Iterator[Step]:
        """An item is whole."""
        item = pick(params, "item")
        number = text(item, "id")
        if number in self._done:
            return
        if tool := described(item, self._bounds):
            self._done.add(number)
            self._tools.pop(number, None)
            yield from self._release()
            yield ToolUsed(*tool, outcome(item))
        elif text(item, "type") == "agentMessage" and self.ours(params):
            self._done.add(number)
            yield from self._release()
            self._held = text(item, "text")

    def wrote(self, params: object) -> Iterator[Step]:
        """A reply grows."""
        piece = text(params, "delta")
        if piece and self.ours(params):
            yield Wrote(piece)

    def used(self, params: object) -> Iterator[Step]:
        """A thread's total rose. A resumed thread tells the total of its earlier turns first."""
        ours = self.ours(params)
        before = not self.turn or (ours and text(params, "turnId") != self.turn)
        told = pick(params, "tokenUsage")
        usage = self.ledger.used(text(params, "threadId"), told, before=before)
        if usage != NOTHING and ours and self._held:
            yield from self._release(usage)
        elif usage != NOTHING:
            yield Spent(usage)

    def ended(self) -> Iterator[Step]:
        """Tell the reply that waits for its usage, and the tools still at work."""
        yield from self._release()
        yield from (ToolUsed(*tool, INTERRUPTED) for tool in self._tools.values())
        self._tools.clear()

    def _release(self, usage: Usage = NOTHING) -> Iterator[Step]:
        held, self._held = self._held, ""
        if held:
            yield Replied(held, usage)
