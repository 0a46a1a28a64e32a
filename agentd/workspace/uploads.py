"""What may be put into the workspace from outside: kinds of files, their names, how many.

What a file is, its bytes tell, never its name or what its sender says. Taken are pictures, PDF
and text in UTF-8; no archives, no programs. A name is a wish: what could lead out of the folder,
hide, or deceive a reader is taken out of it, and its suffix is made true.
"""

import codecs
import re
import unicodedata
from collections.abc import Collection
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.clock import Timestamp
from agentd.errors import BadRequest, TooLarge, UnsupportedMedia

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
    """Tells from the bytes of a file, as they come, what it is, and that it may be taken.

    ``declared`` is the type that its sender says; only its family must be true.
    """

    def __init__(self, declared: str, *, only: Family | None = None) -> None:
        self.size = 0
        self._family = only or _family(declared)
        self._head = b""
        self._kind: Kind | None = None
        self._text = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes) -> None:
        """The next bytes. Raises ``TooLarge`` and ``UnsupportedMedia``."""
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
        """There are no more: what it is."""
        kind = self._kind or self._decide()
        if kind is TEXT:
            self._read(b"", final=True)
        return kind

    def _decide(self) -> Kind:
        """Fix the kind by the bytes that were held for it."""
        held, self._head = self._head, b""
        kind = self._kind = kind_of(held)
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
            raise _unknown() from error
        if _CONTROL.search(chunk):
            raise _unknown()


def kind_of(head: bytes) -> Kind:
    """What a file is by its first bytes; what is nothing else counts as text."""
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


def kind_by_name(name: str) -> Kind | None:
    """What a file's suffix tells; None when it tells nothing."""
    lower = name.lower()
    return next((kind for kind in KINDS if lower.endswith(kind.suffixes)), None)


def safe_name(wish: str, kind: Kind, otherwise: str) -> str:
    """A name like the wished one; ``otherwise`` is the stem when nothing is left of it."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", wish))[-1]
    # Categories C: control, formatting (bidi, zero width), surrogates, private, unassigned.
    name = "".join(" " if one.isspace() else one for one in last
                   if one.isspace() or unicodedata.category(one)[0] != "C")  # fmt: skip
    name = unicodedata.normalize("NFC", _UNWELCOME.sub("_", re.sub(" +", " ", name)))
    name = name.lstrip(". -~").rstrip(". ")
    if _RESERVED.fullmatch(name):
        name = f"_{name}"
    named = kind_by_name(name)
    told = name.lower().endswith(kind.suffixes) if kind is not TEXT else named in (None, TEXT)
    stem, suffix = _split(name)
    if not told:
        stem, suffix = name, kind.suffixes[0]
    elif not stem:
        stem = otherwise
    if not name:
        stem, suffix = otherwise, kind.suffixes[0]
    return f"{_cut(stem, LONGEST_NAME - len(suffix.encode())).rstrip('. ')}{suffix}"


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or with -2, -3, … before its suffix the first that is not ``taken``.

    Names are taken that differ only in case, or in how an accent is written (``folded``).
    """
    stem, suffix = _split(name)
    number, found = 1, name
    while folded(found) in taken:
        number += 1
        found = f"{stem}-{number}{suffix}"
    return found


def folded(name: str) -> str:
    """By which two names count as the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _split(name: str) -> tuple[str, str]:
    """Stem and suffix."""
    stem, dot, suffix = name.rpartition(".")
    if dot and stem and _SUFFIX.fullmatch(dot + suffix):
        return stem, dot + suffix
    return name, ""


def _cut(text: str, size: int) -> str:
    """As many whole characters as have room in so many bytes."""
    return text.encode()[:size].decode(errors="ignore")


def _family(declared: str) -> Family | None:
    kind = declared.partition(";")[0].strip().lower()
    if kind == "image/svg+xml" or kind.startswith("text/"):
        return "text"
    if kind.startswith("image/"):
        return "image"
    return "pdf" if kind == "application/pdf" else None


def _unknown() -> UnsupportedMedia:
    return UnsupportedMedia(
        "Files of this kind are not taken",
        "Taken are PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF, HEIC, PDF and text in UTF-8.",
    )


def checked_name(name: str) -> str:
    """A name that an upload can have; raises ``BadRequest`` for any other."""
    if not name or name[0] == "." or "/" in name or "\0" in name or len(name) > 255:
        raise BadRequest("That is no name of an uploaded file")
    return name
