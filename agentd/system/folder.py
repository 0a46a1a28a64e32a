"""Open files below a folder without ever leaving it.

A path is resolved, symbolic links included, and the result must lie below the root. Then every
component is opened from the root's descriptor without following links, so that swapping a folder
for a link in between (TOCTOU) leads to an error, not to a file elsewhere. Anything but a regular
file (a FIFO, device or socket) is never opened, so that nothing here can hang on one.

Everything blocks: call it in a thread.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from agentd.core.errors import AgentdError, BadRequest, Forbidden, NotFound, Unavailable
from agentd.system.protected_paths import ProtectedPlaces

EntryKind: TypeAlias = Literal["file", "folder", "link", "other"]


class Place(Struct, frozen=True):
    """A path with its links resolved, relative to the workspace or, outside of it, to ``/``."""

    path: str
    outside: bool = False
    protected: str = ""
    """Why access always needs approval; empty when it does not."""


class ProtectedPath(Forbidden):
    """Reading a protected path was refused; a person may approve it."""

    def __init__(self, path: str, place: Place) -> None:
        super().__init__(f"{path}: {place.protected} Reading one file (read_file) needs approval.")
        self.place = place


PASSED_OVER = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", "node_modules"),
        *("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
    )
)
"""Folders with third-party or generated files: listed, but never descended into."""

DEEPEST = 64
MAX_FOLDER_ENTRIES = 20_000

# O_PATH can pass through a folder that may be entered but not listed.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class WorkBudget:
    """Limits for one piece of work; ``exhausted`` once something had to be left out."""

    def __init__(
        self, *, seconds: float = 10.0, entries: int = 200_000, size: int = 512 * 2**20
    ) -> None:
        self.truncated = False
        self._until = time.monotonic() + seconds
        self._entries = entries
        self._size = size
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make the work end soon; may be called from any thread."""
        self._stopped.set()

    def take(self, *, entries: int = 0, size: int = 0) -> bool:
        """Consume some (``size`` in bytes); return False, from then on, when nothing is left."""
        self._entries -= entries
        self._size -= size
        if (
            min(self._entries, self._size) < 0
            or time.monotonic() > self._until
            or self._stopped.is_set()
        ):
            self.truncated = True
            return False
        return True


class Found(NamedTuple):
    """An entry found by a walk; ``folder`` is an open descriptor until the walk continues."""

    path: str
    folder: int
    name: str
    mode: int
    size: int


