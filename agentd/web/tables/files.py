"""The rows below ``/api/files``."""

from typing import Any

from agentd.access.gate import Surface
from agentd.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LimitReached,
    NotFound,
    Unavailable,
)
from agentd.web import files as shapes
from agentd.web.files import Files
from agentd.web.table import FORM, Route, Schema, Streamed
from agentd.workspace.uploads import KINDS, LARGEST, LARGEST_REQUEST

_FILES: Schema = {
    "type": "object",
    "properties": {
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    },
    "required": ["files"],
}


def rows(desk: Files[Any]) -> tuple[Route, ...]:
    """Upload, list, fetch and delete."""
    door, section = Surface.EXTENDED, "4, extended surface"
    return (
        Route(
            "POST",
            "/api/files",
            door,
            desk.upload_files,
            "Upload files, each a field of a form with a file name; all are kept or none.",
            streams=Streamed((FORM,), LARGEST_REQUEST, _FILES),
            gives=shapes.UploadedView,
            status=201,
            errors=(BadRequest, Conflict, Forbidden, LimitReached, Unavailable),
            section=section,
        ),
        Route(
            "POST",
            "/api/files/clipboard",
            door,
            desk.upload_clipboard,
            "Upload a picture: the body is its bytes, as a clipboard has them.",
            streams=Streamed(("image/*", "application/octet-stream"), LARGEST),
            gives=shapes.UploadedView,
            status=201,
            errors=(BadRequest, Conflict, Forbidden, LimitReached, Unavailable),
            section=section,
        ),
        Route(
            "GET",
            "/api/files",
            door,
            desk.list_files,
            "The uploaded files, the newest first.",
            gives=shapes.FilesView,
            errors=(Forbidden, Unavailable),
            section=section,
        ),
        Route(
            "GET",
            "/api/files/{name}",
            door,
            desk.fetch_file,
            "One uploaded file, to be saved.",
            also=tuple(kind.type for kind in KINDS),
            errors=(BadRequest, Forbidden, NotFound, Unavailable),
            section=section,
        ),
        Route(
            "DELETE",
            "/api/files/{name}",
            door,
            desk.delete_file,
            "Delete an uploaded file.",
            status=204,
            errors=(BadRequest, Forbidden, NotFound, Unavailable),
            section=section,
        ),
    )
