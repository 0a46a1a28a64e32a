"""Files for the agent: uploaded into its folder, listed, fetched and deleted.

Source: the remote-control specification, section 4, 'Extended surface'; paths below the
specification's prefix are ours.
"""

from contextlib import AsyncExitStack, aclosing
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

from msgspec import Struct

from agentd.clock import Clock
from agentd.errors import BadRequest, LimitReached
from agentd.web.call import Answer, Call, Portions
from agentd.web.multipart import End, File, files
from agentd.web.place_views import FileView, file_view
from agentd.workspace.uploads import (
    FOLDER,
    LARGEST,
    MOST_AT_ONCE,
    MOST_BYTES,
    MOST_FILES,
    MOST_UNDER_WAY,
    TEXT,
    Inspection,
    Upload,
    safe_name,
)


class UploadedView(Struct, frozen=True):
    """The files that were kept, in the order in which they came."""

    files: list[FileView]


class FilesView(Struct, frozen=True, rename="camel"):
    """The files in the upload folder, the newest first, and how much it takes."""

    folder: str
    files: list[FileView]
    bytes_used: int
    most_bytes: int
    most_files: int
    largest_file: int


class Draft(Protocol):
    """A file that is on its way."""

    async def write(self, data: bytes) -> None:
        """Go on with it."""
        ...

    async def discard(self) -> None:
        """Leave nothing of it, unless it was kept."""
        ...


D = TypeVar("D", bound=Draft)


class Folder(Protocol[D]):
    """The upload folder (``outside.uploads.UploadFolder``)."""

    async def begin(self) -> D:
        """A new file, without a name yet."""
        ...

    async def keep(self, drafts: list[tuple[D, str]]) -> list[Upload]:
        """Give files their names: all of them, or none."""
        ...

    async def listed(self) -> list[Upload]:
        """All files."""
        ...

    async def remove(self, name: str) -> None:
        """Delete a file."""
        ...

    async def read(self, name: str) -> tuple[Upload, Portions]:
        """A file and its bytes."""
        ...


class Files(Generic[D]):
    """The endpoints below ``/api/files``."""

    def __init__(self, folder: Folder[D], clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._under_way = 0

    async def upload_files(self, call: Call) -> Answer:
        """Files in a form: all are kept, or none."""
        assert call.incoming
        kept: list[tuple[D, str]] = []
        async with self._taking() as stack:
            events = files(call.headers.get("Content-Type", ""), call.incoming, MOST_AT_ONCE)
            await stack.enter_async_context(aclosing(events))
            async for event in events:
                if isinstance(event, File):
                    name, inspection = event.name, Inspection(event.type)
                    draft = await self._begin(stack)
                elif isinstance(event, End):
                    kept.append((draft, safe_name(name, inspection.end(), self._stem("file"))))
                elif isinstance(event, bytes):
                    inspection.feed(event)
                    await draft.write(event)
            if not kept:
                raise BadRequest("There is no file in the form", "Give a field a file name.")
            return _uploaded(await self._folder.keep(kept))

    async def upload_clipboard(self, call: Call) -> Answer:
        """A picture as the body itself."""
        assert call.incoming
        async with self._taking() as stack:
            inspection = Inspection("", only="image")
            draft = await self._begin(stack)
            async for portion in call.incoming:
                inspection.feed(portion)
                await draft.write(portion)
            name = safe_name("", inspection.end(), self._stem("clipboard"))
            return _uploaded(await self._folder.keep([(draft, name)]))

    async def list_files(self, _: Call) -> Answer:
        """What is in the upload folder."""
        found = await self._folder.listed()
        used = sum(one.size for one in found)
        views = [file_view(one) for one in found]
        return Answer(FilesView(FOLDER, views, used, MOST_BYTES, MOST_FILES, LARGEST))

    async def fetch_file(self, call: Call) -> Answer:
        """One file, to be saved and never shown as a page."""
        upload, portions = await self._folder.read(call.name())
        kind = f"{TEXT.type}; charset=utf-8" if upload.type == TEXT.type else upload.type
        headers = {
            "Content-Type": kind,
            "Content-Length": str(upload.size),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(upload.name, safe='')}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return Answer(headers=headers, portions=portions)

    async def delete_file(self, call: Call) -> Answer:
        """Delete one file."""
        await self._folder.remove(call.name())
        return Answer(status=204)

    def _taking(self) -> AsyncExitStack:
        """For the time of one request; what was begun in it and not kept is discarded."""
        if self._under_way >= MOST_UNDER_WAY:
            raise LimitReached("Too many uploads at the same time", retry_after=5)
        self._under_way += 1
        stack = AsyncExitStack()
        stack.callback(self._taken)
        return stack

    def _taken(self) -> None:
        self._under_way -= 1

    async def _begin(self, stack: AsyncExitStack) -> D:
        draft = await self._folder.begin()
        stack.push_async_callback(draft.discard)
        return draft

    def _stem(self, what: str) -> str:
        """Such as ``clipboard-20260101-120000``, in UTC."""
        digits = self._clock.now().replace("-", "").replace(":", "").replace("T", "-")
        return f"{what}-{digits[:15]}"


def _uploaded(kept: list[Upload]) -> Answer:
    return Answer(UploadedView([file_view(one) for one in kept]), 201)
