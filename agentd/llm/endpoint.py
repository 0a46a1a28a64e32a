"""The connection to a model supplier: its URL, its dialect, and the transport."""

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta, Struct

from agentd.core.secret_text import SecretText
from agentd.llm.conversation import DialectName

ChannelDialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
"""The dialects that a supplier can speak."""

ALL_DIALECTS: tuple[ChannelDialect, ...] = get_args(ChannelDialect)


SupplierUrl: TypeAlias = Annotated[
    str,
    Meta(
        max_length=1000,
        pattern="https?://[^\\s/?#@]+(?:/[^\\s?#]*)?",
        extra={
            "form": "an address such as https://api.example.com/v1, without user, query or blanks"
        },
    ),
]
"""A URL without a user's name: it would be shown, and a password with it."""


class ChannelTransport(Struct, frozen=True, omit_defaults=True):
    """The transport between a channel and its supplier: every call uses it or fails."""

    kind: Literal["direct", "http", "socks5", "vpn"] = "direct"
    """Directly, through a proxy, or through a VPN."""
    url: SecretText = ""
    """The URL of the proxy (``http://user:password@host:port``, ``socks5://…``; names resolved by
    the proxy), or of the VPN: a link, or a subscription's address."""
    server: Annotated[str, Meta(max_length=200)] = ""
    """The server of a subscription, by its name."""

    def __repr__(self) -> str:
        """Omit the URL, which holds a secret."""
        return f"ChannelTransport({self.kind!r})"


class SupplierAccess(Struct, frozen=True):
    """The data needed to call a supplier, for one turn."""

    name: str
    dialect: DialectName
    url: str
    """Its address, with or without ``/v1``."""
    key: str = ""

    def __repr__(self) -> str:
        """Omit the key."""
        return f"SupplierAccess({self.name!r}, {self.dialect!r}, {self.url!r})"
