"""The files of the browser interface: read and hashed once, at the start.

Their addresses hold a hash of all of them, so a browser may keep each for ever, and relative
imports between them keep the hash. The disk is not searched while requests are answered.
"""

import gzip
import hashlib
import posixpath
import re
from functools import cached_property
from pathlib import Path

STATIC_FOLDER = Path(__file__).with_name("static")

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
"""The media types by file extension. Files with other names are not served."""

FIRST_STYLES = ("tokens", "base", "shell", "parts", "agent")
"""The style sheets of every page, in the order of their layers; others come with their pages."""
JOINED_STYLES = "style.css"
"""All of them in one file: a browser waits for each before it shows anything."""

_MIN_COMPRESSED = 512
"""Bytes below which compression is not worth its header."""
_IMPORT = re.compile(r'^(?:import|export)\b[^"();=]*?"(\.{1,2}/[^"]+)";', re.MULTILINE)
"""A static import of another of our modules, as all of them are written."""


class Asset:
    """A static file; ``path`` is below the folder, such as ``core/el.js``."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self.media_type = MEDIA_TYPES[posixpath.splitext(path)[1]]
        self.content = content

    @cached_property
    def compressed(self) -> bytes:
        """The content as gzip, made on first use within two milliseconds; empty if no help."""
        if len(self.content) < _MIN_COMPRESSED:
            return b""
        compressed = gzip.compress(self.content, 9, mtime=0)
        return compressed if len(compressed) <= 0.9 * len(self.content) else b""


class AssetBundle:
    """All files; ``version`` changes when any of them does."""

    def __init__(self, files: dict[str, bytes]) -> None:
        digest = hashlib.sha256()
        self.assets: dict[str, Asset] = {}
        for path, content in sorted(files.items()):
            digest.update(b"%d %d %b" % (len(path), len(content), path.encode()))
            digest.update(content)
            self.assets[path] = Asset(path, content)
        self.version = digest.hexdigest()[:16]

    def get_text(self, path: str) -> str:
        """Return the text of a file."""
        return self.assets[path].content.decode()

    def list_imports(self, entry: str) -> list[str]:
        """Return the modules that a module imports at once, itself first, each one time.

        What is imported while the page runs (``import()``) is not among them.
        """
        found: dict[str, None] = {}
        waiting = [entry]
        while waiting:
            path = waiting.pop(0)
            if path in found:
                continue
            found[path] = None
            folder = posixpath.dirname(path)
            waiting += [
                posixpath.normpath(posixpath.join(folder, name))
                for name in _IMPORT.findall(self.get_text(path))
            ]
        return list(found)


def load_assets(folder: Path = STATIC_FOLDER) -> AssetBundle:
    """Read all files below a folder. Blocks."""
    paths = (path for path in folder.rglob("*") if path.suffix in MEDIA_TYPES and path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    joined = [files.pop(f"style/{name}.css", b"") for name in FIRST_STYLES]
    if any(joined):
        files[JOINED_STYLES] = b"".join(joined)
    return AssetBundle(files)
