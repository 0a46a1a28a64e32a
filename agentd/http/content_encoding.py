"""Compressed request bodies (``Content-Encoding``)."""

import asyncio

from agentd.core.errors import BadRequest, TooLarge
from agentd.core.inflate import SUPPORTED_ENCODINGS, Inflater


async def decompress_body(body: bytes, coding: str, limit: int) -> bytes:
    """Return the decompressed body; the work is done off the loop.

    Raises ``BadRequest`` for an unsupported coding and for invalid data, and ``TooLarge`` as soon
    as there are more than ``limit`` bytes.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in SUPPORTED_ENCODINGS:
        raise BadRequest(
            f"The Content-Encoding {coding[:40]!r} is not supported;"
            " send the body as gzip or deflate, or uncompressed"
        )
    return await asyncio.to_thread(_inflate, body, limit)


def _inflate(body: bytes, limit: int) -> bytes:
    inflater = Inflater()
    plain = bytearray()
    try:
        for chunk in inflater.feed(body):
            plain += chunk
            if len(plain) > limit:
                raise TooLarge(f"The body is too large: more than {limit} bytes, decompressed")
        for chunk in inflater.finish():
            plain += chunk
    except ValueError as error:
        raise BadRequest(f"The body cannot be decompressed: {error}") from None
    return bytes(plain)
