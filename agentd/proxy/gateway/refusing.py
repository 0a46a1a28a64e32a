"""Why a request gets no answer, in the words that every dialect can tell."""

import logging
from math import ceil

from agentd.errors import (
    AgentdError,
    BadRequest,
    Forbidden,
    LimitReached,
    MethodNotAllowed,
    Misdirected,
    NoAddress,
    NotFound,
    Resting,
    SupplierUnreachable,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from agentd.proxy.dialects.caller import GatewayError, Unsupported
from agentd.proxy.dialects.conversation import ErrorKind, SupplierError
from agentd.proxy.gateway.asking import Refused
from agentd.proxy.spend import OverLimit

log = logging.getLogger(__name__)

_KINDS: dict[type[AgentdError], GatewayError] = {
    BadRequest: "invalid_request",
    Unauthorized: "authentication",
    Forbidden: "permission",
    NoAddress: "address",
    NotFound: "not_found",
    MethodNotAllowed: "method",
    Misdirected: "misdirected",
    TooLarge: "too_large",
    LimitReached: "limit",
    Resting: "overloaded",
    Unavailable: "overloaded",
}

_OF_MONEY = ("total", "day", "week", "month")

IN_THE_LOG = "Try again later; whoever runs agentd finds the reason in its log."
"""What a caller can do about what he is not to know more of."""

_NOT_THE_CALLERS = ("authentication", "permission", "quota")
"""What a supplier says of the channel's key, which would be read as said of the caller's."""


def refused(error: AgentdError) -> Refused:
    """One of our own errors, as the gateway's no."""
    if isinstance(error, Refused):
        return error
    known = (_KINDS[one] for one in type(error).__mro__ if one in _KINDS)
    kind: GatewayError = next(known, "server")
    end = "" if error.message.endswith((".", "?", "!")) or not error.details else "."
    text = f"{error.message}{end} {error.details}".strip()
    wait = error.retry_after if isinstance(error, LimitReached | Resting) else None
    name = ""
    if isinstance(error, Resting) and error.rate_limited:
        kind = "rate_limit"
    if isinstance(error, OverLimit):
        name = f"limit_{error.limit_name}"
        kind = "limit" if error.limit_name in _OF_MONEY else "rate_limit"  # clients wait and retry
    facts = error.facts if isinstance(error, Unsupported) else None
    return Refused(kind, text, retry_after=wait, name=name, facts=facts)


def unanswered(
    request_id: str, channel: str, error: SupplierUnreachable | TooLarge
) -> SupplierError:
    """What a caller is told when a channel gives no answer, or no whole one.

    The error's own words name the supplier's host: those are for the log, and nobody else.
    """
    log.warning("channel %s: request %s: %s", channel, request_id, error.message)
    match error:
        case TooLarge():
            what = f"The answer of the channel {channel} is too large"
        case SupplierUnreachable(stage="body"):
            what = f"The channel {channel} broke off its answer, or garbled it"
        case SupplierUnreachable(stage="head"):
            what = f"The channel {channel} gave no answer"
        case _:
            what = f"The channel {channel} cannot reach its supplier"
    kind: ErrorKind = "garbled" if isinstance(error, TooLarge) else "broken"
    return SupplierError(kind, f"{what}. {IN_THE_LOG}")


def failed(error: SupplierError, kind: str) -> Refused:
    """What a supplier said last, once no channel is left to try; ``kind`` as the ledger has it."""
    wait = None if error.retry_after is None else ceil(error.retry_after)
    if error.kind in _NOT_THE_CALLERS:
        text = f"The supplier refused agentd's own account: {error.message}"
        return Refused("server", text, retry_after=wait, name=kind, ours=False)
    return Refused(error.kind, error.message, retry_after=wait, name=kind, ours=False)
