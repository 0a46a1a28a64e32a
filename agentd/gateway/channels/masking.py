"""A channel's secrets: how they are written, how they are shown, and what keeps them.

A secret is written as itself, or as ``env:NAME`` or ``file:PATH``, which refer to it. Only
the latter are shown; of the secret itself at most the last four characters are. What is shown may
be sent back and then stands for what is there, but never at another address than before.
"""

from urllib.parse import urlsplit

from msgspec import structs

from agentd.core.errors import BadRequest
from agentd.core.secret_text import MASK, is_reference
from agentd.gateway.channels.model import Channel
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.upstream.header_rules import is_credential_header

SHOWN_CHARS = 4
"""The number of characters that are shown ..."""
MIN_CHARS_TO_SHOW = 16
"""... of one that has at least so many; of a shorter one none is."""

_SHORTEST_IN_HEADER = 6
"""Characters; a shorter value, such as ``on``, is in many errors and is no secret."""

_PLAIN_HEADERS = frozenset(
    (
        *("accept", "accept-language", "anthropic-beta", "anthropic-version", "content-type"),
        *("http-referer", "openai-beta", "openai-organization", "openai-project", "referer"),
        *("user-agent", "x-title"),
    )
)
"""Headers of suppliers whose values are no secrets, however long they are."""


def is_secret_header(name: str, value: str) -> bool:
    """Return whether the value of this header may be a secret.

    It is when it says so, and when it is long enough for a key, unless the name is known for
    something else.
    """
    if is_credential_header(name, value):
        return True
    return len(value) >= MIN_CHARS_TO_SHOW and name.lower() not in _PLAIN_HEADERS


def list_sent_secrets(channel: Channel, key: str) -> tuple[str, ...]:
    """List what the supplier gets in confidence: this key, and what secret headers hold.

    Of ``Bearer …`` both the whole value and what follows the scheme.
    """
    values = [value for name, value in channel.headers.items() if is_secret_header(name, value)]
    values += [value.partition(" ")[2].strip() for value in values]
    return key, *(value for value in values if len(value) >= _SHORTEST_IN_HEADER)


def mask(secret: str) -> str:
    """Mask a secret for display: always the same for the same secret, and never all of it."""
    if not secret or is_reference(secret):
        return secret
    return MASK + (secret[-SHOWN_CHARS:] if len(secret) >= MIN_CHARS_TO_SHOW else "")


def unmask(new: str, old: str) -> str:
    """Return the secret to keep when ``new`` is written where ``old`` stands.

    ``BadRequest`` for what looks like a shown secret and is not that of ``old``: it is never
    kept as if it were one.
    """
    if not new.startswith(MASK):
        return new
    if old and new == mask(old):
        return old
    raise BadRequest(
        "This is the mask of another secret.", "Write the secret itself, or leave it out."
    )


def mask_address(transport: ChannelTransport) -> str:
    """Return the address of a transport as it may be shown: of a proxy all but its credentials."""
    if transport.kind not in ("http", "socks5") or is_reference(transport.url):
        return mask(transport.url)
    scheme, separator, rest = transport.url.partition("://")
    credentials, at, server = rest.rpartition("@")
    return f"{scheme}{separator}{MASK if credentials else ''}{at}{server}"


def mask_channel(channel: Channel) -> Channel:
    """Return the channel with masked secrets, as managers may see it."""
    return structs.replace(
        channel,
        key=mask(channel.key),
        keys=tuple(map(mask, channel.keys)),
        transport=structs.replace(channel.transport, url=mask_address(channel.transport)),
        headers={
            name: mask(value) if is_secret_header(name, value) else value
            for name, value in channel.headers.items()
        },
    )


def require_plain_secrets(new: Channel, old: Channel | None = None) -> Channel:
    """Return the channel, if its secrets are given directly, or unchanged from ``old``.

    Whoever could name a file or variable from afar could have any of them sent to an address of
    his own. Raises ``BadRequest``.
    """
    for key in new.keys:
        refuse_reference(key, key if old and key in old.keys else "")
    before = ("", "") if old is None else (old.key, old.transport.url)
    for secret, known in zip((new.key, new.transport.url), before, strict=True):
        refuse_reference(secret, known)
    return new


def refuse_reference(secret: str, known: str = "") -> None:
    """Raise ``BadRequest`` for a reference to a secret, unless it is the ``known`` one."""
    if is_reference(secret) and secret != known:
        raise BadRequest(
            "env: and file: can only be written into the file by hand",
            "Send the secret itself.",
        )


