"""What an ACP agent does in a turn, told as it goes: replies made whole from chunks, tools."""

from collections.abc import Iterator

from agentd.agent.acp.tools import Tool, said
from agentd.agent.conversation import Step
from agentd.agent.engine import Replied, ToolStarted, ToolUsed, Wrote
from agentd.agent.foreign import Bounds
from agentd.agent.json_rpc import pick, text
from agentd.agent.turn import LONGEST_REPLY

INTERRUPTED = "Interrupted."


class Work:
    """The updates of a turn. A reply is whole when a tool, another message or the end follows.

    An agent that asks its model again after a broken stream tells both attempts as one message
    (opencode does), and the protocol has no word that takes the first one back: both stand.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._pieces: list[str] = []
        self._length = 0
        self._message = ""
        self._tools: dict[str, Tool] = {}
        self._started: set[str] = set()
        self._done: set[str] = set()

    def heard(self, update: object) -> Iterator[Step]:
        """What an update adds; those that tell nothing of replies and tools are passed over."""
        match text(update, "sessionUpdate"):
            case "agent_message_chunk":
                yield from self._chunk(update)
            case "tool_call" | "tool_call_update":
                yield from self._tool(update)

    def asked(self, call: object) -> Tool:
        """The tool that leave is asked for, with all that is known of it."""
        return self._tools.get(text(call, "toolCallId"), Tool()).told(call)

    def ended(self) -> Iterator[Step]:
        """Tools that were still at work end with the turn."""
        for number, tool in self._tools.items():
            if number in self._started:
                yield ToolUsed(tool.name, tool.input(self._bounds), INTERRUPTED)
        self._tools.clear()

    def reply(self) -> str:
        """The reply that is written so far; it is taken."""
        whole = "".join(self._pieces).strip()
        self._pieces.clear()
        self._length = 0
        return whole

    def _chunk(self, update: object) -> Iterator[Step]:
        message = text(update, "messageId")
        if message != self._message:
            self._message = message
            yield from self._release()
        piece = said(pick(update, "content"))
        if piece:
            self._length += len(piece)
            if self._length <= 2 * LONGEST_REPLY:  # a turn has ended long before
                self._pieces.append(piece)
            yield Wrote(piece)

    def _tool(self, update: object) -> Iterator[Step]:
        number = text(update, "toolCallId")
        if not number or number in self._done:
            return
        tool = self._tools[number] = self._tools.get(number, Tool()).told(update)
        if tool.status in ("", "pending"):
            return  # what it is given is often told only when it begins
        if number not in self._started:
            self._started.add(number)
            yield from self._release()
            yield ToolStarted(tool.name, tool.input(self._bounds))
        if tool.over:
            self._done.add(number)
            del self._tools[number]
            yield ToolUsed(tool.name, tool.input(self._bounds), tool.outcome())

    def _release(self) -> Iterator[Step]:
        if whole := self.reply():
            yield Replied(whole)
