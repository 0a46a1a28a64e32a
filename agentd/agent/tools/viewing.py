"""Files that a model looks at: images, PDFs, and notebooks with their outputs. Pure."""

import base64
import binascii
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from agentd.agent.tools.results import ViewedFile, ViewedPart
from agentd.core.errors import BadRequest

LARGEST_IMAGE = 3_750_000
"""Bytes; as base64 they are the five million that suppliers take."""
LARGEST_PDF = 10 * 2**20
LARGEST_NOTEBOOK = 8 * 2**20
LARGEST_VIEWED = max(LARGEST_IMAGE, LARGEST_PDF, LARGEST_NOTEBOOK)
_MOST_PICTURES = 8
"""The most pictures of one notebook."""
_LONGEST_OUTPUT = 2_000
"""Characters of one output of a cell."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_PDF = "application/pdf"


class _Output(Struct):
    output_type: str = ""
    text: str | list[str] = ""
    data: dict[str, object] = {}
    ename: str = ""
    evalue: str = ""


class _Cell(Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    outputs: list[_Output] = []


class _Notebook(Struct):
    cells: list[_Cell]


def view_file(path: str, content: bytes) -> ViewedFile:
    """Return a file in a form that models can view; ``BadRequest`` if there is none."""
    if path.lower().endswith(".ipynb"):
        return _view_notebook(path, content)
    kind = find_media_type(content)
    if not kind:
        raise BadRequest(
            f"{path} is not an image (PNG, JPEG, GIF, WebP), PDF or notebook; read_file reads text."
        )
    limit = LARGEST_PDF if kind == _PDF else LARGEST_IMAGE
    if len(content) > limit:
        raise BadRequest(f"{path} is larger than {limit:,} bytes, too large to look at.")
    shown = ViewedPart(kind, base64.b64encode(content).decode())
    return ViewedFile(path, "PDF" if kind == _PDF else "image", len(content), attachments=(shown,))


def find_media_type(content: bytes) -> str:
    """Return the media type of an image or PDF by its first bytes; empty for anything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if content.startswith(magic)), "")


def _view_notebook(path: str, content: bytes) -> ViewedFile:
    if len(content) > LARGEST_NOTEBOOK:
        raise BadRequest(f"{path} is larger than {LARGEST_NOTEBOOK:,} bytes, too large to look at.")
    try:
        notebook = msgspec.json.decode(content, type=_Notebook)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{path} is not a notebook of Jupyter: {error}.") from error
    pictures: list[ViewedPart] = []
    lines = list(_render_cells(notebook.cells, pictures))
    return ViewedFile(path, "notebook", len(content), "\n".join(lines), tuple(pictures))


def _render_cells(cells: Iterable[_Cell], pictures: list[ViewedPart]) -> Iterator[str]:
    for number, cell in enumerate(cells, 1):
        yield f"# Cell {number} ({cell.cell_type})"
        yield _join(cell.source)
        for output in cell.outputs:
            yield from _render_output(output, pictures)


def _render_output(output: _Output, pictures: list[ViewedPart]) -> Iterator[str]:
    text = _join(output.text) or _join(output.data.get("text/plain", ""))
    if output.ename:
        text = f"{output.ename}: {output.evalue}"
    if len(text) > _LONGEST_OUTPUT:
        text = f"{text[:_LONGEST_OUTPUT]}\n… {len(text) - _LONGEST_OUTPUT:,} more characters"
    if text:
        yield f"## Output\n{text}"
    for kind in ("image/png", "image/jpeg"):
        picture = read_picture(_join(output.data.get(kind, "")))
        if picture and len(pictures) < _MOST_PICTURES:
            pictures.append(picture)
            yield f"## Output: picture {len(pictures)}"


def read_picture(data: str) -> ViewedPart | None:
    """Return a picture given as base64, with the type that its bytes have; None where it is none.

    Suppliers refuse a request with a picture of another type, or whose base64 is not clean.
    """
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = find_media_type(content)
    if len(content) > LARGEST_IMAGE or not kind.startswith("image/"):
        return None
    return ViewedPart(kind, base64.b64encode(content).decode())


def _join(text: object) -> str:
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""