class ConfinedFolder:
    """A folder. ``protected`` paths in it need approval to be read, and walks skip them."""

    def __init__(self, root: str, protected: ProtectedPlaces | None = None) -> None:
        self.root = os.path.realpath(root)
        self._protected = protected or ProtectedPlaces()

    def resolve(self, path: str, allowed: Place | None = None) -> tuple[str, ...]:
        """Return the components from the root to a path, links resolved; it need not exist.

        Raises ``BadRequest`` for an invalid path, ``Forbidden`` for one outside, and
        ``ProtectedPath`` for a protected one, unless it is the ``allowed`` one.
        """
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if "\0" in path or not _is_encodable(path):
            raise BadRequest("The path contains invalid characters.")
        if path.startswith("/") or ".." in parts:
            raise Forbidden(
                f"{path} is not inside the workspace: paths start at its root, without '..'."
            )
        with translate_errors(path):
            real = os.path.realpath(os.path.join(self.root, *parts))
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            raise Forbidden(f"{path} leads out of the workspace through a link.")
        steps = tuple(step for step in real[len(self.root) :].split("/") if step)
        if allowed is None or allowed.path != "/".join(steps):
            self._refuse_protected(parts, steps, path)
        return steps

    def _refuse_protected(self, parts: list[str], steps: tuple[str, ...], path: str) -> None:
        """Check the path as given, too: a link named ``.env`` is protected wherever it leads."""
        for named in (parts, steps):
            found = self._protected.check_reading(self._make_absolute("/".join(named)), self.root)
            if found and found.refused:
                raise Forbidden(f"{path}: {found.why}")
            if found:
                raise ProtectedPath(path, Place("/".join(steps), protected=found.why))

    def _make_absolute(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}" if path else self.root

    def is_folder(self, steps: tuple[str, ...], path: str) -> bool:
        """Return whether the path is a folder; raise ``NotFound`` if it does not exist."""
        if not steps:
            return True
        with self._open(steps[:-1], path, _STEP) as parent, translate_errors(path):
            return stat.S_ISDIR(os.stat(steps[-1], dir_fd=parent, follow_symlinks=False).st_mode)

    @contextmanager
    def open_file(self, steps: tuple[str, ...], path: str) -> Iterator[int]:
        """Open a regular file and yield its descriptor; ``path`` is its name in errors.

        Errors of the system while it is read are translated, too: of a disk or a network that
        fails.
        """
        if not steps:
            raise BadRequest(f"{path} is a folder, not a file.")
        with self._open(steps[:-1], path, _STEP) as parent:
            descriptor = open_regular(parent, steps[-1], path)
            try:
                with translate_errors(path):
                    yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def open_folder(self, steps: tuple[str, ...], path: str) -> Iterator[int]:
        """Open a folder (``O_PATH``), yield its descriptor; ``path`` is its name in errors."""
        with self._open(steps, path, _STEP) as descriptor:
            yield descriptor

    def walk(
        self,
        steps: tuple[str, ...],
        budget: WorkBudget,
        depth: int = DEEPEST,
        *,
        skip: Callable[[Found], bool] | None = None,
    ) -> Iterator[Found]:
        """Yield every entry below a folder, sorted by name, a folder before its content.

        Links are yielded and not followed; unreadable entries are left out, and what ``skip``
        says, with all that is in it. When the budget is exhausted, the walk ends early.
        """
        with self._open(steps, "/".join(steps) or ".", _FOLDER) as folder:
            names = _list_entries(folder, budget)
            yield from self._walk(folder, steps, names, budget, depth, skip)

    def _walk(
        self,
        folder: int,
        steps: tuple[str, ...],
        names: list[str],
        budget: WorkBudget,
        depth: int,
        skip: Callable[[Found], bool] | None,
    ) -> Iterator[Found]:
        for name in names:
            if not budget.take(entries=1):
                return
            inner = (*steps, name)
            path = "/".join(inner)
            if self._protected.check_reading(self._make_absolute(path), self.root):
                continue
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue
            entry = Found(path, folder, name, found.st_mode, found.st_size)
            if skip and skip(entry):
                continue
            yield entry
            if stat.S_ISDIR(found.st_mode) and depth > 1 and name not in PASSED_OVER:
                try:
                    descriptor = os.open(name, _FOLDER, dir_fd=folder)
                except OSError:
                    continue
                try:
                    names_below = _list_entries(descriptor, budget)
                    yield from self._walk(descriptor, inner, names_below, budget, depth - 1, skip)
                finally:
                    os.close(descriptor)

    @contextmanager
    def _open(self, steps: tuple[str, ...], path: str, flags: int) -> Iterator[int]:
        """Open a folder step by step from the root and yield its descriptor."""
        with ExitStack() as opened:
            try:
                here = os.open(self.root, (_STEP if steps else flags) & ~os.O_NOFOLLOW)
            except OSError as error:
                raise Unavailable(
                    f"The workspace {self.root} cannot be opened: {error.strerror}."
                ) from error
            opened.callback(os.close, here)
            with translate_errors(path):
                for number, step in enumerate(steps, 1):
                    here = os.open(step, flags if number == len(steps) else _STEP, dir_fd=here)
                    opened.callback(os.close, here)
            yield here


def get_entry_kind(mode: int) -> EntryKind:
    """Return an entry's kind by its mode."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def open_regular(folder: int, name: str, path: str) -> int:
    """Open a regular file in an open folder; the caller closes it."""
    with translate_errors(path):
        # Checked before, because opening a device can already have an effect.
        _require_regular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, path)
        descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)
    except AgentdError:
        os.close(descriptor)
        raise
    return descriptor


def make_printable(path: str) -> str:
    """Return a path as valid Unicode, whatever bytes its names consist of."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def translate_errors(path: str, deed: Literal["read", "written"] = "read") -> Iterator[None]:
    """Translate operating system errors about a path into ``AgentdError``s."""
    path = make_printable(path)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"There is no {path} in the workspace.") from error
    except PermissionError as error:
        raise Forbidden(f"{path} may not be {deed} by the user that agentd runs as.") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Forbidden(f"{path} became a link while it was opened.") from error
        if error.errno == errno.ENAMETOOLONG:
            raise NotFound(f"There is no {path[:80]}… in the workspace.") from error
        raise Unavailable(f"{path} cannot be {deed}: {error.strerror}.") from error


def _require_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise BadRequest(f"{make_printable(path)} is a folder, not a file.")
    if stat.S_ISLNK(mode):
        raise Forbidden(f"{make_printable(path)} is a dangling link.")
    if not stat.S_ISREG(mode):
        raise BadRequest(
            f"{make_printable(path)} is not a regular file but a pipe, device or socket."
        )


def _list_entries(folder: int, budget: WorkBudget) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_FOLDER_ENTRIES + 1)]
    except OSError:
        budget.truncated = True
        return []
    if len(names) > MAX_FOLDER_ENTRIES:
        budget.truncated = True
    return sorted(names[:MAX_FOLDER_ENTRIES])


def _is_encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
