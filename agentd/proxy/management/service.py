"""Changes of one kind of resource: seen to be wanted, made in its file, and noted.

Every change of the gateway by management waits its turn, so the journal has them in their order.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from agentd.errors import BadRequest, Conflict, NotFound, PreconditionFailed
from agentd.proxy.management.changes import Change, Doing, Kept, Shown

E = TypeVar("E", bound=Struct)
S = TypeVar("S", bound=Struct)
S_co = TypeVar("S_co", bound=Struct, covariant=True)

LATER = "GET /api/agent/changes tells what it was; that can be undone first."
"""What may help who would undo a change that is not the last one."""

_values = msgspec.json.Decoder(dict[str, Raw])


class Journal(Protocol):
    """Where changes are noted (``disk.changes.ChangeJournal``)."""

    @property
    def turn(self) -> AbstractAsyncContextManager[object]:
        """Entered by whoever is to change something."""
        ...

    def tag(self, content: bytes) -> str:
        """Another for every other content, from which nobody can find out what it is."""
        ...

    async def note(
        self,
        doing: Doing,
        action: str,
        resource: str,
        name: str,
        *,
        before: Shown | None = None,
        after: Shown | None = None,
        kept: Kept | None = None,
        undoes: int | None = None,
    ) -> Change:
        """Write down a change that was made in this turn, unless it was only tried.

        Raises ``Unavailable``.
        """
        ...


class Book(Protocol[E]):
    """Where the resources are written down. Raises as ``disk.entries.Entries`` does."""

    async def add(self, entry: E, *, dry_run: bool = False) -> E:
        """One more."""
        ...

    async def change(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """Another one in its place."""
        ...

    async def remove(
        self, name: str, check: Callable[[E], object] = bool, *, dry_run: bool = False
    ) -> E:
        """One less, unless ``check`` raises."""
        ...


class Managed(Generic[E]):
    """The resources of one kind, as they are changed.

    ``name`` tells what one is called, ``show`` how it may be told, its secrets masked, and
    ``busy`` who needs it, so that it can neither be deleted nor renamed (empty: nobody).
    ``require`` gives the new one back, or raises when another resource that it needs is not there;
    the second argument is the one in whose place it comes. Both are asked in the change's turn, so
    nothing can be taken away between the question and the change.
    """

    def __init__(
        self,
        resource: str,
        kind: type[E],
        book: Book[E],
        journal: Journal,
        *,
        name: Callable[[E], str],
        show: Callable[[E], Shown],
        busy: Callable[[E], str] = lambda _: "",
        require: Callable[[E, E | None], E] = lambda new, _: new,
    ) -> None:
        self.resource = resource
        self._kind = kind
        self._book = book
        self._journal = journal
        self.name = name
        self._show = show
        self._busy = busy
        self._require = require

    def tag(self, entry: E) -> str:
        """Another for every other content of a resource; it tells nothing of its secrets."""
        return self._journal.tag(msgspec.json.encode(_whole(entry)))

    async def add(self, entry: E, doing: Doing) -> E:
        """One more; here and below the answer is what it is then, or would be."""

        async def make(*, dry_run: bool) -> E:
            return await self._book.add(self._require(entry, None), dry_run=dry_run)

        return await self.grow(make, doing, "create")

    async def grow(
        self, make: Callable[..., Awaitable[E]], doing: Doing, action: str = "copy"
    ) -> E:
        """One more, as ``make(dry_run=…)`` does it."""
        async with self._journal.turn:
            made = await make(dry_run=doing.dry_run)
            await self._note(doing, action, None, made)
        return made

    async def change(
        self,
        name: str,
        revise: Callable[[E], E],
        doing: Doing,
        action: str = "change",
        write: Callable[..., Awaitable[E]] | None = None,
    ) -> E:
        """What ``revise`` makes of it. ``PreconditionFailed`` when it is another than expected.

        ``write`` does what the book's own ``change`` does, in another way.
        """
        before: list[E] = []

        def revised(old: E) -> E:
            before.append(self.expected(old, doing))
            return self._require(self._renamed(old, revise(old)), old)

        async with self._journal.turn:
            change = write or self._book.change
            after = await change(name, revised, dry_run=doing.dry_run)
            if after != before[0]:
                await self._note(doing, action, before[0], after)
        return after

    async def remove(self, name: str, doing: Doing) -> E:
        """One less; else as ``change``."""

        def check(old: E) -> None:
            self._free(self.expected(old, doing))

        async with self._journal.turn:
            gone = await self._book.remove(name, check, dry_run=doing.dry_run)
            await self._note(doing, "delete", gone, None)
        return gone

    async def undo(self, kept: Kept, doing: Doing, number: int) -> Change:
        """Take a change back. ``Conflict`` when the resource is another since."""
        before, after = self._read(kept.before), self._read(kept.after)
        async with self._journal.turn:
            try:
                await self._restore(before, after, doing.dry_run)
            except NotFound as error:
                raise Conflict("It was deleted or renamed since", error.message) from error
            except BadRequest as error:
                raise Conflict(f"It cannot be undone: {error.message}", error.details) from error
            return await self._note(doing, "undo", after, before, number)

    def expected(self, entry: E, doing: Doing) -> E:
        """The entry. ``PreconditionFailed`` when it is another than who changes it expects."""
        if doing.expects is not None and self.tag(entry) not in doing.expects:
            raise PreconditionFailed(
                "It was changed since it was read", "Read it again, and send its new ETag."
            )
        return entry

    async def _restore(self, before: E | None, after: E | None, dry_run: bool) -> None:
        def still(old: E) -> None:
            if old != after:
                raise Conflict("It was changed since; what came later would be lost", LATER)

        def reverted(old: E) -> E:
            still(old)
            assert before
            return self._require(self._renamed(old, before), old)

        def check(old: E) -> None:
            still(old)
            self._free(old)

        if before is None:
            assert after
            await self._book.remove(self.name(after), check, dry_run=dry_run)
        elif after is None:
            await self._book.add(self._require(before, None), dry_run=dry_run)
        else:
            await self._book.change(self.name(after), reverted, dry_run=dry_run)

    def _renamed(self, old: E, after: E) -> E:
        if self.name(old) != self.name(after):
            self._free(old)
        return after

    def _free(self, entry: E) -> None:
        if by := self._busy(entry):
            raise Conflict(f'"{self.name(entry)}" is in use: {by}', "Change those first.")

    async def _note(
        self, doing: Doing, action: str, before: E | None, after: E | None, undoes: int = 0
    ) -> Change:
        named = after if after is not None else before
        assert named is not None
        return await self._journal.note(
            doing,
            action,
            self.resource,
            self.name(named),
            before=self._show(before) if before is not None else None,
            after=self._show(after) if after is not None else None,
            kept=Kept(resource=self.resource, before=_raw(before), after=_raw(after)),
            undoes=undoes or None,
        )

    def _read(self, kept: Raw) -> E | None:
        known: Any = self._kind | None
        entry: E | None = msgspec.json.decode(kept, type=known)
        return entry


class SettingsBook(Protocol[S_co]):
    """Where settings are written down: ``disk.gateway_settings``, ``disk.in_force``."""

    async def read(self) -> S_co:
        """What the file says now."""
        ...

    async def change(
        self,
        changes: Mapping[str, object],
        check: Callable[[S_co], object] = bool,
        *,
        dry_run: bool = False,
    ) -> S_co:
        """Write these, all or none; ``None`` takes one out of the file."""
        ...


class ManagedSettings(Generic[S]):
    """The settings of one file, as they are changed: all that one request names, or none.

    ``show`` masks the secrets in them, and ``unmask(new, old)`` puts those of ``old`` in the
    masks' places; it may raise ``BadRequest``.
    """

    def __init__(
        self,
        resource: str,
        book: SettingsBook[S],
        journal: Journal,
        *,
        show: Callable[[S], S],
        unmask: Callable[[S, S], S],
    ) -> None:
        self.resource = resource
        self._book = book
        self._journal = journal
        self._show = show
        self._unmask = unmask

    def tag(self, settings: S) -> str:
        """As ``Managed.tag``."""
        return self._journal.tag(msgspec.json.encode(_whole(settings)))

    async def change(self, revise: Callable[[S], S], doing: Doing) -> S:
        """What ``revise`` makes of them. ``PreconditionFailed``, and as the book."""
        async with self._journal.turn:
            before = await self._book.read()
            if doing.expects is not None and self.tag(before) not in doing.expects:
                raise PreconditionFailed("They were changed since", "Read them again.")
            after = self._unmask(revise(before), before)
            if after != before:
                await self._write(before, after, doing, "change")
        return after

    async def undo(self, kept: Kept, doing: Doing, number: int) -> Change:
        """As ``Managed.undo``."""
        was, became = map(_values.decode, (kept.before, kept.after))
        async with self._journal.turn:
            now = await self._book.read()
            if _set(now, became) != now:
                raise Conflict("They were changed since; what came later would be lost", LATER)
            return await self._write(now, _set(now, was), doing, "undo", number)

    async def _write(
        self,
        before: S,
        after: S,
        doing: Doing,
        action: str,
        undoes: int | None = None,
    ) -> Change:
        def check(said: S) -> None:
            if said != before:
                raise Conflict("Somebody else changed them meanwhile; try again")

        names = [
            name
            for name in before.__struct_fields__
            if getattr(before, name) != getattr(after, name)
        ]
        await self._book.change(_written(after, names), check, dry_run=doing.dry_run)
        was, became = ({name: getattr(one, name) for name in names} for one in (before, after))
        return await self._journal.note(
            doing,
            action,
            self.resource,
            ", ".join(names),
            before=_builtins(self._show(before), names),
            after=_builtins(self._show(after), names),
            kept=Kept(resource=self.resource, before=_raw(was), after=_raw(became)),
            undoes=undoes,
        )


def _set(settings: S, values: Mapping[str, Raw]) -> S:
    types = {one.name: one.type for one in structs.fields(settings)}
    told = {name: msgspec.json.decode(raw, type=types[name]) for name, raw in values.items()}
    return structs.replace(settings, **told)


def _written(settings: Struct, names: Iterable[str]) -> dict[str, object]:
    """As the book takes them: what is at its default is taken out of the file."""
    usual = type(settings)()
    return {
        name: None
        if getattr(settings, name) == getattr(usual, name)
        else msgspec.to_builtins(getattr(settings, name), builtin_types=(Decimal,))
        for name in names
    }


def _builtins(settings: Struct, names: Iterable[str]) -> Shown:
    return {name: msgspec.to_builtins(getattr(settings, name)) for name in names}


def _whole(value: object) -> object:
    """All fields, those at their default too: equal entries are written alike."""
    match value:
        case Struct():
            return {name: _whole(getattr(value, name)) for name in value.__struct_fields__}
        case tuple():
            return list(map(_whole, value))
    return value


def _raw(entry: object) -> Raw:
    return Raw(msgspec.json.encode(entry))
