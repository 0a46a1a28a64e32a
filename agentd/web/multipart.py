"""Files in a form (RFC 7578), told while they come."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest

_HEADERS = 8


class File(Struct, frozen=True):
    """A file begins; ``type`` is what its sender says that it is."""

    name: str
    type: str


class End(Struct, frozen=True):
    """The file that began last is whole."""


Event: TypeAlias = File | bytes | End


async def files(
    content_type: str, body: AsyncIterator[bytes], most: int
) -> AsyncGenerator[Event, None]:
    """Each file's beginning, its bytes and its end; fields that are no files are passed over.

    Raises ``BadRequest`` for a body that is no form, for one that ends in the middle, and for
    more than ``most`` fields.
    """
    import multipart  # noqa: PLC0415 - for the first form

    try:
        boundary = multipart.parse_options_header(content_type)[1].get("boundary", "")
        parser = multipart.PushMultipartParser(
            boundary, max_segment_count=most, max_header_count=_HEADERS
        )
        is_file = False
        async for portion in body:
            for event in parser.parse(portion):
                if isinstance(event, multipart.MultipartSegment):
                    is_file = event.filename is not None
                    if is_file:
                        yield File(event.filename or "", event.content_type or "")
                elif is_file:
                    yield End() if event is None else bytes(event)
        parser.close()
    except multipart.MultipartError as error:
        raise BadRequest("The body is no form with files", str(error)) from error
