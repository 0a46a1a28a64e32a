"""The limits of uploads into the workspace: kinds of files, their names, their number.

The kind of a file is detected from its bytes, never its name or its sender. Allowed are images, PDF
and text in UTF-8; no archives, no programs. A name is a wish: what could lead out of the folder,
hide, or deceive a reader is taken out of it, and its suffix is made true.
"""

import codecs
import re
import unicodedata
from collections.abc import Collection
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, TooLarge, UnsupportedMedia
from agentd.core.folding import fold_text

FOLDER = "uploads"
"""Below the workspace."""
LARGEST = 25 * 2**20
"""Bytes of a file."""
MOST_AT_ONCE = 20
"""Files in a request."""
LARGEST_REQUEST = 100 * 2**20
MOST_FILES = 1000
MOST_BYTES = 2 * 2**30
"""All that the folder may hold, with ``MOST_FILES``."""
MOST_UNDER_WAY = 16
"""Requests with files at the same time."""
LONGEST_NAME = 180
"""Bytes of a name; a file system takes 255."""

Family: TypeAlias = Literal["image", "pdf", "text"]

_HEAD = 64
"""Bytes by which a kind is known."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BMP_HEADERS = frozenset((12, 40, 52, 56, 64, 108, 124))
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_UNWELCOME = re.compile(r'[<>:"|?*%\x7f]')
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}")


class Kind(Struct, frozen=True):
    """A kind of file; ``suffixes`` are those of its names, the usual one first."""

    type: str
    family: Family
    suffixes: tuple[str, ...]


TEXT = Kind("text/plain", "text", (".txt",))
_PNG = Kind("image/png", "image", (".png",))
_JPEG = Kind("image/jpeg", "image", (".jpg", ".jpeg"))
_GIF = Kind("image/gif", "image", (".gif",))
_WEBP = Kind("image/webp", "image", (".webp",))
_BMP = Kind("image/bmp", "image", (".bmp",))
_TIFF = Kind("image/tiff", "image", (".tiff", ".tif"))
_AVIF = Kind("image/avif", "image", (".avif",))
_HEIC = Kind("image/heic", "image", (".heic", ".heif"))
_PDF = Kind("application/pdf", "pdf", (".pdf",))

KINDS = (_PNG, _JPEG, _GIF, _WEBP, _BMP, _TIFF, _AVIF, _HEIC, _PDF, TEXT)

_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": _PNG,
    b"\xff\xd8\xff": _JPEG,
    b"GIF87a": _GIF,
    b"GIF89a": _GIF,
    b"II*\0": _TIFF,
    b"MM\0*": _TIFF,
    b"%PDF-": _PDF,
}
_BRANDS = {b"avif": _AVIF, b"avis": _AVIF, b"heic": _HEIC, b"heix": _HEIC, b"mif1": _HEIC}


class Upload(Struct, frozen=True):
    """A file in the folder; ``path`` is relative to the workspace, ``size`` in bytes."""

    name: str
    path: str
    size: int
    type: str
    at: Timestamp


class Inspection:
    """Detects a file's kind from its bytes as they arrive, and whether it is accepted.

    ``declared`` is the type that its sender says; only its family must be true.
    """

    def __init__(self, declared: str, *, only: Family | None = None) -> None:
        self.size = 0
        self._family = only or _parse_family(declared)
        self._head = b""
        self._kind: Kind | None = None
        self._text = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes) -> None:
        """Inspect the next bytes. Raises ``TooLarge`` and ``UnsupportedMedia``."""
        self.size += len(chunk)
        if self.size > LARGEST:
            raise TooLarge("The file is too large", f"At most {LARGEST:,} bytes.")
        if self._kind is None:
            self._head += chunk
            if len(self._head) >= _HEAD:
                self._decide()
        elif self._kind is TEXT:
            self._read(chunk)

    def end(self) -> Kind:
        """Return the kind of the complete file."""
        kind = self._kind or self._decide()
        if kind is TEXT:
            self._read(b"", final=True)
        return kind

    def _decide(self) -> Kind:
        """Decide the kind by the first bytes."""
        held, self._head = self._head, b""
        kind = self._kind = detect_kind(held)
        if self._family not in (None, kind.family):
            raise UnsupportedMedia(
                "The file is not what it is said to be",
                f"Said is {self._family}, found {kind.type if held else 'nothing'}.",
            )
        if kind is TEXT:
            self._read(held)
        return kind

    def _read(self, chunk: bytes, *, final: bool = False) -> None:
        try:
            self._text.decode(chunk, final)
        except UnicodeDecodeError as error:
            raise _make_unsupported_error() from error
        if _CONTROL.search(chunk):
            raise _make_unsupported_error()


def detect_kind(head: bytes) -> Kind:
    """Return the kind of a file by its first bytes; text if it is nothing else."""
    for beginning, kind in _BEGINNINGS.items():
        if head.startswith(beginning):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _WEBP
    if head[4:8] == b"ftyp" and head[8:12] in _BRANDS:
        return _BRANDS[head[8:12]]
    header = int.from_bytes(head[14:18], "little")
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0" and header in _BMP_HEADERS:
        return _BMP
    return TEXT


def guess_kind(name: str) -> Kind | None:
    """Return the kind that a file's suffix suggests; None when it suggests none."""
    lower = name.lower()
    return next((kind for kind in KINDS if lower.endswith(kind.suffixes)), None)


