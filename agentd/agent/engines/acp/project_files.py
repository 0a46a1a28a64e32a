"""Finds what opencode would read of a project, and does not without its project settings."""

import os
import re

from agentd.agent.engines.external.common import WorkspaceBounds
from agentd.system.protected_paths import is_beneath

_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
"""Of these opencode reads the files with the first name that it finds."""
_SETTINGS = ("opencode.json", "opencode.jsonc")
_FOLDER = ".opencode"
_PLUGIN_FOLDERS = ("plugin", "plugins")
_LARGEST_SETTINGS = 2**20
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def find_instruction_files(bounds: WorkspaceBounds) -> tuple[str, ...]:
    """Return the absolute paths of the instructions for a chat's folder, nearest first. Blocking.

    As with opencode itself, all folders count from the chat's up to the root of its git repository,
    or only the chat's if there is none. Links that leave these, and protected files, are left out.
    """
    folders = _list_folders(bounds.folder)
    for name in _INSTRUCTIONS:
        candidates = (os.path.realpath(os.path.join(folder, name)) for folder in folders)
        found = [path for path in candidates if _may_be_read(path, bounds, folders[-1])]
        if found:
            return tuple(dict.fromkeys(found))
    return ()


def find_plugins(folder: str) -> tuple[str, ...]:
    """Return the files that have opencode run plugins of a project, relative to it. Blocking.

    opencode 1.18.33 runs them even where it is told to ignore the project's settings. A settings
    file counts if it has the word, or is too large or not readable: rather one too many.
    """
    found: list[str] = []
    for above in _list_folders(folder):
        for place in (above, os.path.join(above, _FOLDER)):
            paths = (os.path.join(place, name) for name in _SETTINGS)
            found += [path for path in paths if os.path.lexists(path) and _names_plugins(path)]
        for name in _PLUGIN_FOLDERS:
            plugins = os.path.join(above, _FOLDER, name)
            found += [
                os.path.join(plugins, entry)
                for entry in _list_entries(plugins)
                if entry.endswith((".js", ".ts"))
            ]
    root = os.path.realpath(folder)
    return tuple(os.path.relpath(path, root) for path in found)


def _list_folders(folder: str) -> tuple[str, ...]:
    """Return a folder and those above it, up to the root of its git repository if it is in one."""
    folders = [os.path.realpath(folder)]
    while not _is_repository(folders[-1]):
        parent = os.path.dirname(folders[-1])
        if parent == folders[-1]:
            return (folders[0],)
        folders.append(parent)
    return tuple(folders)


def _is_repository(folder: str) -> bool:
    git = os.path.join(folder, ".git")
    return os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD"))


def _may_be_read(path: str, bounds: WorkspaceBounds, root: str) -> bool:
    return (
        is_beneath(path, root)
        and os.path.isfile(path)
        and not bounds.explain_protection(path, changed=False, whole=False)
    )


def _names_plugins(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_SETTINGS + 1)
    except OSError:
        return True
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), data.decode(errors="replace"))
    return len(data) > _LARGEST_SETTINGS or "plugin" in text


def _list_entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
