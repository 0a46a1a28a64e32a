"""Edits of one list in a hand-written file, whose entries have names.

Comments, order and every other byte stay as the person wrote them (``editor.py``).
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from agentd.core.errors import (
    BadRequest,
    ConfigError,
    ConfigProblem,
    Conflict,
    NotFound,
    suggest_name,
)
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml import schema
from agentd.storage.yaml.editor import YamlEditor

E = TypeVar("E", bound=msgspec.Struct)
R = TypeVar("R")


class NamedEntries(Generic[E]):
    """The list ``section`` of the file at ``path``, which has this ``shape``. Everything blocks.

    ``what`` says in errors what an entry is, and ``called`` is the field with its name. Nobody else
    can read a ``private`` file. Each change is made to the file as it is at that moment, unless it
    is a ``dry_run``, and raises ``Conflict`` when somebody else saves it meanwhile, when it is not
    valid, or when a name is taken; ``BadRequest`` when the entry would not be valid.
    """

    def __init__(
        self,
        path: str,
        shape: type[Any],
        section: str,
        check: schema.ValueCheck[Any],
        what: str,
        *,
        called: str = "name",
        private: bool = False,
    ) -> None:
        self._name = attrgetter(called)
        self._path = path
        self._shape = shape
        self._section = section
        self._check = check
        self._what = what
        self._private = private

    def add(self, entry: E, *, dry_run: bool = False) -> E:
        """Add an entry at the end."""

        def change(entries: list[E], text: YamlEditor) -> E:
            self.require_free(entries, entry)
            entries.append(entry)
            text.append_item((self._section,), to_plain(entry))
            return entry

        return self._edit(change, dry_run)

    def add_all(self, added: Sequence[E], *, dry_run: bool = False) -> Sequence[E]:
        """Add several entries at the end, all or none."""

        def change(entries: list[E], text: YamlEditor) -> Sequence[E]:
            for entry in added:
                self.require_free(entries, entry)
                entries.append(entry)
            if added:
                text.append_items((self._section,), [to_plain(entry) for entry in added])
            return added

        return self._edit(change, dry_run, many=True)

    def change(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """Replace the entry of this name by what ``revise`` makes of it; ``NotFound``."""

        def change(entries: list[E], text: YamlEditor) -> E:
            number = self._find_index(entries, name)
            before, after = entries[number], revise(entries[number])
            self.require_free([*entries[:number], *entries[number + 1 :]], after)
            entries[number] = after
            self._write_fields(text, number, before, after)
            return after

        return self._edit(change, dry_run)

    def copy(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """Add what ``revise`` makes of the entry of this name, at the end; ``NotFound``."""

        def change(entries: list[E], text: YamlEditor) -> E:
            made = revise(entries[self._find_index(entries, name)])
            self.require_free(entries, made)
            entries.append(made)
            text.append_item((self._section,), to_plain(made))
            return made

        return self._edit(change, dry_run)

    def remove(self, name: str, check: Callable[[E], object] = bool, *, dry_run: bool = False) -> E:
        """Remove and return the entry of this name, unless ``check`` raises; ``NotFound``."""

        def change(entries: list[E], text: YamlEditor) -> E:
            number = self._find_index(entries, name)
            check(entries[number])
            text.remove_item((self._section,), number)
            return entries.pop(number)

        return self._edit(change, dry_run)

    def remove_all(
        self, names: Sequence[str], check: Callable[[E], object] = bool, *, dry_run: bool = False
    ) -> Sequence[E]:
        """Remove and return the entries of these names, in the file's order, all or none."""

        def change(entries: list[E], text: YamlEditor) -> Sequence[E]:
            numbers = {self._find_index(entries, name) for name in names}
            gone = [entries[number] for number in sorted(numbers)]
            for entry in gone:
                check(entry)
            if numbers:
                text.remove_items((self._section,), numbers)
            entries[:] = [one for number, one in enumerate(entries) if number not in numbers]
            return gone

        return self._edit(change, dry_run)

    def edit_all(
        self,
        names: Sequence[str],
        revise: Callable[[E], E | None],
        added: Sequence[E] = (),
        *,
        dry_run: bool = False,
    ) -> list[tuple[E | None, E | None]]:
        """Revise the entries of these names, and add others at the end, all or none.

        ``revise`` returns ``None`` for an entry that is to be removed. Returns what each was and
        is, ``None`` where there was or is none.
        """

        def change(entries: list[E], text: YamlEditor) -> list[tuple[E | None, E | None]]:
            numbers = [self._find_index(entries, name) for name in dict.fromkeys(names)]
            pairs: dict[int, tuple[E, E | None]] = {
                number: (entries[number], revise(entries[number])) for number in numbers
            }
            for number, (before, after) in pairs.items():
                if after is not None:
                    self._write_fields(text, number, before, after)
                    entries[number] = after
            gone = {number for number, (_, after) in pairs.items() if after is None}
            if gone:
                text.remove_items((self._section,), gone)
            entries[:] = [one for number, one in enumerate(entries) if number not in gone]
            for entry in added:
                self.require_free(entries, entry)
                entries.append(entry)
            if added:
                text.append_items((self._section,), [to_plain(entry) for entry in added])
            return [*pairs.values(), *((None, entry) for entry in added)]

        return self._edit(change, dry_run, many=True)

    def require_free(self, others: list[E], entry: E) -> None:
        """Raise ``Conflict`` if one of the others has what an entry must have alone: its name."""
        name = self._name(entry)
        if any(self._name(other) == name for other in others):
            raise Conflict(f'Another {self._what} is named "{name[:100]}" already.')

    def _write_fields(self, text: YamlEditor, number: int, before: E, after: E) -> None:
        """Write the fields of an entry that differ."""
        old, new = to_plain(before), to_plain(after)
        kind: Any = type(after)
        for field in structs.fields(kind):
            if old.get(field.name) != new.get(field.name):
                value = new[field.name] if field.name in new else _get_default(field)
                text.set((self._section, number, field.name), value)

    def _edit(
        self, change: Callable[[list[E], YamlEditor], R], dry_run: bool, *, many: bool = False
    ) -> R:
        answer: list[R] = []
        wanted: list[E] = []

        def apply_change(text: YamlEditor) -> None:
            wanted[:] = self._get_entries(self._load(text.content.encode()))
            answer.append(change(wanted, text))

        def fits(before: Any, after: Any) -> bool:
            same = {self._section: ()}
            rest = structs.replace(before, **same) == structs.replace(after, **same)
            return rest and list(self._get_entries(after)) == wanted

        try:
            yaml_editor.edit_yaml_file(
                self._path, self._load, apply_change, fits, private=self._private, dry_run=dry_run
            )
        except ConfigError as error:
            problems = [problem.what for problem in error.problems]
            if not many:
                place = re.compile(rf"{self._section}\[\d+\](?:\.|: )")  # the entry itself
                problems = [place.sub("", what, count=1) for what in problems]
            raise BadRequest(f"The {self._what} is not valid", "\n".join(problems)) from error
        return answer[0]

    def _load(self, data: bytes) -> Any:
        return yaml_reader.load_yaml(self._path, data, self._shape, self._check)

    def _get_entries(self, content: Any) -> tuple[E, ...]:
        entries: tuple[E, ...] = getattr(content, self._section) or ()
        return entries

    def _find_index(self, entries: list[E], name: str) -> int:
        names = [self._name(entry) for entry in entries]
        if name not in names:
            raise NotFound(f'There is no {self._what} "{name[:100]}"{suggest_name(name, names)}')
        return names.index(name)


