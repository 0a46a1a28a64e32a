"""A channel's own secrets in the errors that its supplier sends. Pure.

Suppliers and proxies in front of them repeat the key, or a header, that they do not accept. What is
JSON is searched string by string, however the strings are escaped; that takes time in proportion
to its length only where the strings have an end, so other text is searched as it is.
"""

from collections.abc import Sequence

import msgspec

from agentd.gateway.secrets.json_strings import replace_in_strings

_MASK = "***"


def is_json(body: bytes) -> bool:
    """Return True for a JSON object or list: no supplier may put HTML on our origin."""
    try:
        return isinstance(msgspec.json.decode(body), dict | list)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def mask_in_body(body: bytes, secrets: Sequence[str]) -> bytes:
    """Return the body of an error without these secrets."""
    in_strings = is_json(body)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        if in_strings:
            body = replace_in_strings(body, secret, _MASK)
        else:
            body = body.replace(secret.encode(), _MASK.encode())
    return body


def mask_in_events(events: bytes, secrets: Sequence[str]) -> bytes:
    """Return whole events of a stream, of which one is an error, without these secrets."""
    lines = events.splitlines(keepends=True)
    return b"".join(_mask_in_line(line, secrets) for line in lines)


def _mask_in_line(line: bytes, secrets: Sequence[str]) -> bytes:
    name, colon, value = line.partition(b":")
    return name + colon + mask_in_body(value, secrets)