def require_no_mask(channel: Channel) -> Channel:
    """Return a new channel. Raises ``BadRequest`` if one of its secrets is a mask."""
    for secret in (channel.key, *channel.keys, channel.transport.url, *channel.headers.values()):
        unmask(secret, "")
    return channel


def drop_bound_secrets(old: Channel, new: Channel) -> Channel:
    """Return ``old`` without the secrets that must not be sent to the address of ``new``.

    A secret is sent only to the address for which it was written. The keys and secret headers are
    dropped when ``url`` changes, or, for a plain http address, when the proxy or VPN server that
    can read them changes. The transport's own secrets are dropped when its ``kind`` changes. A
    change that comes over the API is applied to the returned channel.
    """
    moved, rerouted = _has_moved(new, old)
    transport = structs.replace(old.transport, url="" if rerouted else old.transport.url)
    return structs.replace(
        old,
        key="" if moved else old.key,
        keys=() if moved else old.keys,
        transport=transport,
        headers={
            name: value
            for name, value in old.headers.items()
            if not (moved and is_secret_header(name, value))
        },
    )


def apply_edit(new: Channel, old: Channel) -> Channel:
    """Return ``new`` with its masked secrets replaced by those of ``old``.

    Raises ``BadRequest`` as ``keep_unless_moved`` does: the secret behind a mask is not sent to
    another address, and not cleared silently either.
    """
    moved, rerouted = _has_moved(new, old)
    key = keep_unless_moved("key", new.key, old.key, moved)
    headers = {
        name: keep_unless_moved(f"headers.{name}", value, old.headers.get(name, ""), moved)
        if is_secret_header(name, value) or value.startswith(MASK)
        else value
        for name, value in new.headers.items()
    }
    return structs.replace(
        new,
        key=key,
        keys=_merge_keys(new.keys, old.keys, moved),
        transport=structs.replace(
            new.transport, url=_merge_address(new.transport, old.transport, rerouted)
        ),
        headers={
            name: value
            for name, value in headers.items()
            if value or not is_credential_header(name, value)
        },
    )


def _merge_keys(new: tuple[str, ...], old: tuple[str, ...], moved: bool) -> tuple[str, ...]:
    """Return the keys ``new``, each masked one replaced by the one of ``old`` that it stands for.

    Masks that are the same for several keys count only while they keep their places.
    """
    masks = [mask(one) for one in old]
    in_place = list(new[: len(old)]) == masks
    result = []
    for number, key in enumerate(new):
        field = f"keys[{number}]"
        if in_place and number < len(old):
            known = old[number]
        elif key.startswith(MASK) and masks.count(key) > 1:
            raise BadRequest(
                f"{field}: this mask stands for several keys", "Send the keys themselves."
            )
        else:
            known = old[masks.index(key)] if key in masks else ""
        result.append(keep_unless_moved(field, key, known, moved))
    return tuple(result)


def _merge_address(new: ChannelTransport, old: ChannelTransport, rerouted: bool) -> str:
    """Return the URL of the transport ``new``; a masked one is replaced by that of ``old``."""
    if new.url == old.url:
        return old.url
    if new.url != mask_address(old):
        if MASK in new.url:
            raise BadRequest(
                "transport.url: this is the mask of another secret",
                "Send the address with its credentials.",
            )
        return new.url
    return keep_unless_moved("transport.url", mask(old.url), old.url, rerouted)


def keep_unless_moved(field: str, new: str, old: str, moved: bool) -> str:
    """Unmask a secret as ``unmask`` does; if its address has ``moved``, refuse a masked one."""
    if moved and new and new == mask(old):
        raise BadRequest(
            f"{field}: the masked value stands for the stored secret, which is not sent to another"
            " address or kind of transport",
            'Send the secret itself, or "" to have none.',
        )
    return unmask(new, old)


def _has_moved(new: Channel, old: Channel) -> tuple[bool, bool]:
    """Return whether somebody else could read the key, and whether the transport's kind changed.

    Over https only the supplier can read it; over http also the proxy or VPN server.
    """
    rerouted = new.transport.kind != old.transport.kind
    moved = new.url.rstrip("/") != old.url.rstrip("/")
    if not moved and urlsplit(new.url).scheme == "http":
        same = new.transport.url in (old.transport.url, mask_address(old.transport))
        moved = rerouted or not same or new.transport.server != old.transport.server
    return moved, rerouted
