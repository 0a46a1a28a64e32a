"""The workspace's folders and files over HTTP, read-only.

Paths below the specification's prefix ``/api`` are ours.
"""

from typing import Protocol

from msgspec import Struct

from agentd.agent.tools.results import DirListing
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route, Schema
from agentd.system.folder import EntryKind
from agentd.workspace.browse.reader import LONGEST_SEARCH, FileKind, WorkspaceFile, WorkspaceMatches


class EntryView(Struct, frozen=True):
    """An entry of a folder; ``path`` is relative to the workspace, ``size`` in bytes."""

    path: str
    kind: EntryKind
    size: int


class FolderView(Struct, frozen=True):
    """The entries of a folder, folders first; ``truncated`` when there are more."""

    path: str
    entries: list[EntryView]
    truncated: bool


class FileContentView(Struct, frozen=True):
    """A file: the ``text`` of a text file, ``truncated`` when only its beginning is returned."""

    path: str
    kind: FileKind
    size: int
    text: str
    truncated: bool


class LineView(Struct, frozen=True):
    """A line that contains the text; a long one is cut around it."""

    path: str
    line: int
    text: str


class WorkspaceSearchView(Struct, frozen=True):
    """Files whose name matches, and lines that contain the text."""

    files: list[str]
    lines: list[LineView]
    truncated: bool


class FileReader(Protocol):
    """The workspace (``workspace.browse.reader.WorkspaceReader``)."""

    async def list_folder(self, path: str) -> DirListing:
        """List a folder."""
        ...

    async def read_file(self, path: str) -> WorkspaceFile:
        """Read a file."""
        ...

    async def read_image(self, path: str) -> tuple[str, bytes]:
        """Return the media type and the bytes of an image."""
        ...

    async def search(self, text: str, path: str) -> WorkspaceMatches:
        """Find files by name and lines by text."""
        ...


class BrowseEndpoints:
    """The endpoints below ``/api/workspace``."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader

    async def get_folder(self, request: Request) -> Response:
        """Return the entries of a folder."""
        found = await self._reader.list_folder(request.get_query("path") or "")
        entries = [EntryView(one.path, one.kind, one.size) for one in found.entries]
        return Response(FolderView(found.path, entries, found.truncated))

    async def get_file(self, request: Request) -> Response:
        """Return a file's text, or what kind it is."""
        file = await self._reader.read_file(_get_path(request))
        return Response(FileContentView(file.path, file.kind, file.size, file.text, file.truncated))

    async def get_image(self, request: Request) -> Response:
        """Return an image's bytes."""
        kind, data = await self._reader.read_image(_get_path(request))
        headers = {
            "Content-Type": kind,
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        return Response(data, headers=headers)

    async def search(self, request: Request) -> Response:
        """Find files by name and lines by text."""
        text = request.get_query("text") or ""
        found = await self._reader.search(text, request.get_query("path") or "")
        return Response(
            WorkspaceSearchView(
                [one.path for one in found.files.entries],
                [LineView(one.path, one.line, one.text) for one in found.lines.hits],
                found.files.truncated or found.lines.truncated,
            )
        )


def _get_path(request: Request) -> str:
    path = request.get_query("path")
    if not path:
        raise NotFound("No file is named", "Send its path: ?path=…")
    return path


_TEXT: Schema = {"type": "string", "maxLength": 4096}
_FOLDER = Parameter("path", "query", "A folder; the whole workspace when left out.", _TEXT)
_FILE = Parameter("path", "query", "The file.", _TEXT)
_SEARCHED: Schema = {"type": "string", "maxLength": LONGEST_SEARCH}
_WANTED = Parameter(
    "text",
    "query",
    "Part of a name (* and ? stand for any characters), or of a line; case matters in lines if it"
    " has capitals.",
    _SEARCHED,
)
_ERRORS = (BadRequest, Conflict, Forbidden, NotFound, Unavailable)


def routes(endpoints: BrowseEndpoints) -> tuple[Route, ...]:
    """Return the routes of folders, files, images and the search."""
    group, path = RouteGroup.EXTENDED, "/api/workspace"
    return (
        Route(
            "GET",
            f"{path}/folder",
            group,
            endpoints.get_folder,
            "The entries of a folder of the workspace, folders first.",
            operation_id="get_workspace_folder",
            response_type=FolderView,
            errors=_ERRORS,
            parameters=(_FOLDER,),
        ),
        Route(
            "GET",
            f"{path}/file",
            group,
            endpoints.get_file,
            "A file of the workspace: its text, up to 1 MiB, or whether it is an image.",
            operation_id="get_workspace_file",
            response_type=FileContentView,
            errors=_ERRORS,
            parameters=(_FILE,),
        ),
        Route(
            "GET",
            f"{path}/image",
            group,
            endpoints.get_image,
            "The bytes of an image of the workspace (PNG, JPEG, GIF, WebP, AVIF).",
            operation_id="get_workspace_image",
            extra_media_types=("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"),
            errors=_ERRORS,
            parameters=(_FILE,),
        ),
        Route(
            "GET",
            f"{path}/search",
            group,
            endpoints.search,
            "Files of the workspace by name, and lines by their text.",
            operation_id="search_workspace",
            response_type=WorkspaceSearchView,
            errors=_ERRORS,
            parameters=(_FOLDER, _WANTED),
        ),
    )
