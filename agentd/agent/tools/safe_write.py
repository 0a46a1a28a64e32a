"""Writes files below a folder as safely as ``system.folder.Tree`` reads them.

The folder of a file is opened step by step without following links, missing folders are created,
and the file is written completely beside the old one and then renamed: nobody ever sees half of
it, a link is never written through, and other hard links of the old file keep their content.
Git's own files are never written.

Everything blocks: call it in a thread.
"""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from agentd.agent.diff import MAX_COMPARED_BYTES, cut_diff, make_diff, split_lines
from agentd.agent.tools.edit import replace_text
from agentd.agent.tools.model import EditFile, EditManyPlaces, Replacement, WriteFile
from agentd.agent.tools.patch import FilePatch, apply_hunks
from agentd.agent.tools.results import PatchedFiles, WrittenFile
from agentd.core import ids
from agentd.core.errors import AgentdError, BadRequest, Conflict, Forbidden, NotFound
from agentd.system.folder import ConfinedFolder, Place, make_printable, translate_errors
from agentd.system.protected_paths import ProtectedPlaces

LARGEST_WRITTEN = 4 * 2**20
"""Bytes of a file that can be written or edited."""

_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


PlacedPatch: TypeAlias = Sequence[tuple[FilePatch, Place, Place | None]]
"""The files of a patch with their places, and where they are moved to."""


