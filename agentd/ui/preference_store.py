"""``people/NAME.yml`` of the state folder: each person's preferences. All methods block."""

import json
import os
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from agentd.core.errors import ConfigError, ConfigProblem, Conflict
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.yaml.reader import load_yaml
from agentd.ui.preferences import Id, LookName, LookValue, PreferenceChange, Preferences, merge

MAX_BYTES = 1024 * 1024
_ATTEMPTS = 5
"""Writes after somebody else's between reading and writing, before it is given up."""


class PersonYml(Struct, frozen=True):
    """The content of such a file."""

    format: Literal[1] = 1
    seen: dict[Annotated[str, Meta(pattern="^[1-9][0-9]{0,15}$")], Id] = {}
    pins: tuple[Id, ...] = ()
    look: dict[LookName, LookValue] = {}


class PreferenceFiles:
    """The files; one that is missing has the defaults."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, tuple[document.FileStamp, Preferences]] = {}
        """The preferences last read, by person: reading many marks is slow."""

    def read(self, person: str) -> Preferences:
        """Return a person's preferences. ``Conflict`` where the file was broken by hand."""
        return self._read(person)[1]

    def change(self, person: str, change: PreferenceChange) -> Preferences:
        """Merge a change into what the file has now; durable when it returns.

        ``Conflict`` for a broken file, ``Unavailable`` where the disk takes nothing.
        """
        path = self._layout.get_preferences_path(person)
        for attempt in range(_ATTEMPTS):
            stamp, current = self._read(person)
            merged = merge(current, change)
            if merged == current:
                break
            document.make_folder(self._layout.people)
            try:
                document.replace_document(path, _render(merged), expected=stamp)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            break
        return merged

    def find_problems(self) -> Iterator[ConfigProblem]:
        """Yield the problems of all files."""
        try:
            names = sorted(os.listdir(self._layout.people))
        except OSError:
            return
        for name in names:
            if name.endswith(".yml"):
                path = self._layout.get_preferences_path(name.removesuffix(".yml"))
                try:
                    _load(path)
                except ConfigError as error:
                    yield from error.problems

    def _read(self, person: str) -> tuple[document.FileStamp | None, Preferences]:
        path = self._layout.get_preferences_path(person)
        known = self._known.get(person)
        if known and document.get_stamp(path) == known[0]:
            return known
        try:
            loaded = _load(path)
        except ConfigError as error:
            raise Conflict(error.message, "Mend the file, or delete it.") from error
        if loaded is None:
            return None, Preferences()
        self._known[person] = loaded
        return loaded


def _load(path: str) -> tuple[document.FileStamp, Preferences] | None:
    """Return a person's preferences; None without a file. ``ConfigError`` for a broken one."""
    found = document.read_document(path, MAX_BYTES, own=True)
    return found and (found.stamp, _parse(path, found.data))


def _parse(path: str, data: bytes) -> Preferences:
    content = load_yaml(path, data, PersonYml) if data.strip() else PersonYml()
    seen = {int(chat): last for chat, last in content.seen.items()}
    return Preferences(seen, content.pins, content.look)


def _render(preferences: Preferences) -> bytes:
    """Return the YAML, one line an entry: it is written often, and rarely read."""
    lines = ["format: 1"]
    if preferences.seen:
        lines.append("seen:")
        lines += [f"  {chat}: {last}" for chat, last in preferences.seen.items()]
    if preferences.pins:
        lines.append(f"pins: [{', '.join(map(str, preferences.pins))}]")
    if preferences.look:
        lines.append("look:")
        lines += [f"  {name}: {json.dumps(value)}" for name, value in preferences.look.items()]
    return ("\n".join(lines) + "\n").encode()
