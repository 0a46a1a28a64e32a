"""What an editor has been shown of a chat, and what is to be added to it. Without any I/O.

An editor can only append to what it shows, so a reply that was streamed is never sent again.
"""

from collections.abc import Callable, Iterable

from agentd.acp.calls import ToolCalls
from agentd.acp.messages import AcpJson
from agentd.acp.updates import Update, make_chunk, make_plan
from agentd.agent.plan import PLAN_TOOL
from agentd.chats.model import strip_buttons

STOP, APPROVAL, DECISION = "stop", "approval", "decision"
"""Messages of the history that are no use of a tool."""


class Transcript:
    """The transcript of one session; updates go to ``emit``, paths are below ``root``."""

    def __init__(self, emit: Callable[[Update], None], root: str, run: str) -> None:
        self.root = root
        self.seen = 0
        """The id of the last message shown."""
        self.calls = ToolCalls(run)
        self._emit = emit
        self._run = run
        self._turn = self._number = 0
        """The turn of the growing reply, and the number of its last piece shown."""
        self._thought = (0, 0)
        """The turn and number of the last piece of thinking shown."""
        self._reply = ""
        """The growing reply as far as it was taken up."""
        self._unfinished = ""
        """A reply that was shown in part when the daemon died: what repeats it is not shown."""
        self._replies = 0

    def skip_message(self, message: AcpJson) -> None:
        """Count a message as shown."""
        self.seen = max(self.seen, message["id"])
        self._end_reply()

    def show_message(self, message: AcpJson) -> None:
        """Show a whole message, or what is missing of it."""
        self.seen = max(self.seen, message["id"])
        match message["role"]:
            case "user":
                self._show_text("user", message)
            case "assistant":
                self._show_reply(message)
            case "tool":
                self._show_tool(message)
            case _:
                self._show_text("agent", message)

    def show_delta(self, turn: int, text: str, number: int) -> bool:
        """Show the next piece of the reply; False if pieces before it are missing."""
        if turn != self._turn:
            self._begin_turn(turn)
        if number > self._number + 1:
            return False
        if number == self._number + 1:
            self._number = number
            self._add_reply(text)
        return True

    def show_thinking(self, turn: int, text: str, number: int) -> None:
        """Show the next piece of the thinking; what was missed is not shown later."""
        if (turn, number) > self._thought:
            self._thought = (turn, number)
            self._emit(make_chunk("thought", text, f"{self._run}-thinking-{turn}"))

    def show_running(self, turn: int, text: str, number: int) -> None:
        """Show a growing reply as far as it is written, if more of it is than was shown."""
        if turn != self._turn:
            self._begin_turn(turn)
        if number <= self._number:
            return
        self._number = number
        if not text.startswith(self._reply):
            self._end_reply()
        self._add_reply(text[len(self._reply) :])

    def show_running_tools(self, running: Iterable[AcpJson]) -> None:
        """Show the calls of the tools at work that are not shown yet."""
        for update in self.calls.begin(running):
            self._emit(update)

    def end_turn(self, *, failed: bool) -> None:
        """Close the tool calls that have no outcome."""
        for update in self.calls.end(failed=failed):
            self._emit(update)

    def _begin_turn(self, turn: int) -> None:
        self._turn, self._number = turn, 0
        self._unfinished = self._unfinished or self._reply
        self._reply = ""

    def _add_reply(self, text: str) -> None:
        self._reply += text
        if self._unfinished.startswith(self._reply):
            return
        if self._unfinished:
            shown, self._unfinished = self._unfinished, ""
            if self._reply.startswith(shown):
                text = self._reply[len(shown) :]
            else:
                text = self._reply
                self._replies += 1
        if text:
            self._emit(make_chunk("agent", text, f"{self._run}-{self._replies}"))

    def _end_reply(self) -> None:
        self._reply = self._unfinished = ""
        self._replies += 1

    def _show_reply(self, message: AcpJson) -> None:
        whole = message["content"]
        if not whole.startswith(self._reply):
            self._end_reply()
        rest = whole[len(self._reply) :] if self._reply else strip_buttons(whole)
        self._add_reply(rest)
        self._end_reply()

    def _show_text(self, kind: str, message: AcpJson) -> None:
        self._end_reply()
        self._emit(make_chunk(kind, message["content"], f"message-{message['id']}"))

    def _show_tool(self, message: AcpJson) -> None:
        self._end_reply()
        if message["tool"] == APPROVAL or _is_answer(message):
            return
        if message["tool"] == STOP:
            self._emit(make_chunk("agent", message["content"], f"message-{message['id']}"))
            return
        use = message.get("toolUse") or {}
        if message["tool"] == PLAN_TOOL and (plan := make_plan(use.get("outcome", ""))):
            self._emit(plan)
        self._emit(self.calls.finish(message, self.root))


def _is_answer(message: AcpJson) -> bool:
    """Return whether it says how a question was decided, which its call shows."""
    decision = message.get("decision")
    return message["tool"] == DECISION and bool(decision and decision["question"])
