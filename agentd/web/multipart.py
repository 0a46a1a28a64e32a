"""Files in a form (RFC 7578), told while they come."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest

FIELD_LIMIT = 4096
"""Bytes of a field that is no file."""

_HEADERS = 8


class File(Struct, frozen=True):
    """A file begins; ``type`` is what its sender says that it is."""

    name: str
    type: str


class End(Struct, frozen=True):
    """The file that began last is whole."""


class Field(Struct, frozen=True):
    """A field that is no file, with its whole value."""

    name: str
    value: str


Event: TypeAlias = File | bytes | End | Field


async def files(
    content_type: str, body: AsyncIterator[bytes], most: int, fields: Collection[str] = ()
) -> AsyncGenerator[Event, None]:
    """Yield each file's beginning, its bytes and its end, and the ``fields`` of these names.

    Other fields that are no files are passed over. Raises ``BadRequest`` for a body that is no
    form, for one that ends in the middle, for more than ``most`` fields, and for one of the
    ``fields`` that is longer than ``FIELD_LIMIT``.
    """
    import multipart  # noqa: PLC0415 - for the first form

    try:
        boundary = multipart.parse_options_header(content_type)[1].get("boundary", "")
        parser = multipart.PushMultipartParser(
            boundary, max_segment_count=most, max_header_count=_HEADERS
        )
        is_file = False
        field: _FieldReader | None = None
        async for portion in body:
            for event in parser.parse(portion):
                if isinstance(event, multipart.MultipartSegment):
                    is_file = event.filename is not None
                    field = _FieldReader(event.name) if event.name in fields else None
                    if is_file:
                        yield File(event.filename or "", event.content_type or "")
                elif is_file:
                    yield End() if event is None else bytes(event)
                elif field and event is None:
                    yield field.read()
                elif field:
                    field.feed(event)
        parser.close()
    except multipart.MultipartError as error:
        raise BadRequest("The body is no form with files", str(error)) from error


class _FieldReader:
    """Collects the value of one field, within the limit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._value = bytearray()

    def feed(self, portion: bytes | bytearray) -> None:
        self._value += portion
        if len(self._value) > FIELD_LIMIT:
            raise BadRequest(f"The field {self._name!r} of the form is too long")

    def read(self) -> Field:
        try:
            return Field(self._name, self._value.decode())
        except UnicodeDecodeError:
            raise BadRequest(f"The field {self._name!r} of the form is not UTF-8") from None
