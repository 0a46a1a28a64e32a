"""One-time codes for signing a person into the browser interface (the proxy specification, 3)."""

from collections.abc import Callable

from msgspec import Struct

from agentd.clock import Timestamp
from agentd.proxy.management.changes import Doing
from agentd.proxy.management.service import Journal
from agentd.web.call import Answer, Call


class CodeView(Struct, frozen=True, rename="camel"):
    """A code, told this once: until when it can be entered, and it can be so once."""

    code: str
    """What the person enters."""
    expires_at: Timestamp
    """Until when that is possible."""


class CodeDesk:
    """The endpoint ``/api/agent/session``; ``issue`` makes a code and tells until when."""

    def __init__(self, issue: Callable[[], tuple[str, Timestamp]], journal: Journal) -> None:
        self._issue = issue
        self._journal = journal

    async def issue_code(self, call: Call) -> Answer:
        """A new code; the journal tells that there was one, never the code."""
        async with self._journal.turn:
            how = Doing(by=call.caller.by, remote=call.remote_ip)
            await self._journal.note(how, "issue", "session", "one-time code")
        return Answer(CodeView(*self._issue()), 201)
