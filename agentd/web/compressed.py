"""Bodies of requests that come compressed (``Content-Encoding``)."""

import asyncio

from agentd.errors import BadRequest, TooLarge
from agentd.wire.inflate import KNOWN, Inflater


async def decompressed(body: bytes, coding: str, limit: int) -> bytes:
    """Return the body as it was before it was compressed, off the loop.

    Raises ``BadRequest`` for another coding and for what is not of this one, and ``TooLarge``
    as soon as there are more than ``limit`` bytes.
    """
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding not in KNOWN:
        raise BadRequest(
            f"Bodies with the Content-Encoding {coding[:40]!r} are not taken; "
            "send it as gzip or deflate, or as it is"
        )
    return await asyncio.to_thread(_inflated, body, limit)


def _inflated(body: bytes, limit: int) -> bytes:
    inflater = Inflater()
    plain = bytearray()
    try:
        for portion in inflater.feed(body):
            plain += portion
            if len(plain) > limit:
                raise TooLarge(f"The body is too large: more than {limit} bytes, decompressed")
        for portion in inflater.finish():
            plain += portion
    except ValueError as error:
        raise BadRequest(f"The body cannot be decompressed: {error}") from None
    return bytes(plain)
