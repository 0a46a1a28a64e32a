"""Errors of the model gateway's addresses, told as the clients of each dialect expect them."""

import logging
from collections.abc import Iterable
from math import ceil

from agentd.errors import AgentdError, MethodNotAllowed
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.caller import GatewayError
from agentd.proxy.dialects.callers import errors
from agentd.proxy.gateway.refusing import refused
from agentd.redaction import scrub
from agentd.web.call import Answer
from agentd.web.envelope import Failure
from agentd.web.table import Schema

log = logging.getLogger(__name__)

EVERYWHERE: tuple[GatewayError, ...] = ("authentication", "misdirected", "server")
"""What every address of the gateway may answer."""

ASKING: tuple[GatewayError, ...] = (
    *EVERYWHERE,
    "permission",
    "not_found",
    "invalid_request",
    "context_too_long",
    "rate_limit",
    "overloaded",
    "garbled",
    "broken",
    "limit",
    "no_licence",
    "blocked",
    "too_large",
)
"""What a request to a model may be answered; a supplier's ``quota`` is told as ``server``."""


class Telling:
    """How the errors of an address are told to the callers of a dialect; ``kinds`` can come."""

    def __init__(self, dialect: ChannelDialect, kinds: Iterable[GatewayError] = ASKING) -> None:
        self._dialect = dialect
        self.failures = tuple(
            sorted(
                Failure(*errors.status(dialect, kind), errors.MEANINGS[kind])
                for kind in {*EVERYWHERE, *kinds}
            )
        )
        self.schema: Schema = errors.schema(dialect)

    def __call__(self, error: Exception, request_id: str) -> Answer:
        """The answer to the request of that id; what nobody expected is logged."""
        if not isinstance(error, AgentdError):
            log.error("an unexpected error", exc_info=error)
            error = AgentdError("Unexpected server error")
        no = refused(error)
        status, body = errors.error(self._dialect, no.kind, scrub(no.message), request_id, no.facts)
        headers = {"x-agentd-request-id": request_id}
        if no.retry_after is not None:
            headers["Retry-After"] = str(ceil(no.retry_after))
        if isinstance(error, MethodNotAllowed):
            headers["Allow"] = ", ".join(error.allowed)
        return Answer(body, status, headers)


_NOWHERE = (("/v1beta/", Telling("gemini")), ("/v1/", Telling("openai-chat")))


def telling_nowhere(path: str) -> Telling | None:
    """For a path that has no row, by whose clients would call it; None: no models' clients."""
    return next((telling for begin, telling in _NOWHERE if path.startswith(begin)), None)
