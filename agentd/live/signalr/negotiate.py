"""Negotiation: what client and server agree on before a transport is opened."""

from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agentd.core.errors import BadRequest


class Transport(StrEnum):
    """A transport, by its name in the protocol; clients try them in this order."""

    WEBSOCKET = "WebSockets"
    STREAM = "ServerSentEvents"
    POLLING = "LongPolling"


class Terms(Struct, frozen=True):
    """The agreed version of the negotiation (0 or 1), and stateful reconnect.

    Version 0 clients reconnect with the same id after an interruption.
    """

    version: int
    stateful: bool = False


DIRECT = Terms(1)
"""The terms of a WebSocket that was opened without negotiation."""


class Offer(Struct, frozen=True, rename="camel"):
    """A transport on offer; only text, so that a MessagePack client fails with a clear error."""

    transport: Transport
    transfer_formats: tuple[str, ...] = ("Text",)


class NegotiationAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to a negotiation. Version 0 has no token: its connection id serves as one."""

    connection_id: str
    available_transports: tuple[Offer, ...]
    negotiate_version: int | UnsetType = UNSET
    connection_token: str | UnsetType = UNSET
    use_stateful_reconnect: bool = False


def parse_terms(query: Mapping[str, str], *, stateful: bool = True) -> Terms:
    """Return the terms that a client asks for, as far as they are supported.

    The names of the ``query`` parameters are compared without case; unknown ones are ignored, also
    a stale ``id``. ``stateful`` is whether stateful reconnect is supported. Raises ``BadRequest``,
    to be answered with ``encode_refusal``, for a version that is not a number.
    """
    asked = {name.lower(): value for name, value in query.items()}
    version = asked.get("negotiateversion", "0")
    if not (version.isascii() and version.isdigit()):
        raise BadRequest("negotiateVersion is not a number")
    number = 1 if version.strip("0") else 0
    wants_stateful = asked.get("usestatefulreconnect", "").lower() == "true"
    return Terms(number, stateful and wants_stateful and number == 1)


def build_answer(
    agreed: Terms,
    connection_id: str,
    token: str,
    transports: Collection[Transport] = tuple(Transport),
) -> NegotiationAnswer:
    """Return the answer for these terms.

    ``token`` is the secret that identifies the connection; with version 0 it is the connection id
    itself. Stateful reconnect is included only if it was requested, because otherwise the
    JavaScript client refuses to connect.
    """
    offers = tuple(Offer(transport) for transport in transports)
    if agreed.version == 0:
        return NegotiationAnswer(connection_id, offers, 0)
    return NegotiationAnswer(connection_id, offers, 1, token, agreed.stateful)


def encode_answer(answer: NegotiationAnswer) -> bytes:
    """Return the JSON of an answer."""
    return msgspec.json.encode(answer)


def encode_refusal(error: str) -> bytes:
    """Return the JSON that makes a client stop with this error; its HTTP status is 200."""
    return msgspec.json.encode({"error": error})
