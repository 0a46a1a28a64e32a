"""How many tokens a request has at most, told from its bytes, before any supplier counts them.

A token is taken to be three letters or spaces, two bytes of a character that is not ASCII, or one
and a half of anything else (digits, signs, escapes); a picture is ``PICTURE`` tokens whatever its
size, and tools ask for a preamble of ``TOOLS``. Vendors' tokenisers have four letters and more to
a token in prose, two to four bytes in code, and one to one and a half tokens to a Chinese
character. Only of text that is no language (keys, base64 outside of pictures) they make more.

The rule is never less for more bytes. It is what is reserved, and what is answered where nobody
else counts; what is booked is the supplier's own count.
"""

from zlib import adler32

import msgspec
from msgspec import Struct
from msgspec.json import encode

PICTURE = 5000
"""Tokens of a picture; Anthropic's largest has 4,784, OpenAI's mostly fewer than 2,000."""

TOOLS = 700
"""Tokens of what suppliers tell a model about the use of tools, beside their declarations."""


class _Reply(Struct):
    """What a model said, under each dialect's name for it."""

    choices: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    candidates: msgspec.Raw = msgspec.Raw()


_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
_SIXTHS = bytes(3 if byte > 127 else 2 if byte in _PLAIN else 4 for byte in range(256))
"""What each byte is worth, in sixths of a token."""

_ADDED_AT_ONCE = 16_000
"""Bytes that are worth less together than the 65,521 at which Adler's sum begins anew."""


def tokens(body: bytes) -> int:
    """The most tokens of a request's JSON, or of any text; never raises."""
    pictures, sixths = 0, _sixths(body)
    if b"image" in body:
        shown = _pictures(body)
        pictures = len(shown)
        sixths -= sum(map(_sixths, shown))
    return -(-sixths // 6) + PICTURE * pictures + (TOOLS if b'"tools"' in body else 0)


def written(body: bytes) -> int:
    """The most tokens of a whole reply in any dialect, of which only what was said counts.

    Beside that, a reply of the Responses API repeats the request: its instructions, its tools.
    """
    try:
        reply = msgspec.json.decode(body, type=_Reply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return tokens(body)
    said = b"".join(getattr(reply, field) for field in reply.__struct_fields__)
    return tokens(said or body)


def as_anthropic(count: int) -> bytes:
    """The answer of ``POST /v1/messages/count_tokens``."""
    return encode({"input_tokens": count})


def as_gemini(count: int) -> bytes:
    """The answer of ``POST /v1beta/models/{name}:countTokens``."""
    return encode({"totalTokens": count})


def _sixths(text: bytes) -> int:
    """The lower half of Adler-32 is one more than the sum of the bytes: nothing adds them faster.

    A request of 400 KB is counted on the loop, so it matters.
    """
    worth = memoryview(text.translate(_SIXTHS))
    return sum(
        (adler32(worth[begin : begin + _ADDED_AT_ONCE]) & 0xFFFF) - 1
        for begin in range(0, len(worth), _ADDED_AT_ONCE)
    )


def _pictures(body: bytes) -> list[bytes]:
    """The bytes of each picture as they stand in the request; empty for one that is linked."""
    try:
        level = [msgspec.json.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    found: list[bytes] = []
    while level:
        value = level.pop()
        if isinstance(value, dict):
            picture = _picture(value)
            if picture is not None:
                found.append(picture)
            level += value.values()
        elif isinstance(value, list):
            level += value
    return found


def _picture(value: dict[str, object]) -> bytes | None:
    """The picture that this part of a request is, if it is one."""
    match value:
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            head, _, data = url.partition(",")
            return data.encode() if head.startswith("data:image/") else b""
        case {"type": "image", "source": dict(source)}:
            inside = source.get("data")
            return inside.encode() if isinstance(inside, str) else b""
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} | {
            "inline_data": {"mime_type": str(kind), "data": str(data)}
        }:
            return data.encode() if kind.startswith("image/") else None
    return None
