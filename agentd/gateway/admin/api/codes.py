"""Endpoint of one-time codes for signing in to the browser interface (specification, 3)."""

from collections.abc import Callable

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import Forbidden, Unavailable
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.changes import ChangeRequest
from agentd.gateway.admin.service import ChangeLog
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class CodeView(Struct, frozen=True, rename="camel"):
    """A one-time code and its expiry."""

    code: str
    """The code to enter; it works once."""
    expires_at: Timestamp
    """When it expires."""


class CodeEndpoints:
    """The endpoint ``/api/agent/session``; ``issue`` returns a new code and its expiry."""

    def __init__(self, issue: Callable[[], tuple[str, Timestamp]], journal: ChangeLog) -> None:
        self._issue = issue
        self._journal = journal

    async def issue_code(self, call: Request) -> Response:
        """Issue a code; the change journal records that, but never the code.

        ``Forbidden`` for a named management key: the login would outlive it.
        """
        if call.caller.kind == "management" and call.caller.name:
            raise Forbidden(
                "A login would outlive a named management key, so it cannot issue a code",
                "Use the key of PROXY_APP_HASH, or an administrator's login.",
            )
        how = ChangeRequest(
            by=call.caller.identity, remote=call.remote_ip, confirm_caller=call.confirm_caller
        )
        async with self._journal.hold(how):
            await self._journal.append(how, "issue", "session", "one-time code")
        return Response(CodeView(*self._issue()), 201)


def routes(endpoints: CodeEndpoints) -> tuple[Route, ...]:
    """Return the route of login codes."""
    return (
        build_route(
            "POST",
            "/api/agent/session",
            endpoint=endpoints.issue_code,
            summary="Create a one-time code for signing in as administrator for 90 days.",
            response_type=CodeView,
            status=201,
            errors=(Unavailable,),
            section="3",
        ),
    )
