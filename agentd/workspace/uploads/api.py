"""Files for the agent: uploaded into its folder, listed, fetched and deleted.

Source: the remote-control specification, section 4, 'Extended surface'; paths below the
specification's prefix are ours.
"""

from contextlib import AsyncExitStack, aclosing
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from msgspec import Struct

from agentd.core.clock import Clock
from agentd.core.errors import BadRequest, Conflict, Forbidden, LimitReached, NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.multipart import FileEnd, FileStart, read_form
from agentd.http.request import ChunkStream, Request, Response
from agentd.http.routing import MULTIPART_FORM, Route, Schema, StreamedBody
from agentd.workspace.uploads.rules import (
    FOLDER,
    KINDS,
    LARGEST,
    LARGEST_REQUEST,
    MOST_AT_ONCE,
    MOST_BYTES,
    MOST_FILES,
    MOST_UNDER_WAY,
    TEXT,
    Inspection,
    Upload,
    make_safe_name,
)
from agentd.workspace.views import FileView, make_file_view


class UploadedView(Struct, frozen=True):
    """The stored files, in the order of the request."""

    files: list[FileView]


class FilesView(Struct, frozen=True, rename="camel"):
    """The files in the upload folder, the newest first, and how much it takes."""

    folder: str
    files: list[FileView]
    bytes_used: int
    max_bytes: int
    max_files: int
    max_file_bytes: int


class UploadDraft(Protocol):
    """A file that is on its way."""

    async def write(self, data: bytes) -> None:
        """Append data."""
        ...

    async def discard(self) -> None:
        """Remove the file, unless it was kept."""
        ...


D = TypeVar("D", bound=UploadDraft)


class UploadStore(Protocol[D]):
    """The upload folder (``workspace.uploads.store.UploadFolder``)."""

    async def begin(self) -> D:
        """Create a file that has no name yet."""
        ...

    async def keep(self, drafts: list[tuple[D, str]]) -> list[Upload]:
        """Give files their names: all of them, or none."""
        ...

    async def list_uploads(self) -> list[Upload]:
        """List all files."""
        ...

    async def remove(self, name: str) -> None:
        """Delete a file."""
        ...

    async def read(self, name: str) -> tuple[Upload, ChunkStream]:
        """Return a file and its bytes."""
        ...


