"""A channel: one supplier of models, how it is reached, and with what secret.

The same structs are the schema of ``channels.yml`` and what the daemon runs with.
"""

import re
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.proxy.price import Prices

ChannelDialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
"""What a supplier understands."""

Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern="[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        extra={"form": "at most 64 letters, digits and . _ -, of which the first is no sign"},
    ),
]
SecretText: TypeAlias = Annotated[str, Meta(max_length=4096, extra={"secret": True})]
"""The secret itself, ``env:NAME`` or ``file:PATH``. It is written, and never read back."""
Address: TypeAlias = Annotated[
    str,
    Meta(
        max_length=1000,
        pattern="https?://[^\\s/?#@]+(?:/[^\\s?#]*)?",
        extra={
            "form": "an address such as https://api.example.com/v1, without user, query or blanks"
        },
    ),
]
"""Without a user's name: it would be shown, and a password with it."""


MASK = "****"
"""How a secret begins where it is shown; none is ever kept that begins so."""


class Transport(Struct, frozen=True, omit_defaults=True):
    """How a channel's supplier is reached: every call goes this way, or not at all."""

    kind: Literal["direct", "http", "socks5", "vpn"] = "direct"
    """Directly, through a proxy, or through a VPN."""
    url: SecretText = ""
    """Of the proxy (``http://user:password@host:port``, ``socks5://…``; names are resolved by
    the proxy), or of the VPN: a link, or a subscription's address."""
    server: Annotated[str, Meta(max_length=200)] = ""
    """The server of a subscription, by its name."""

    def __repr__(self) -> str:
        """Without the address, wherever it is printed: it holds a secret."""
        return f"Transport({self.kind!r})"


class Channel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One supplier. ``dialects``: what it understands, the preferred one first."""

    name: Name
    """What models and keys call it."""
    dialects: Annotated[tuple[ChannelDialect, ...], Meta(min_length=1)]
    """What the supplier understands, the preferred one first."""
    url: Address
    """The supplier's address, to which each dialect's paths are added."""
    key: SecretText = ""
    """The supplier's secret; in the file also `env:NAME` or `file:PATH`. Shown masked."""
    enabled: bool = True
    """Whether it is used."""
    local: bool = False
    """Whether the address may be one of this machine or its network."""
    transport: Transport = Transport()
    """How the supplier is reached."""
    headers: dict[str, str] = {}
    """Sent with every call, beside the key's."""
    on_leave: Literal["cut", "drain"] = "cut"
    """What becomes of a call whose caller has left: ended, or heard out for its count."""
    cool_down: Annotated[float, Meta(ge=0, le=86400)] = 30.0
    """Seconds without calls after failures of the channel's own making."""
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 600.0
    """Seconds that the supplier has until its answer begins."""

    def __repr__(self) -> str:
        """Without the key and the headers, wherever it is printed."""
        return f"Channel({self.name!r}, {self.url!r})"


class Way(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One channel through which a model is had; of equal ``priority``, ``weight`` decides."""

    channel: Name
    """The name of the channel."""
    model: Annotated[str, Meta(max_length=200)] = ""
    """The supplier's name of the model; empty: the same."""
    priority: Annotated[int, Meta(ge=0, le=1000)] = 0
    """The smallest is tried first."""
    weight: Annotated[int, Meta(ge=0, le=1000)] = 1
    """How often it is taken among ways of the same priority; 0: last."""
    prices: Prices | None = None
    """Where they are others than the model's."""


class ProxyModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model as callers of the gateway name it: an entry of ``models.yml``, section ``proxy``."""

    name: Annotated[
        str,
        Meta(
            pattern="[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,99}",
            extra={
                "form": "at most 100 letters, digits and . _ : / @ + -, of which the first is no"
                " sign"
            },
        ),
    ]
    """What callers ask for."""
    ways: Annotated[tuple[Way, ...], Meta(min_length=1)]
    """The channels through which it is had."""
    enabled: bool = True
    """Whether it can be called."""
    prices: Prices | None = None
    """What it costs, in USD per million tokens; none: it is not known."""
    max_output: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    """The most tokens of a reply: what is reserved when a caller does not say."""
    context: Annotated[int, Meta(ge=1000, le=100_000_000)] | None = None
    """The most tokens that it reads."""


def is_reference(secret: str) -> bool:
    """Whether this only tells where the secret is."""
    return secret.startswith(("env:", "file:"))


def malformed(secret: str) -> str:
    """What is wrong with a secret as it is written; empty: nothing. It is not repeated."""
    kind, _, place = secret.partition(":")
    if kind == "env" and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", place):
        return "expected the name of an environment variable after env:"
    if kind == "file" and not place.startswith(("/", "~/")):
        return "expected a path that begins with / or ~/ after file:"
    if secret.startswith(MASK) or f"{MASK}@" in secret:
        return "is what is shown of a secret, not the secret"
    if secret and not is_reference(secret) and not re.fullmatch("[!-~]+", secret):
        return "has blanks or odd characters in it"
    return ""
