"""Errors of the gateway, mapped to kinds that every dialect can express."""

import logging
from math import ceil

from agentd.core.clock import parse_iso
from agentd.core.errors import (
    AgentdError,
    AllChannelsCoolingDown,
    BadRequest,
    Forbidden,
    LimitReached,
    MethodNotAllowed,
    NotFound,
    RouteNotFound,
    SupplierUnreachable,
    TooLarge,
    Unauthorized,
    Unavailable,
    WrongHost,
)
from agentd.gateway.limits.spend import OverLimit
from agentd.gateway.relay.request import GatewayError
from agentd.llm.conversation import ErrorKind, SupplierError
from agentd.llm.dialects.caller import GatewayErrorKind, UnsupportedRequest

log = logging.getLogger(__name__)

_KINDS: dict[type[AgentdError], GatewayErrorKind] = {
    BadRequest: "invalid_request",
    Unauthorized: "authentication",
    Forbidden: "permission",
    RouteNotFound: "address",
    NotFound: "not_found",
    MethodNotAllowed: "method",
    WrongHost: "misdirected",
    TooLarge: "too_large",
    LimitReached: "limit",
    AllChannelsCoolingDown: "overloaded",
    Unavailable: "unavailable",
}

_SPEND_LIMITS = ("total", "day", "week", "month")

SEE_THE_LOG = "Try again later; the reason is in agentd's log."
"""The advice for failures whose cause is not for callers."""

_ABOUT_OUR_KEY = ("authentication", "permission", "quota")
"""Kinds about the channel's key, which a caller would take for his own."""


def from_error(error: AgentdError) -> GatewayError:
    """Return one of our own errors as a ``GatewayError``."""
    if isinstance(error, GatewayError):
        return error
    known = (_KINDS[one] for one in type(error).__mro__ if one in _KINDS)
    kind: GatewayErrorKind = next(known, "server")
    end = "" if error.message.endswith((".", "?", "!")) or not error.details else "."
    text = f"{error.message}{end} {error.details}".strip()
    wait = error.retry_after if isinstance(error, LimitReached | AllChannelsCoolingDown) else None
    name, resets_at = "", None
    if kind == "unavailable":
        name = "overloaded"  # in the ledger
    if isinstance(error, AllChannelsCoolingDown) and error.rate_limited:
        kind = "rate_limit"
    if isinstance(error, OverLimit):
        name = error.code
        kind = (
            "limit" if error.limit_name in _SPEND_LIMITS else "rate_limit"
        )  # clients wait and retry
        resets_at = ceil(parse_iso(error.resets).timestamp()) if error.resets else None
    facts = error.facts if isinstance(error, UnsupportedRequest) else None
    return GatewayError(kind, text, retry_after=wait, resets_at=resets_at, code=name, facts=facts)


def make_no_response_error(
    request_id: str, channel: str, error: SupplierUnreachable | TooLarge
) -> SupplierError:
    """Return the error for a caller when a channel gives no complete response.

    The original message names the supplier's host, so it goes to the log only.
    """
    log.warning("channel %s: request %s: %s", channel, request_id, error.message)
    match error:
        case TooLarge():
            what = f"The response of channel {channel} is too large"
        case SupplierUnreachable(stage="body"):
            what = f"Channel {channel} aborted its response or sent a malformed one"
        case SupplierUnreachable(stage="head"):
            what = f"Channel {channel} did not respond"
        case _:
            what = f"Channel {channel} cannot reach its supplier"
    kind: ErrorKind = "unusable_reply" if isinstance(error, TooLarge) else "broken"
    return SupplierError(kind, f"{what}. {SEE_THE_LOG}")


def from_supplier(error: SupplierError, kind: str) -> GatewayError:
    """Return the last supplier's error when no channel is left; ``kind`` goes to the ledger."""
    wait = None if error.retry_after is None else ceil(error.retry_after)
    if error.kind in _ABOUT_OUR_KEY:
        text = f"The supplier rejected agentd's own key: {error.message}"
        return GatewayError("server", text, retry_after=wait, code=kind, by_gateway=False)
    return GatewayError(error.kind, error.message, retry_after=wait, code=kind, by_gateway=False)
