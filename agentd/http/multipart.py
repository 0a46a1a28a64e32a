"""Files and fields of a multipart form (RFC 7578), read as a stream."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from agentd.core.errors import BadRequest

FIELD_LIMIT = 4096
"""The most bytes of a field that is not a file."""

_MAX_HEADERS = 8
_EXTENDED_NAME = re.compile(
    r""";\s*filename\*\s*=\s*"?(?P<charset>utf-8|iso-8859-1)'[\w-]*'(?P<value>[^\s;"]*)""",
    re.IGNORECASE,
)


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
                    name = _find_extended_name(event["Content-Disposition"]) or event.filename
                    is_file = name is not None
                    field = _FieldReader(event.name) if event.name in fields else None
                    if name is not None:
                        yield FileStart(name, event.content_type or "")
                elif is_file:
                    yield FileEnd() if event is None else bytes(event)
                elif field and event is None:
                    yield field.read()
                elif field:
                    field.feed(event)
        parser.close()
    except multipart.MultipartError as error:
        # What follows the first argument is the cause, with a part of the body.
        why = str(error.args[0]) if error.args else ""
        raise BadRequest("The body is not a valid multipart form", why) from error


def _find_extended_name(disposition: str) -> str | None:
    """Find a name such as ``filename*=utf-8''na%C3%AFve.txt`` (RFC 5987).

    Forms need none, but some clients send them (.NET, older ones in Python), and a plain name
    beside them, if any, has other letters.
    """
    if not (found := _EXTENDED_NAME.search(disposition)):
        return None
    try:
        return unquote(found["value"], found["charset"], "strict")
    except UnicodeDecodeError:
        return None


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
