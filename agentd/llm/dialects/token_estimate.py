"""An upper estimate of a request's tokens from its bytes, before any supplier counts them.

A token is taken to be three letters or spaces, two bytes of a non-ASCII character, or one and a
half of anything else (digits, punctuation, escapes). An image counts ``IMAGE_TOKENS`` whatever its
size, and a request with tools ``TOOL_PREAMBLE_TOKENS`` more. Vendors' tokenizers have four and more
letters per token in prose, two to four bytes in code, and 1 to 1.5 tokens per Chinese character;
only text that is no language (keys, base64 outside of images) gets more tokens than this.

More bytes never give a smaller estimate. It is used for reservations, and as the answer where
nobody else counts; what is recorded as spend is the supplier's own count.
"""

from zlib import adler32

import msgspec
from msgspec import Struct
from msgspec.json import encode

IMAGE_TOKENS = 5000
"""Tokens of a picture; Anthropic's largest has 4,784, OpenAI's mostly fewer than 2,000."""

TOOL_PREAMBLE_TOKENS = 700
"""Tokens of the suppliers' instructions for using tools, beside their declarations."""


class _Reply(Struct):
    """A model's reply, under each dialect's name for it."""

    choices: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()
    content: msgspec.Raw = msgspec.Raw()
    candidates: msgspec.Raw = msgspec.Raw()


_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
_SIXTHS = bytes(3 if byte > 127 else 2 if byte in _PLAIN else 4 for byte in range(256))
"""The weight of each byte, in sixths of a token."""

_ADDED_AT_ONCE = 16_000
"""Bytes whose sum stays below 65,521, where Adler's sum wraps around."""


def estimate_tokens(body: bytes) -> int:
    """Return an upper estimate of the tokens of a request's JSON, or of any text; never raises."""
    pictures, sixths = 0, _count_sixths(body)
    if b"image" in body:
        shown = _find_images(body)
        pictures = len(shown)
        sixths -= sum(map(_count_sixths, shown))
    return (
        -(-sixths // 6)
        + IMAGE_TOKENS * pictures
        + (TOOL_PREAMBLE_TOKENS if b'"tools"' in body else 0)
    )


def estimate_reply_tokens(body: bytes) -> int:
    """Return an upper estimate of a whole reply's tokens in any dialect, counting only its output.

    A Responses API response also repeats the request, with its instructions and tools.
    """
    try:
        reply = msgspec.json.decode(body, type=_Reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return estimate_tokens(body)
    text = b"".join(getattr(reply, field) for field in reply.__struct_fields__)
    return estimate_tokens(text or body)


def render_anthropic_count(count: int) -> bytes:
    """Build the response of ``POST /v1/messages/count_tokens``."""
    return encode({"input_tokens": count})


def render_gemini_count(count: int) -> bytes:
    """Build the response of ``POST /v1beta/models/{name}:countTokens``."""
    return encode({"totalTokens": count})


def _count_sixths(text: bytes) -> int:
    """Sum the bytes' weights by Adler-32, whose lower half is one more than the sum.

    Nothing in the standard library adds bytes faster, and requests of 400 KB are counted on the
    loop.
    """
    worth = memoryview(text.translate(_SIXTHS))
    return sum(
        (adler32(worth[begin : begin + _ADDED_AT_ONCE]) & 0xFFFF) - 1
        for begin in range(0, len(worth), _ADDED_AT_ONCE)
    )


def _find_images(body: bytes) -> list[bytes]:
    """Return the bytes of each image as written in the request; empty for linked ones."""
    try:
        level = [msgspec.json.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    found: list[bytes] = []
    while level:
        value = level.pop()
        if isinstance(value, dict):
            picture = _read_image(value)
            if picture is not None:
                found.append(picture)
            level += value.values()
        elif isinstance(value, list):
            level += value
    return found


def _read_image(value: dict[str, object]) -> bytes | None:
    """Return the bytes of the image if this part of a request is one."""
    match value:
        case {"image_url": {"url": str(url)}} | {"image_url": str(url)}:
            head, _, data = url.partition(",")
            return data.encode() if head.startswith("data:image/") else b""
        case {"type": "image", "source": dict(source)}:
            inside = source.get("data")
            return inside.encode() if isinstance(inside, str) else b""
        case {"inlineData": dict(blob)} | {"inline_data": dict(blob)}:
            return _read_blob(blob)
    return None


def _read_blob(blob: dict[str, object]) -> bytes | None:
    """Return the bytes of Gemini's image; Google's Python library mixes both forms of names."""
    match blob:
        case {"mimeType": str(kind), "data": str(data)} | {
            "mime_type": str(kind),
            "data": str(data),
        }:
            return data.encode() if kind.startswith("image/") else None
    return None