def make_safe_name(proposed: str, kind: Kind, otherwise: str) -> str:
    """Return a safe name like the requested one; ``otherwise`` is the stem if nothing is left."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", proposed))[-1]
    # Categories C: control, formatting (bidi, zero width), surrogates, private, unassigned.
    name = "".join(" " if one.isspace() else one for one in last
                   if one.isspace() or unicodedata.category(one)[0] != "C")  # fmt: skip
    name = unicodedata.normalize("NFC", _UNWELCOME.sub("_", re.sub(" +", " ", name)))
    name = name.lstrip(". -~").rstrip(". ")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"
    named = guess_kind(name)
    fits_name = name.lower().endswith(kind.suffixes) if kind is not TEXT else named in (None, TEXT)
    stem, suffix = _split(name)
    if not fits_name:
        stem, suffix = name, kind.suffixes[0]
    elif not stem:
        stem = otherwise
    if not name:
        stem, suffix = otherwise, kind.suffixes[0]
    return f"{_cut(stem, LONGEST_NAME - len(suffix.encode())).rstrip('. ')}{suffix}"


def find_free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, or with -2, -3, … before its suffix the first that is not ``taken``.

    Names are taken that differ only in case, or in how an accent is written (``fold_text``).
    """
    stem, suffix = _split(name)
    number, found = 1, name
    while fold_text(found) in taken:
        number += 1
        found = f"{stem}-{number}{suffix}"
    return found


def _split(name: str) -> tuple[str, str]:
    """Split a name into stem and suffix."""
    stem, dot, suffix = name.rpartition(".")
    if dot and stem and _SUFFIX.fullmatch(dot + suffix):
        return stem, dot + suffix
    return name, ""


def _cut(text: str, size: int) -> str:
    """Cut a text to so many bytes, at a whole character."""
    return text.encode()[:size].decode(errors="ignore")


def _parse_family(declared: str) -> Family | None:
    kind = declared.partition(";")[0].strip().lower()
    if kind == "image/svg+xml" or kind.startswith("text/"):
        return "text"
    if kind.startswith("image/"):
        return "image"
    return "pdf" if kind == "application/pdf" else None


def _make_unsupported_error() -> UnsupportedMedia:
    return UnsupportedMedia(
        "Files of this kind are not taken",
        "Taken are PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF, HEIC, PDF and text in UTF-8.",
    )


def check_name(name: str) -> str:
    """Return a valid name of an upload; raise ``BadRequest`` for any other."""
    if not name or name[0] == "." or "/" in name or "\0" in name or len(name) > 255:
        raise BadRequest("This is not the name of an uploaded file")
    return name
