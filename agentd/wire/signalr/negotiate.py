"""Negotiation: what a client may ask for before it connects."""

from collections.abc import Collection, Mapping
from enum import StrEnum

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agentd.errors import BadRequest


class Transport(StrEnum):
    """A way to carry records, under the name that clients know; they try them in this order."""

    WEBSOCKET = "WebSockets"
    STREAM = "ServerSentEvents"
    POLLING = "LongPolling"


class Terms(Struct, frozen=True):
    """What was agreed: the version of the negotiation (0 or 1), and stateful reconnect.

    Under version 0 clients dial the same id again after a break.
    """

    version: int
    stateful: bool = False


DIRECT = Terms(1)
"""The terms of a WebSocket that was opened without negotiation."""


class Offer(Struct, frozen=True, rename="camel"):
    """One transport; only text, so that a MessagePack client fails with a clear reason."""

    transport: Transport
    transfer_formats: tuple[str, ...] = ("Text",)


class Negotiated(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to a negotiation. Version 0 knows no token: its connection id is one."""

    connection_id: str
    available_transports: tuple[Offer, ...]
    negotiate_version: int | UnsetType = UNSET
    connection_token: str | UnsetType = UNSET
    use_stateful_reconnect: bool = False


def terms(query: Mapping[str, str], *, stateful: bool = True) -> Terms:
    """What a client asks for, as far as it is had here.

    ``query`` holds the parameters of the address; their names are compared without case, and all
    others are passed over, a stale ``id`` too. ``stateful`` False: that is not had. Raises
    ``BadRequest``, to be answered with ``refused``, for a version that is no number.
    """
    asked = {name.lower(): value for name, value in query.items()}
    version = asked.get("negotiateversion", "0")
    if not (version.isascii() and version.isdigit()):
        raise BadRequest("negotiateVersion is not a number")
    number = 1 if version.strip("0") else 0
    wished = asked.get("usestatefulreconnect", "").lower() == "true"
    return Terms(number, stateful and wished and number == 1)


def negotiated(
    agreed: Terms,
    connection_id: str,
    token: str,
    transports: Collection[Transport] = tuple(Transport),
) -> Negotiated:
    """The answer under these terms.

    ``token`` is the secret under which the connection is to be found: under version 0 that is the
    connection id itself. Stateful reconnect is named only when it was asked for, else the
    JavaScript client refuses to connect.
    """
    offers = tuple(Offer(transport) for transport in transports)
    if agreed.version == 0:
        return Negotiated(connection_id, offers, 0)
    return Negotiated(connection_id, offers, 1, token, agreed.stateful)


def body(answer: Negotiated) -> bytes:
    """The JSON of an answer."""
    return msgspec.json.encode(answer)


def refused(error: str) -> bytes:
    """The JSON that stops a client with this text; its status is 200."""
    return msgspec.json.encode({"error": error})
