"""The tool calls that an editor shows: begun, asked about, finished. Pure."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from agentd.acp.messages import AcpJson
from agentd.acp.updates import Update, make_call, make_finished_call


class ShownCall(Struct):
    """A call that the editor shows and that has no outcome yet."""

    id: str
    tool: str
    input: str = ""
    number: int = 0
    """The number of the use within its turn; 0: it was asked about before it was told."""
    approval: int = 0
    """The open question about it; 0: none."""


class ToolCalls:
    """The calls of a session without an outcome, the oldest first.

    The history names a tool's use only by its tool and its input, so an outcome belongs to the call
    with both, or else to the oldest call of its tool. ``run`` distinguishes the ids of calls from
    those of other processes.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: list[ShownCall] = []
        self._count = 0

    def begin(self, running: Iterable[AcpJson]) -> Iterator[Update]:
        """Yield the beginnings of the tools at work that are not shown yet."""
        shown = {one.number for one in self._open}
        for use in running:
            if use["number"] not in shown:
                yield self._begin(use["number"], use["name"], use["input"])

    def ask(self, approval: AcpJson) -> tuple[str, Update | None]:
        """Return the call that a question is about, and its beginning if it is not shown yet."""
        tool, subject = approval["tool"], approval["subject"]
        fitting = [one for one in self._open if one.tool == tool and not one.approval]
        call = next((one for one in fitting if one.input.endswith(subject)), None)
        call = call or next(iter(fitting), None)
        begun = None
        if call is None:
            call = self._add(tool)
            begun = make_call(call.id, tool, subject, status="pending")
        call.approval = approval["id"]
        return call.id, begun

    def decide(self, approval_id: int, *, allowed: bool) -> Update | None:
        """Return the update of a call whose question is closed."""
        for call in self._open:
            if call.approval == approval_id:
                call.approval = 0
                return _make_status(call, "in_progress" if allowed else "failed")
        return None

    def finish(self, message: AcpJson, root: str) -> Update:
        """Return the outcome of a tool's message."""
        given = (message.get("toolUse") or {}).get("input", "")
        same = [one for one in self._open if one.tool == message["tool"]]
        call = next((one for one in same if one.input.strip() == given), next(iter(same), None))
        if call:
            self._open.remove(call)
            return make_finished_call(call.id, message, root, known=True)
        return make_finished_call(f"message-{message['id']}", message, root, known=False)

    def end(self, *, failed: bool) -> Iterator[Update]:
        """Yield the ends of all calls: the turn is over."""
        for call in self._open:
            yield _make_status(call, "failed" if failed else "completed")
        self._open.clear()

    def _begin(self, number: int, tool: str, given: str) -> Update:
        """Return the beginning of a use, or what is known now of one that was asked about."""
        asked = next((one for one in self._open if one.tool == tool and not one.number), None)
        call = asked or self._add(tool)
        call.number, call.input = number, given
        begun = make_call(call.id, tool, given)
        return begun if asked is None else _make_title_update(begun)

    def _add(self, tool: str) -> ShownCall:
        self._count += 1
        call = ShownCall(f"call-{self._run}-{self._count}", tool)
        self._open.append(call)
        return call


def _make_title_update(begun: Update) -> Update:
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": begun["toolCallId"],
        "title": begun["title"],
    }


def _make_status(call: ShownCall, status: str) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": status}
