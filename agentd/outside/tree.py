"""The files beneath one folder, opened without ever leaving it.

A path from outside is taken apart, its links are resolved, and the result must lie beneath the
root. Then every step is opened anew from the root's own descriptor without following links:
whoever swaps a folder for a link in between meets a refusal, not a file elsewhere. What is not
a regular file (a FIFO, a device, a socket) is never opened, so nothing here can hang on one.

Everything blocks: call it in a thread.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Literal, NamedTuple

from agentd.agent.protected import ProtectedPlaces
from agentd.agent.toolbox import Guarded, Place
from agentd.errors import AgentdError, BadRequest, Forbidden, NotFound, Unavailable

PASSED_OVER = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", ".eggs", "node_modules"),
        *("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
    )
)
"""Folders that hold other people's or generated files: told in listings, never gone into."""

DEEPEST = 64
LARGEST_FOLDER = 20_000

# A folder that may be passed through but not listed can still be stepped through by O_PATH.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Budget:
    """What one piece of work may take; ``cut`` once something had to be left out."""

    def __init__(
        self, *, seconds: float = 10.0, entries: int = 200_000, size: int = 512 * 2**20
    ) -> None:
        self.cut = False
        self._until = time.monotonic() + seconds
        self._entries = entries
        self._size = size
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Have the work end soon; may be called from any thread."""
        self._stopped.set()

    def take(self, *, entries: int = 0, size: int = 0) -> bool:
        """Take some (``size`` in bytes); false, for ever, when there is nothing left."""
        self._entries -= entries
        self._size -= size
        if (
            min(self._entries, self._size) < 0
            or time.monotonic() > self._until
            or self._stopped.is_set()
        ):
            self.cut = True
            return False
        return True


class Found(NamedTuple):
    """An entry met on a walk; ``folder`` is open only until the walk goes on."""

    path: str
    folder: int
    name: str
    mode: int
    size: int


class Tree:
    """One folder. What is ``protected`` in it is read by leave only, and never found by a walk."""

    def __init__(self, root: str, protected: ProtectedPlaces | None = None) -> None:
        self.root = os.path.realpath(root)
        self._protected = protected or ProtectedPlaces()

    def resolve(self, path: str, allowed: Place | None = None) -> tuple[str, ...]:
        """The steps from the root to a path, its links resolved; nothing need be there.

        Raises ``BadRequest`` for what cannot be a path, ``Forbidden`` for what lies outside, and
        ``Guarded`` for what is protected, unless that is the place that was ``allowed``.
        """
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if "\0" in path or not _encodable(path):
            raise BadRequest("A path cannot hold such characters.")
        if path.startswith("/") or ".." in parts:
            raise Forbidden(
                f"{path} is not inside the workspace: paths start at its root, without '..'."
            )
        with telling(path):
            real = os.path.realpath(os.path.join(self.root, *parts))
        if real != self.root and not real.startswith(self.root.rstrip("/") + "/"):
            raise Forbidden(f"{path} leads out of the workspace through a link.")
        steps = tuple(step for step in real[len(self.root) :].split("/") if step)
        if allowed is None or allowed.path != "/".join(steps):
            self._refuse_protected(parts, steps, path)
        return steps

    def _refuse_protected(self, parts: list[str], steps: tuple[str, ...], path: str) -> None:
        """Judge the path also as it is told: a link named ``.env`` is one, wherever it leads."""
        for named in (parts, steps):
            found = self._protected.reading(self._absolute("/".join(named)), self.root)
            if found and found.refused:
                raise Forbidden(f"{path}: {found.why}")
            if found:
                raise Guarded(path, Place("/".join(steps), protected=found.why))

    def _absolute(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}" if path else self.root

    def is_folder(self, steps: tuple[str, ...], path: str) -> bool:
        """Whether a folder is there; raises ``NotFound`` if nothing is."""
        if not steps:
            return True
        with self._open(steps[:-1], path, _STEP) as parent, telling(path):
            return stat.S_ISDIR(os.stat(steps[-1], dir_fd=parent, follow_symlinks=False).st_mode)

    @contextmanager
    def open_file(self, steps: tuple[str, ...], path: str) -> Iterator[int]:
        """A descriptor of a regular file; ``path`` is what to call it in an error."""
        if not steps:
            raise BadRequest(f"{path} is a folder, not a file.")
        with self._open(steps[:-1], path, _STEP) as parent:
            descriptor = open_regular(parent, steps[-1], path)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def folder(self, steps: tuple[str, ...], path: str) -> Iterator[int]:
        """A descriptor of a folder, to step through; ``path`` is what to call it in an error."""
        with self._open(steps, path, _STEP) as descriptor:
            yield descriptor

    def walk(self, steps: tuple[str, ...], budget: Budget, depth: int = DEEPEST) -> Iterator[Found]:
        """Every entry beneath a folder, in order of name, a folder before what is in it.

        Links are told and not followed; what cannot be read is left out. When there is too
        much the walk ends early and the budget says that it was cut.
        """
        with self._open(steps, "/".join(steps) or ".", _FOLDER) as folder:
            names = _entries(folder, budget)
            yield from self._within(folder, steps, names, budget, depth)

    def _within(
        self,
        folder: int,
        steps: tuple[str, ...],
        names: list[str],
        budget: Budget,
        depth: int,
    ) -> Iterator[Found]:
        for name in names:
            if not budget.take(entries=1):
                return
            inner = (*steps, name)
            path = "/".join(inner)
            if self._protected.reading(self._absolute(path), self.root):
                continue
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue
            yield Found(path, folder, name, found.st_mode, found.st_size)
            if stat.S_ISDIR(found.st_mode) and depth > 1 and name not in PASSED_OVER:
                try:
                    descriptor = os.open(name, _FOLDER, dir_fd=folder)
                except OSError:
                    continue
                try:
                    names_below = _entries(descriptor, budget)
                    yield from self._within(descriptor, inner, names_below, budget, depth - 1)
                finally:
                    os.close(descriptor)

    @contextmanager
    def _open(self, steps: tuple[str, ...], path: str, flags: int) -> Iterator[int]:
        """A descriptor of a folder, reached step by step from the root."""
        with ExitStack() as opened:
            try:
                here = os.open(self.root, (_STEP if steps else flags) & ~os.O_NOFOLLOW)
            except OSError as error:
                raise Unavailable(
                    f"The workspace {self.root} cannot be opened: {error.strerror}."
                ) from error
            opened.callback(os.close, here)
            with telling(path):
                for number, step in enumerate(steps, 1):
                    here = os.open(step, flags if number == len(steps) else _STEP, dir_fd=here)
                    opened.callback(os.close, here)
            yield here


def open_regular(folder: int, name: str, path: str) -> int:
    """Open a regular file in an open folder; the caller closes it."""
    with telling(path):
        # Looked at first, since opening a device can already do something to it.
        _must_be_regular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, path)
        descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        _must_be_regular(os.fstat(descriptor).st_mode, path)
    except AgentdError:
        os.close(descriptor)
        raise
    return descriptor


def shown(path: str) -> str:
    """A path as text that can be stored and sent, whatever bytes a name is made of."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def telling(path: str, deed: Literal["read", "written"] = "read") -> Iterator[None]:
    """Turn the system's errors about a path into ours."""
    path = shown(path)
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


def _must_be_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise BadRequest(f"{shown(path)} is a folder, not a file.")
    if stat.S_ISLNK(mode):
        raise Forbidden(f"{shown(path)} is a link that leads nowhere.")
    if not stat.S_ISREG(mode):
        raise BadRequest(f"{shown(path)} is no regular file (a pipe, device or socket).")


def _entries(folder: int, budget: Budget) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, LARGEST_FOLDER + 1)]
    except OSError:
        budget.cut = True
        return []
    if len(names) > LARGEST_FOLDER:
        budget.cut = True
    return sorted(names[:LARGEST_FOLDER])


def _encodable(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