class WatchedEntries(Generic[E]):
    """Changes entries of a ``file`` that is followed: a change is in force when a method returns.

    Each returns what the entry is then, with ``dry_run`` what it would be, and raises what
    ``NamedEntries`` does.
    """

    def __init__(self, entries: NamedEntries[E], file: WatchedFile[Any]) -> None:
        self.entries = entries
        self._followed = file
        self._writing = asyncio.Lock()

    @property
    def problems(self) -> tuple[ConfigProblem, ...]:
        """Why the file as it is now is not in force; empty if it is."""
        return self._followed.problems

    async def add(self, entry: E, *, dry_run: bool = False) -> E:
        """Add an entry at the end."""
        return await self.write(partial(self.entries.add, entry), dry_run=dry_run)

    async def change(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """Replace the entry of this name by what ``revise`` returns; it may be renamed."""
        return await self.write(partial(self.entries.change, name, revise), dry_run=dry_run)

    async def remove(
        self, name: str, check: Callable[[E], object] = bool, *, dry_run: bool = False
    ) -> E:
        """Remove the entry of this name, unless ``check`` raises."""
        return await self.write(partial(self.entries.remove, name, check), dry_run=dry_run)

    async def add_all(self, added: Sequence[E], *, dry_run: bool = False) -> Sequence[E]:
        """Add several entries at the end, all or none."""
        return await self.write(partial(self.entries.add_all, added), dry_run=dry_run)

    async def remove_all(
        self, names: Sequence[str], check: Callable[[E], object] = bool, *, dry_run: bool = False
    ) -> Sequence[E]:
        """Remove the entries of these names, all or none, unless ``check`` raises."""
        return await self.write(partial(self.entries.remove_all, names, check), dry_run=dry_run)

    async def edit_all(
        self,
        names: Sequence[str],
        revise: Callable[[E], E | None],
        added: Sequence[E] = (),
        *,
        dry_run: bool = False,
    ) -> list[tuple[E | None, E | None]]:
        """Revise entries (``None`` removes one) and add others, all or none."""
        edit = partial(self.entries.edit_all, names, revise, added)
        return await self.write(edit, dry_run=dry_run)

    async def write(self, change: Callable[..., R], *, dry_run: bool) -> R:
        """Run a method of ``NamedEntries`` in a thread, and read the file again."""
        async with self._writing:
            return await self._followed.write(partial(change, dry_run=dry_run))


def to_plain(entry: object) -> dict[str, Any]:
    """Return a struct as it is written into a file, without what is empty or unknown."""
    values: dict[str, object] = msgspec.to_builtins(entry)
    return {name: _tidy(value) for name, value in values.items() if value not in (None, {})}


def _tidy(value: object) -> object:
    match value:
        case dict():
            return {name: _tidy(one) for name, one in value.items() if one not in (None, [], ())}
        case list() | tuple():
            return [_tidy(one) for one in value]
    return value


def _get_default(field: structs.FieldInfo) -> object:
    """Return the value to write when a field gets its default again."""
    made = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return _tidy(msgspec.to_builtins(made))
