"""A channel's secrets: how they are written, how they are shown, and what keeps them.

A secret is written as itself, or as ``env:NAME`` or ``file:PATH``, which tell where it is. Only
the latter are shown; of the secret itself at most the last four characters are. What is shown may
be sent back and then stands for what is there, but never at another address than before.
"""

import re
from urllib.parse import urlsplit

from msgspec import structs

from agentd.errors import BadRequest
from agentd.proxy.channel import MASK, Channel, Transport, is_reference

LAST = 4
"""How many of its characters are shown ..."""
LONG = 16
"""... of one that has at least so many; of a shorter one none is."""

_SECRET_HEADER = re.compile("auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
"""In the name of a header whose value is a secret."""
_PLAIN_HEADERS = frozenset(
    (
        *("accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type"),
        *("http-referer", "openai-beta", "openai-organization", "openai-project", "referer"),
        *("user-agent", "x-title"),
    )
)
"""Headers of suppliers whose values are no secrets, however long they are."""
_SCHEME = re.compile(r"(?:basic|bearer|digest|token|apikey|negotiate)\s+\S", re.IGNORECASE)
"""How the value of a header of credentials begins, whatever it is called."""


def is_credential_header(name: str, value: str) -> bool:
    """Whether this header says that it holds credentials, by its name or its value's scheme."""
    return bool(_SECRET_HEADER.search(name) or _SCHEME.match(value))


def is_secret_header(name: str, value: str) -> bool:
    """Whether the value of this header may be a secret.

    It is when it says so, and when it is long enough for a key, unless the name is known for
    something else.
    """
    if is_credential_header(name, value):
        return True
    return len(value) >= LONG and name.lower() not in _PLAIN_HEADERS


def masked(secret: str) -> str:
    """As it may be shown: always the same for the same secret, and never all of it."""
    if not secret or is_reference(secret):
        return secret
    return MASK + (secret[-LAST:] if len(secret) >= LONG else "")


def kept(new: str, old: str) -> str:
    """The secret to keep when ``new`` is written where ``old`` stands.

    ``BadRequest`` for what looks like a shown secret and is not that of ``old``: it is never
    kept as if it were one.
    """
    if not new.startswith(MASK):
        return new
    if old and new == masked(old):
        return old
    raise BadRequest(
        "This is the mask of another secret.", "Write the secret itself, or leave it out."
    )


def masked_route(transport: Transport) -> str:
    """The address of a transport as it may be shown: of a proxy all but its credentials."""
    if transport.kind not in ("http", "socks5") or is_reference(transport.url):
        return masked(transport.url)
    scheme, separator, rest = transport.url.partition("://")
    credentials, at, server = rest.rpartition("@")
    return f"{scheme}{separator}{MASK if credentials else ''}{at}{server}"


def shown(channel: Channel) -> Channel:
    """The channel as it may be told to anybody who manages channels."""
    return structs.replace(
        channel,
        key=masked(channel.key),
        transport=structs.replace(channel.transport, url=masked_route(channel.transport)),
        headers={
            name: masked(value) if is_secret_header(name, value) else value
            for name, value in channel.headers.items()
        },
    )


def by_value(new: Channel, old: Channel | None = None) -> Channel:
    """The channel, if its secrets are told as themselves, or as ``old`` has them.

    Whoever could name a file or variable from afar could have any of them sent to an address of
    his own. Raises ``BadRequest``.
    """
    before = ("", "") if old is None else (old.key, old.transport.url)
    for secret, known in zip((new.key, new.transport.url), before, strict=True):
        refuse_reference(secret, known)
    return new


def refuse_reference(secret: str, known: str = "") -> None:
    """Raise ``BadRequest`` for a place of a secret that is not ``known`` already."""
    if is_reference(secret) and secret != known:
        raise BadRequest(
            "env: and file: can only be written into the file by hand",
            "From here, write the secret itself.",
        )


def fresh(channel: Channel) -> Channel:
    """A channel that is not there yet: in it no secret may be masked. Raises ``BadRequest``."""
    for secret in (channel.key, channel.transport.url, *channel.headers.values()):
        kept(secret, "")
    return channel


def carried(old: Channel, new: Channel) -> Channel:
    """``old`` with the secrets alone that may go along to where ``new`` is.

    A secret goes to no other address than the one for which it was written: the key and secret
    headers stay behind when ``url`` is another, or when what they pass in the clear is: a proxy,
    or a VPN's server, on the way to a plain http address. The transport's stay behind when its
    ``kind`` is another. What is changed of a channel from afar is changed of this.
    """
    moved, rerouted = _moved(new, old)
    transport = structs.replace(old.transport, url="" if rerouted else old.transport.url)
    return structs.replace(
        old,
        key="" if moved else old.key,
        transport=transport,
        headers={
            name: value
            for name, value in old.headers.items()
            if not (moved and is_secret_header(name, value))
        },
    )


def revised(new: Channel, old: Channel) -> Channel:
    """What ``old`` becomes when ``new``, in which secrets may be masked, is written instead.

    Raises ``BadRequest`` as ``kept`` does, and for what is shown of a secret (``carried``) at
    another address: it is neither sent there, nor cleared while somebody believes it is kept.
    """
    moved, rerouted = _moved(new, old)
    key = at_address("key", new.key, old.key, moved)
    headers = {
        name: at_address(f"headers.{name}", value, old.headers.get(name, ""), moved)
        if is_secret_header(name, value) or value.startswith(MASK)
        else value
        for name, value in new.headers.items()
    }
    return structs.replace(
        new,
        key=key,
        transport=structs.replace(
            new.transport, url=_route_at(new.transport, old.transport, rerouted)
        ),
        headers={
            name: value
            for name, value in headers.items()
            if value or not is_credential_header(name, value)
        },
    )


def _route_at(new: Transport, old: Transport, rerouted: bool) -> str:
    """The address of the transport ``new``, where it may be that of ``old`` as it is shown."""
    if new.url == old.url:
        return old.url
    if new.url != masked_route(old):
        if MASK in new.url:
            raise BadRequest(
                "transport.url: this is the mask of another secret.",
                "Write the address with its credentials.",
            )
        return new.url
    return at_address("transport.url", masked(old.url), old.url, rerouted)


def at_address(field: str, new: str, old: str, moved: bool) -> str:
    """As ``kept``; ``moved``: what ``field`` is for is elsewhere, where ``old`` does not go."""
    if moved and new and new == masked(old):
        raise BadRequest(
            f"{field}: what is shown of a secret stands for the one that is there, which does not"
            " go along to another address or kind of transport",
            'Write the secret itself, or "" to have none.',
        )
    return kept(new, old)


def _moved(new: Channel, old: Channel) -> tuple[bool, bool]:
    """Whether somebody else would read the key, and whether the way to the supplier is another.

    Over https only the supplier reads it, over http whoever carries it, too.
    """
    rerouted = new.transport.kind != old.transport.kind
    moved = new.url.rstrip("/") != old.url.rstrip("/")
    if not moved and urlsplit(new.url).scheme == "http":
        same = new.transport.url in (old.transport.url, masked_route(old.transport))
        moved = rerouted or not same or new.transport.server != old.transport.server
    return moved, rerouted
