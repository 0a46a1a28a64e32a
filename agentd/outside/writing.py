"""Files written beneath a folder, as safely as ``tree`` reads them.

The folder of a file is reached step by step without following links, missing ones are made on
the way, and the file is written whole beside the old one and put in its place: nobody ever sees
half of it, a link in the last place is not written through, and other names of an old file (hard
links) keep their content. What belongs to git itself is never written.

Everything blocks: call it in a thread.
"""

import os
import stat
from contextlib import suppress

from agentd import ids
from agentd.agent.editing import edited
from agentd.agent.protected import ProtectedPlaces
from agentd.agent.results import Written
from agentd.agent.toolbox import Place
from agentd.agent.tools import EditFile, WriteFile
from agentd.errors import BadRequest, Conflict, Forbidden
from agentd.outside.tree import Tree, shown, telling

LARGEST_WRITTEN = 4 * 2**20
"""Bytes of a file that is written or edited."""

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Pen:
    """Writes beneath the folder ``root``, and outside of it where a place says so.

    What is ``protected`` is written by leave or never; new files get their mode by ``umask``.
    """

    def __init__(self, root: str, protected: ProtectedPlaces, umask: int) -> None:
        self._inside = Tree(root)
        self._outside = Tree("/")
        self._protected = protected
        self._umask = umask

    def place(self, path: str) -> Place:
        """Where a path leads, its links resolved; raises what writing there would raise."""
        if not path.strip("/.") or path.endswith("/"):
            raise BadRequest(f"{path or 'An empty path'} is no path of a file.")
        if "\0" in path or path.startswith("~"):
            raise BadRequest("A path cannot begin with ~ or hold a NUL.")
        root = self._inside.root
        try:
            path.encode()
            with telling(path, "written"):
                real = os.path.realpath(os.path.join(root, path))
            real.encode()
        except UnicodeEncodeError as error:
            raise BadRequest("A path cannot hold such characters.") from error
        beneath = root.rstrip("/") + "/"
        outside = not real.startswith(beneath)
        named = os.path.normpath(os.path.join(root, path))
        why = self._protection(named, path) or self._protection(real, path)
        return Place(real if outside else real.removeprefix(beneath), outside, why)

    def write(self, wanted: WriteFile, place: Place) -> Written:
        """Write a whole file; missing folders are made."""
        data = _encoded(wanted.text)
        lines = len(wanted.text.splitlines())
        created = self._put(place, data, before=None, make=True)
        return Written(place.path, lines, created)

    def edit(self, wanted: EditFile, place: Place) -> Written:
        """Replace a text in a UTF-8 file. ``Conflict`` when somebody else wrote it meanwhile."""
        tree, steps = self._open_to_us(place)
        with tree.open_file(steps, place.path) as descriptor:
            before = os.fstat(descriptor)
            text = _text(descriptor, place.path)
        after, places = edited(text, wanted.old, wanted.new, everywhere=wanted.all)
        self._put(place, _encoded(after), before=before, make=False)
        return Written(place.path, len(after.splitlines()), places=places)

    def _open_to_us(self, place: Place) -> tuple[Tree, tuple[str, ...]]:
        """The tree and the steps in it; raises ``Forbidden`` where nothing is to be written."""
        tree = self._outside if place.outside else self._inside
        steps = tuple(step for step in place.path.split("/") if step)
        why = self._protection("/".join((tree.root.rstrip("/"), *steps)), place.path)
        if why and not place.protected:
            raise Forbidden(f"{place.path}: {why}")
        return tree, steps

    def _protection(self, absolute: str, path: str) -> str:
        """Why a place is written by leave only; raises ``Forbidden`` where leave is no use."""
        found = self._protected.writing(absolute, self._inside.root)
        if found and found.refused:
            raise Forbidden(f"{path}: {found.why}")
        return found.why if found else ""

    def _put(self, place: Place, data: bytes, *, before: os.stat_result | None, make: bool) -> bool:
        """Put a file in its place, whole; whether there was none. ``before`` must still be it."""
        tree, steps = self._open_to_us(place)
        path = place.path
        with tree.folder((), path) as root:
            parent = os.dup(root)
        try:
            with telling(path, "written"):
                for step in steps[:-1]:
                    child = self._step(parent, step, make)
                    os.close(parent)
                    parent = child
                return self._replace(parent, steps[-1], path, data, before)
        finally:
            os.close(parent)

    def _step(self, folder: int, name: str, make: bool) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not make:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        made = os.open(name, _FOLDER, dir_fd=folder)
        os.fchmod(made, 0o777 & ~self._umask)
        return made

    def _replace(
        self, folder: int, name: str, path: str, data: bytes, before: os.stat_result | None
    ) -> bool:
        there = _there(folder, name, path)
        mode = stat.S_IMODE(there.st_mode) & 0o777 if there else 0o666 & ~self._umask
        temporary = f".agentd-{ids.new_request_id()}"
        try:
            with open(os.open(temporary, _MAKE, 0o600, dir_fd=folder), "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            if before is not None and _changed(before, _there(folder, name, path)):
                raise Conflict(f"{path} was changed by somebody else meanwhile: read it anew.")
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        return there is None


def _there(folder: int, name: str, path: str) -> os.stat_result | None:
    """What is in a file's place, which must be a regular file or nothing."""
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(there.st_mode):
        raise Forbidden(f"{shown(path)} became a link while it was opened.")
    if not stat.S_ISREG(there.st_mode):
        raise BadRequest(f"{shown(path)} is no regular file, and is not replaced by one.")
    return there


def _changed(before: os.stat_result, now: os.stat_result | None) -> bool:
    return now is None or (before.st_mtime_ns, before.st_ino, before.st_size) != (
        now.st_mtime_ns,
        now.st_ino,
        now.st_size,
    )


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest("The text holds half a character, which no file can hold.") from error
    if len(data) > LARGEST_WRITTEN:
        raise BadRequest(f"That is more than {LARGEST_WRITTEN:,} bytes, too much for one file.")
    return data


def _text(descriptor: int, path: str) -> str:
    with open(descriptor, "rb", closefd=False) as file:
        data = file.read(LARGEST_WRITTEN + 1)
    if len(data) > LARGEST_WRITTEN:
        raise BadRequest(f"{path} is larger than {LARGEST_WRITTEN:,} bytes, too large to edit.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text and cannot be edited.") from error
