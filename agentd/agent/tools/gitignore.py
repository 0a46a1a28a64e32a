"""Rules of a workspace's ``.gitignore`` files, and globs written like their lines.

Patterns are matched in linear time (RE2): a hostile file cannot make a search hang. Blocking.
"""

import re
import stat
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from agentd.core.errors import AgentdError, BadRequest
from agentd.system.folder import ConfinedFolder, Found, make_printable

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_NAME = ".gitignore"
_LARGEST = 128 * 1024
"""Bytes of a file that are read."""
_MOST_LINES = 2_000
_MOST_GLOBS = 20
_LONGEST_GLOB = 200


class IgnoreRules:
    """The rules of one folder, read as a walk comes to them: the deepest file decides."""

    def __init__(self, tree: ConfinedFolder) -> None:
        self._tree = tree
        self._specs: dict[tuple[str, ...], GitIgnoreSpec | None] = {}

    def ignore(self, found: Found) -> bool:
        """Return whether git ignores an entry whose folder it does not ignore."""
        steps = tuple(found.path.split("/"))
        end = "/" if stat.S_ISDIR(found.mode) else ""
        for depth in range(len(steps) - 1, -1, -1):
            spec = self._get_spec(steps[:depth])
            if spec is None:
                continue
            decided = spec.check_file(make_printable("/".join(steps[depth:])) + end).include
            if decided is not None:
                return decided
        return False

    def _get_spec(self, folder: tuple[str, ...]) -> "GitIgnoreSpec | None":
        if folder not in self._specs:
            self._specs[folder] = self._read_spec(folder)
        return self._specs[folder]

    def _read_spec(self, folder: tuple[str, ...]) -> "GitIgnoreSpec | None":
        path = "/".join((*folder, _NAME))
        try:
            with (
                self._tree.open_file(self._tree.resolve(path), path) as descriptor,
                open(descriptor, "rb", closefd=False) as file,
            ):
                text = file.read(_LARGEST).decode("utf-8", "replace")
        except AgentdError:
            return None
        lines = [line for line in text.splitlines()[:_MOST_LINES] if _is_pattern(line)]
        return _parse_lines(lines) if lines else None


def build_glob_filter(globs: Iterable[str]) -> Callable[[str], bool]:
    """Return whether globs want a path: any of the plain ones, and none that begins with ``!``.

    Raises ``BadRequest`` for globs that are none, too many or too long.
    """
    given = list(globs)
    if len(given) > _MOST_GLOBS or any(len(glob) > _LONGEST_GLOB for glob in given):
        raise BadRequest(f"At most {_MOST_GLOBS} globs of {_LONGEST_GLOB} characters are taken.")
    wanted = [glob for glob in given if not glob.startswith("!")]
    unwanted = [glob[1:] for glob in given if glob.startswith("!")]
    include, exclude = _parse_globs(wanted), _parse_globs(unwanted)

    def is_wanted(path: str) -> bool:
        return (not wanted or include.match_file(path)) and not exclude.match_file(path)

    return is_wanted


def _parse_globs(globs: list[str]) -> "GitIgnoreSpec":
    try:
        return _compile(globs)
    except (ValueError, re.error) as error:
        raise BadRequest(f"A glob cannot be understood: {error}.") from error


def _parse_lines(lines: list[str]) -> "GitIgnoreSpec | None":
    """Parse lines; those that are no patterns are passed over, as git does."""
    try:
        return _compile(lines)
    except (ValueError, re.error):
        sound = [line for line in lines if _is_sound(line)]
        return _compile(sound) if sound else None


def _is_sound(line: str) -> bool:
    try:
        _compile([line])
    except (ValueError, re.error):
        return False
    return True


def _compile(lines: list[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - thirty modules, loaded with a search only

    return GitIgnoreSpec.from_lines(lines, backend="re2")


def _is_pattern(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#") and len(line) <= _LONGEST_GLOB
