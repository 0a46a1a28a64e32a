"""The entries of one list in a hand-written file, each with a name, changed one by one.

Comments, order and every other byte stay as the person wrote them (``splice``).
"""

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from agentd.disk import handwritten, schema, splice
from agentd.disk.splice import Text
from agentd.errors import BadRequest, Conflict, Misconfigured, NotFound, nearest

E = TypeVar("E", bound=msgspec.Struct)


class Entries(Generic[E]):
    """The list ``section`` of the file at ``path``, which has this ``shape``. Everything blocks.

    ``what`` an entry is, for the reader, and ``called`` the field with its name. Nobody else can
    read a ``private`` file. Each change is made to the file as it is at that moment, unless it is
    a ``dry_run``, and raises ``Conflict`` when somebody else saves it meanwhile, when it has
    mistakes, or when a name is taken; ``BadRequest`` tells what cannot be.
    """

    def __init__(
        self,
        path: str,
        shape: type[Any],
        section: str,
        check: schema.Check[Any],
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
        """One more, at the end."""

        def change(entries: list[E], text: Text) -> E:
            self._free(entries, self._name(entry))
            entries.append(entry)
            text.append((self._section,), plain(entry))
            return entry

        return self._rewritten(change, dry_run)

    def change(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """``revise`` tells what becomes of the entry of this name; ``NotFound``."""

        def change(entries: list[E], text: Text) -> E:
            number = self._number(entries, name)
            before, after = entries[number], revise(entries[number])
            if self._name(after) != name:
                self._free(entries, self._name(after))
            entries[number] = after
            old, new = plain(before), plain(after)
            kind: Any = type(after)
            for field in structs.fields(kind):
                if old.get(field.name) != new.get(field.name):
                    told = new[field.name] if field.name in new else _default(field)
                    text.set((self._section, number, field.name), told)
            return after

        return self._rewritten(change, dry_run)

    def copy(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """One more, at the end: what ``revise`` makes of the entry of this name; ``NotFound``."""

        def change(entries: list[E], text: Text) -> E:
            made = revise(entries[self._number(entries, name)])
            self._free(entries, self._name(made))
            entries.append(made)
            text.append((self._section,), plain(made))
            return made

        return self._rewritten(change, dry_run)

    def remove(self, name: str, check: Callable[[E], object] = bool, *, dry_run: bool = False) -> E:
        """One less: it is answered as it was, unless ``check`` raises; ``NotFound``."""

        def change(entries: list[E], text: Text) -> E:
            number = self._number(entries, name)
            check(entries[number])
            text.remove((self._section,), number)
            return entries.pop(number)

        return self._rewritten(change, dry_run)

    def _rewritten(self, change: Callable[[list[E], Text], E], dry_run: bool) -> E:
        answer: list[E] = []
        wanted: list[E] = []

        def made(text: Text) -> None:
            wanted[:] = self._of(self._load(text.content.encode()))
            answer.append(change(wanted, text))

        def fits(before: Any, after: Any) -> bool:
            same = {self._section: ()}
            rest = structs.replace(before, **same) == structs.replace(after, **same)
            return rest and list(self._of(after)) == wanted

        try:
            splice.rewrite(
                self._path, self._load, made, fits, private=self._private, dry_run=dry_run
            )
        except Misconfigured as error:
            place = re.compile(rf"{self._section}\[\d+\](?:\.|: )")  # which is the entry itself
            told = [place.sub("", mistake.what, count=1) for mistake in error.mistakes]
            raise BadRequest(f"The {self._what} cannot be so", "\n".join(told)) from error
        return answer[0]

    def _load(self, data: bytes) -> Any:
        return handwritten.load(self._path, data, self._shape, self._check)

    def _of(self, content: Any) -> tuple[E, ...]:
        entries: tuple[E, ...] = getattr(content, self._section) or ()
        return entries

    def _free(self, entries: list[E], name: str) -> None:
        if any(self._name(entry) == name for entry in entries):
            raise Conflict(f'There is a {self._what} "{name[:100]}" already.')

    def _number(self, entries: list[E], name: str) -> int:
        names = [self._name(entry) for entry in entries]
        if name not in names:
            raise NotFound(f'There is no {self._what} "{name[:100]}"{nearest(name, names)}')
        return names.index(name)


def plain(entry: object) -> dict[str, Any]:
    """A struct as it is written into a file: without what is left at its default or not known."""
    told: dict[str, object] = msgspec.to_builtins(entry)
    return {name: _tidy(value) for name, value in told.items() if value not in (None, {})}


def _tidy(value: object) -> object:
    match value:
        case dict():
            return {name: _tidy(one) for name, one in value.items() if one not in (None, [], ())}
        case list() | tuple():
            return [_tidy(one) for one in value]
    return value


def _default(field: structs.FieldInfo) -> object:
    """What is written where a field is to have its default again."""
    made = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return _tidy(msgspec.to_builtins(made))