class UploadEndpoints(Generic[D]):
    """The endpoints below ``/api/files``."""

    def __init__(self, folder: UploadStore[D], clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._under_way = 0

    async def upload_files(self, call: Request) -> Response:
        """Store the files of a form: all of them, or none."""
        assert call.body_stream
        kept: list[tuple[D, str]] = []
        async with self._count_request() as stack:
            events = read_form(call.headers.get("Content-Type", ""), call.body_stream, MOST_AT_ONCE)
            await stack.enter_async_context(aclosing(events))
            async for event in events:
                if isinstance(event, FileStart):
                    name, inspection = event.name, Inspection(event.type)
                    draft = await self._begin(stack)
                elif isinstance(event, FileEnd):
                    kept.append(
                        (draft, make_safe_name(name, inspection.end(), self._make_stem("file")))
                    )
                elif isinstance(event, bytes):
                    inspection.feed(event)
                    await draft.write(event)
            if not kept:
                raise BadRequest("There is no file in the form", "Give a field a file name.")
            return _make_uploaded_response(await self._folder.keep(kept))

    async def upload_clipboard(self, call: Request) -> Response:
        """Store an image that is the body itself."""
        assert call.body_stream
        async with self._count_request() as stack:
            inspection = Inspection("", only="image")
            draft = await self._begin(stack)
            async for portion in call.body_stream:
                inspection.feed(portion)
                await draft.write(portion)
            name = make_safe_name("", inspection.end(), self._make_stem("clipboard"))
            return _make_uploaded_response(await self._folder.keep([(draft, name)]))

    async def list_files(self, _: Request) -> Response:
        """List the upload folder."""
        found = await self._folder.list_uploads()
        used = sum(one.size for one in found)
        views = [make_file_view(one) for one in found]
        return Response(FilesView(FOLDER, views, used, MOST_BYTES, MOST_FILES, LARGEST))

    async def fetch_file(self, call: Request) -> Response:
        """Return one file as an attachment, never as a page."""
        upload, portions = await self._folder.read(call.get_name())
        kind = f"{TEXT.type}; charset=utf-8" if upload.type == TEXT.type else upload.type
        headers = {
            "Content-Type": kind,
            "Content-Length": str(upload.size),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(upload.name, safe='')}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return Response(headers=headers, chunks=portions)

    async def delete_file(self, call: Request) -> Response:
        """Delete one file."""
        await self._folder.remove(call.get_name())
        return Response(status=204)

    def _count_request(self) -> AsyncExitStack:
        """Count the request while it runs; discard what it began and did not keep."""
        if self._under_way >= MOST_UNDER_WAY:
            raise LimitReached("Too many uploads at the same time", retry_after=5)
        self._under_way += 1
        stack = AsyncExitStack()
        stack.callback(self._uncount_request)
        return stack

    def _uncount_request(self) -> None:
        self._under_way -= 1

    async def _begin(self, stack: AsyncExitStack) -> D:
        draft = await self._folder.begin()
        stack.push_async_callback(draft.discard)
        return draft

    def _make_stem(self, what: str) -> str:
        """Make a name such as ``clipboard-20260101-120000``, in UTC."""
        digits = self._clock.now().replace("-", "").replace(":", "").replace("T", "-")
        return f"{what}-{digits[:15]}"


def _make_uploaded_response(kept: list[Upload]) -> Response:
    return Response(UploadedView([make_file_view(one) for one in kept]), 201)


_FILES: Schema = {
    "type": "object",
    "properties": {
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    },
    "required": ["files"],
}


_SECTION = "4, extended surface"


def routes(endpoints: UploadEndpoints[Any]) -> tuple[Route, ...]:
    """Return the routes of uploads."""
    return (*_list_upload_routes(endpoints), *_list_file_routes(endpoints))


def _list_upload_routes(endpoints: UploadEndpoints[Any]) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/api/files",
            RouteGroup.EXTENDED,
            endpoints.upload_files,
            "Upload files, each a field of a form with a file name; all are stored, or none.",
            upload=StreamedBody((MULTIPART_FORM,), LARGEST_REQUEST, _FILES),
            response_type=UploadedView,
            status=201,
            errors=(BadRequest, Conflict, Forbidden, LimitReached, Unavailable),
            section=_SECTION,
        ),
        Route(
            "POST",
            "/api/files/clipboard",
            RouteGroup.EXTENDED,
            endpoints.upload_clipboard,
            "Upload a picture, such as from the clipboard; the body is its bytes.",
            upload=StreamedBody(("image/*", "application/octet-stream"), LARGEST),
            response_type=UploadedView,
            status=201,
            errors=(BadRequest, Conflict, Forbidden, LimitReached, Unavailable),
            section=_SECTION,
        ),
    )


def _list_file_routes(endpoints: UploadEndpoints[Any]) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/api/files",
            RouteGroup.EXTENDED,
            endpoints.list_files,
            "The uploaded files, the newest first.",
            response_type=FilesView,
            errors=(Forbidden, Unavailable),
            section=_SECTION,
        ),
        Route(
            "GET",
            "/api/files/{name}",
            RouteGroup.EXTENDED,
            endpoints.fetch_file,
            "Download one uploaded file.",
            extra_media_types=tuple(kind.type for kind in KINDS),
            errors=(BadRequest, Forbidden, NotFound, Unavailable),
            section=_SECTION,
        ),
        Route(
            "DELETE",
            "/api/files/{name}",
            RouteGroup.EXTENDED,
            endpoints.delete_file,
            "Delete an uploaded file.",
            status=204,
            errors=(BadRequest, Forbidden, NotFound, Unavailable),
            section=_SECTION,
        ),
    )
