"""Files and fields of a multipart form (RFC 7578), read as a stream."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest

FIELD_LIMIT = 4096
"""The most bytes of a field that is not a file."""

_MAX_HEADERS = 8


class FileStart(Struct, frozen=True):
    """A file begins; ``type`` is the media type that the client claims."""

    name: str
    type: str


class FileEnd(Struct, frozen=True):
    """The file that began last is complete."""


class FormField(Struct, frozen=True):
    """A field that is not a file, with its whole value."""

    name: str
    value: str


FormEvent: TypeAlias = FileStart | bytes | FileEnd | FormField


async def read_form(
    content_type: str, body: AsyncIterator[bytes], most: int, fields: Collection[str] = ()
) -> AsyncGenerator[FormEvent, None]:
    """Yield each file's start, its bytes and its end, and the fields named in ``fields``.

    Other fields that are not files are skipped. Raises ``BadRequest`` for a body that is not a
    form, for one that is cut off, for more than ``most`` parts, and for one of the ``fields``
    that is longer than ``FIELD_LIMIT``.
    """
    import multipart  # noqa: PLC0415 - loaded with the first form only

    try:
        boundary = multipart.parse_options_header(content_type)[1].get("boundary", "")
        parser = multipart.PushMultipartParser(
            boundary, max_segment_count=most, max_header_count=_MAX_HEADERS
        )
        is_file = False
        field: _FieldReader | None = None
        async for chunk in body:
            for event in parser.parse(chunk):
                if isinstance(event, multipart.MultipartSegment):
                    is_file = event.filename is not None
                    field = _FieldReader(event.name) if event.name in fields else None
                    if is_file:
                        yield FileStart(event.filename or "", event.content_type or "")
                elif is_file:
                    yield FileEnd() if event is None else bytes(event)
                elif field and event is None:
                    yield field.read()
                elif field:
                    field.feed(event)
        parser.close()
    except multipart.MultipartError as error:
        raise BadRequest("The body is not a valid multipart form", str(error)) from error


class _FieldReader:
    """Collects the value of one field, within the limit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._value = bytearray()

    def feed(self, chunk: bytes | bytearray) -> None:
        self._value += chunk
        if len(self._value) > FIELD_LIMIT:
            raise BadRequest(f"The field {self._name!r} of the form is too long")

    def read(self) -> FormField:
        try:
            return FormField(self._name, self._value.decode())
        except UnicodeDecodeError:
            raise BadRequest(f"The field {self._name!r} of the form is not UTF-8") from None