class SafeWriter:
    """Writes below the folder ``root``, and outside of it where a place says so.

    ``protected`` paths need approval or are refused; new files get their mode by ``umask``.
    """

    def __init__(self, root: str, protected: ProtectedPlaces, umask: int) -> None:
        self._inside = ConfinedFolder(root)
        self._outside = ConfinedFolder("/")
        self._protected = protected
        self._umask = umask

    def resolve_place(self, path: str) -> Place:
        """Resolve a path and its links; raise what writing there would raise."""
        if not path.strip("/.") or path.endswith("/"):
            raise BadRequest(f"{path or 'An empty path'} is not a path of a file.")
        if "\0" in path or path.startswith("~"):
            raise BadRequest("A path cannot begin with ~ or contain a NUL.")
        root = self._inside.root
        try:
            path.encode()
            with translate_errors(path, "written"):
                real = os.path.realpath(os.path.join(root, path))
            real.encode()
        except UnicodeEncodeError as error:
            raise BadRequest("A path cannot contain such characters.") from error
        beneath = root.rstrip("/") + "/"
        outside = not real.startswith(beneath)
        named = os.path.normpath(os.path.join(root, path))
        why = self._explain_protection(named, path) or self._explain_protection(real, path)
        return Place(real if outside else real.removeprefix(beneath), outside, why)

    def write(self, wanted: WriteFile, place: Place) -> WrittenFile:
        """Write a whole file; create missing folders."""
        data = _encode(wanted.text)
        lines = len(split_lines(wanted.text))
        existing = self._read_for_diff(place)
        created = self._write_whole(place, data, before=None, make=True)
        if place.protected or (existing is None and not created):
            return WrittenFile(place.path, lines, created)
        return WrittenFile(
            place.path, lines, created, diff=make_diff(place.path, existing, wanted.text)
        )

    def preview(self, wanted: WriteFile | EditFile | EditManyPlaces, place: Place) -> str:
        """Return the changes as a diff; empty if they are unknown.

        A protected file is not read for it: the diff then shows only what the engine knows.
        """
        if isinstance(wanted, WriteFile):
            existing = None if place.protected else self._read_for_diff(place)
            return make_diff(place.path, existing, wanted.text)
        edits = _list_edits(wanted)
        if place.protected:
            old, new = ([edit.old for edit in edits], [edit.new for edit in edits])
            return make_diff(place.path, "\n".join(old), "\n".join(new))
        existing = self._read_for_diff(place)
        if existing is None:
            return ""
        try:
            after, _ = _apply_edits(existing, edits)
        except BadRequest:
            return ""
        return make_diff(place.path, existing, after)

    def _read_for_diff(self, place: Place) -> str | None:
        """Return the text of a file; None without one, or where it is no text to compare."""
        try:
            tree, steps = self._locate(place)
            with tree.open_file(steps, place.path) as descriptor:
                if os.fstat(descriptor).st_size > MAX_COMPARED_BYTES:
                    return None
                return _read_text(descriptor, place.path)
        except AgentdError:
            return None

    def edit(self, wanted: EditFile | EditManyPlaces, place: Place) -> WrittenFile:
        """Replace texts in a UTF-8 file, all or none. ``Conflict`` when it changes meanwhile."""
        tree, steps = self._locate(place)
        with tree.open_file(steps, place.path) as descriptor:
            before = os.fstat(descriptor)
            text = _read_text(descriptor, place.path)
        after, places = _apply_edits(text, _list_edits(wanted))
        self._write_whole(place, _encode(after), before=before, make=False)
        diff = "" if place.protected else make_diff(place.path, text, after)
        return WrittenFile(place.path, len(split_lines(after)), places=places, diff=diff)

    def preview_patch(self, changes: PlacedPatch) -> str:
        """Return the changes of a patch as a diff; protected files are not read for it."""
        diffs = []
        for file, place, _ in changes:
            if place.protected:
                diffs.append(f"--- a/{place.path}\n+++ b/{place.path}")
            else:
                before = None if file.kind == "add" else self._read_for_diff(place)
                after = _apply_patch(file, before or "") if file.kind != "delete" else None
                diffs.append(make_diff(place.path, before, after))
        return cut_diff("\n".join(filter(None, diffs)))

    def apply_patch(self, changes: PlacedPatch) -> PatchedFiles:
        """Change all files of a patch; none where one hunk does not fit.

        Where the disk fails in the middle, the error names the files that are changed already.
        """
        prepared = [(change, *self._prepare_patch(*change)) for change in changes]
        done: list[str] = []
        diffs: list[str] = []
        for (file, place, target), before, text, after in prepared:
            try:
                self._write_patch(file, place, target, before, after)
            except AgentdError as error:
                if not done:
                    raise
                names = ", ".join(done)
                raise Conflict(f"{error.message} Changed before that: {names}.") from error
            done.append((target or place).path)
            if not place.protected:
                diffs.append(make_diff(place.path, text, after))
        return PatchedFiles(tuple(done), cut_diff("\n".join(filter(None, diffs))))

    def _prepare_patch(
        self, file: FilePatch, place: Place, target: Place | None
    ) -> tuple[os.stat_result | None, str | None, str | None]:
        """Return a file's status and text as they are, and the text that it will have."""
        tree, steps = self._locate(place)
        if file.kind == "add":
            _refuse_existing(tree, steps, place)
            return None, None, file.text
        if target:
            _refuse_existing(*self._locate(target), target)
        with tree.open_file(steps, place.path) as descriptor:
            before = os.fstat(descriptor)
            text = _read_text(descriptor, place.path)
        return before, text, None if file.kind == "delete" else _apply_patch(file, text)

    def _write_patch(
        self,
        file: FilePatch,
        place: Place,
        target: Place | None,
        before: os.stat_result | None,
        after: str | None,
    ) -> None:
        if after is not None:
            is_new = file.kind == "add" or target is not None
            self._write_whole(
                target or place,
                _encode(after),
                before=None if is_new else before,
                make=is_new,
                like=before,
            )
        if (after is None or target) and before is not None:
            self._delete(place, before)

    def _delete(self, place: Place, before: os.stat_result) -> None:
        """Delete a file if it is still ``before``."""
        tree, steps = self._locate(place)
        with (
            tree.open_folder(steps[:-1], place.path) as folder,
            translate_errors(place.path, "written"),
        ):
            if _has_changed(before, _stat_existing(folder, steps[-1], place.path)):
                raise Conflict(f"{place.path} was changed by somebody else meanwhile.")
            os.unlink(steps[-1], dir_fd=folder)

    def _locate(self, place: Place) -> tuple[ConfinedFolder, tuple[str, ...]]:
        """Return the tree and the steps in it; raise ``Forbidden`` where writing is not allowed."""
        tree = self._outside if place.outside else self._inside
        steps = tuple(step for step in place.path.split("/") if step)
        why = self._explain_protection("/".join((tree.root.rstrip("/"), *steps)), place.path)
        if why and not place.protected:
            raise Forbidden(f"{place.path}: {why}")
        return tree, steps

    def _explain_protection(self, absolute: str, path: str) -> str:
        """Explain why writing needs approval; raise ``Forbidden`` if it cannot be approved."""
        found = self._protected.check_writing(absolute, self._inside.root)
        if found and found.refused:
            raise Forbidden(f"{path}: {found.why}")
        return found.why if found else ""

    def _write_whole(
        self,
        place: Place,
        data: bytes,
        *,
        before: os.stat_result | None,
        make: bool,
        like: os.stat_result | None = None,
    ) -> bool:
        """Replace a file atomically if it is still ``before``; return whether it is new.

        A new file has the mode of the one that it is ``like``.
        """
        tree, steps = self._locate(place)
        path = place.path
        with tree.open_folder((), path) as root:
            parent = os.dup(root)
        try:
            with translate_errors(path, "written"):
                for step in steps[:-1]:
                    child = self._enter_folder(parent, step, make)
                    os.close(parent)
                    parent = child
                return self._replace(parent, steps[-1], path, data, before, like)
        finally:
            os.close(parent)

    def _enter_folder(self, folder: int, name: str, make: bool) -> int:
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
        self,
        folder: int,
        name: str,
        path: str,
        data: bytes,
        before: os.stat_result | None,
        like: os.stat_result | None,
    ) -> bool:
        there = _stat_existing(folder, name, path)
        model = there or like
        mode = stat.S_IMODE(model.st_mode) & 0o777 if model else 0o666 & ~self._umask
        temporary = f".agentd-{ids.generate_request_id()}"
        try:
            with open(os.open(temporary, _MAKE, 0o600, dir_fd=folder), "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            if before is not None and _has_changed(before, _stat_existing(folder, name, path)):
                raise Conflict(f"{path} was changed by somebody else meanwhile: read it again.")
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        return there is None


def _refuse_existing(tree: ConfinedFolder, steps: tuple[str, ...], place: Place) -> None:
    try:
        with tree.open_file(steps, place.path):
            pass
    except NotFound:
        return
    raise BadRequest(f"{place.path} exists already: update it instead.")


def _list_edits(wanted: EditFile | EditManyPlaces) -> tuple[Replacement, ...]:
    if isinstance(wanted, EditManyPlaces):
        return wanted.edits
    return (Replacement(wanted.old, wanted.new, wanted.all),)


def _apply_edits(text: str, edits: tuple[Replacement, ...]) -> tuple[str, int]:
    """Return the text with all edits applied in their order, and in how many places."""
    total = 0
    for number, edit in enumerate(edits, 1):
        try:
            text, places = replace_text(text, edit.old, edit.new, everywhere=edit.all)
        except BadRequest as error:
            if len(edits) == 1:
                raise
            why = f"Edit {number} of {len(edits)}: {error.message} Nothing was changed."
            raise BadRequest(why) from error
        total += places
    return text, total


def _apply_patch(file: FilePatch, text: str) -> str:
    return file.text if file.kind == "add" else apply_hunks(text, file)


def _stat_existing(folder: int, name: str, path: str) -> os.stat_result | None:
    """Return the status of the file in that place, None without one; it must be regular."""
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(there.st_mode):
        raise Forbidden(f"{make_printable(path)} became a link while it was opened.")
    if not stat.S_ISREG(there.st_mode):
        raise BadRequest(f"{make_printable(path)} is not a regular file, so it is not replaced.")
    return there


def _has_changed(before: os.stat_result, now: os.stat_result | None) -> bool:
    return now is None or (before.st_mtime_ns, before.st_ino, before.st_size) != (
        now.st_mtime_ns,
        now.st_ino,
        now.st_size,
    )


def _encode(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest("The text contains half a character, which cannot be stored.") from error
    if len(data) > LARGEST_WRITTEN:
        raise BadRequest(f"That is more than {LARGEST_WRITTEN:,} bytes, too much for one file.")
    return data


def _read_text(descriptor: int, path: str) -> str:
    with open(descriptor, "rb", closefd=False) as file:
        data = file.read(LARGEST_WRITTEN + 1)
    if len(data) > LARGEST_WRITTEN:
        raise BadRequest(f"{path} is larger than {LARGEST_WRITTEN:,} bytes, too large to edit.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is not UTF-8 text and cannot be edited.") from error
