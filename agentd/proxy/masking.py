"""A channel's secrets: how they are written, how they are shown, and what keeps them.

A secret is written as itself, or as ``env:NAME`` or ``file:PATH``, which tell where it is. Only
the latter are shown; of the secret itself at most the last four characters are. What is shown may
be sent back and then stands for what is there, but never at another address than before.
"""

import re

from msgspec import structs

from agentd.errors import BadRequest
from agentd.proxy.channel import MASK, Channel, is_reference

LAST = 4
"""How many of its characters are shown ..."""
LONG = 16
"""... of one that has at least so many; of a shorter one none is."""

_SECRET_HEADER = re.compile("auth|cookie|key|token|secret|password|credential", re.IGNORECASE)
"""In the name of a header whose value is a secret."""


def is_secret_header(name: str) -> bool:
    """Whether the value of a header of this name is a secret."""
    return bool(_SECRET_HEADER.search(name))


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


def shown(channel: Channel) -> Channel:
    """The channel as it may be told to anybody who manages channels."""
    return structs.replace(
        channel,
        key=masked(channel.key),
        transport=structs.replace(channel.transport, url=masked(channel.transport.url)),
        headers={
            name: masked(value) if is_secret_header(name) else value
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


def revised(new: Channel, old: Channel) -> Channel:
    """What ``old`` becomes when ``new``, in which secrets may be masked, is written instead.

    A secret goes to no other address than the one for which it was written: when ``url`` is
    another, a key and secret headers that are not written anew are cleared, and the transport's
    secret is when its ``kind`` is another. Raises ``BadRequest`` as ``kept`` does.
    """
    moved = new.url.rstrip("/") != old.url.rstrip("/")
    rerouted = new.transport.kind != old.transport.kind
    headers = {
        name: _at(value, old.headers.get(name, ""), moved) if is_secret_header(name) else value
        for name, value in new.headers.items()
    }
    return structs.replace(
        new,
        key=_at(new.key, old.key, moved),
        transport=structs.replace(
            new.transport, url=_at(new.transport.url, old.transport.url, rerouted)
        ),
        headers={
            name: value for name, value in headers.items() if value or not is_secret_header(name)
        },
    )


def _at(new: str, old: str, elsewhere: bool) -> str:
    secret = kept(new, old)
    return "" if elsewhere and secret == old else secret
