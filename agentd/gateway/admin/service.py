"""Changes of managed resources: validated, written to the resource's file, and logged.

All changes are made under one lock, so the journal contains them in order.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from agentd.core.errors import BadRequest, Conflict, NotFound, PreconditionFailed
from agentd.gateway.admin.changes import ChangeRecord, ChangeRequest, MaskedFields, UndoRecord

E = TypeVar("E", bound=Struct)
S = TypeVar("S", bound=Struct)
S_co = TypeVar("S_co", bound=Struct, covariant=True)

UNDO_HINT = "GET /api/agent/changes lists the later change; undo that one first."
"""Hint for undoing a change that is not the last one."""


class ChangeLog(Protocol):
    """The change journal (``gateway.admin.changes_store.ChangeJournal``)."""

    def hold(self, request: ChangeRequest) -> AbstractAsyncContextManager[None]:
        """Hold the lock for a request's change.

        Raises ``Unauthorized`` or ``Forbidden`` unless the caller may still change something.
        """
        ...

    @property
    def lock(self) -> AbstractAsyncContextManager[object]:
        """Held while something is changed."""
        ...

    @property
    def last_number(self) -> int:
        """The number of the last change."""
        ...

    def create_tag(self, content: bytes) -> str:
        """Return a keyed hash of some content, for ETags."""
        ...

    async def append(
        self,
        request: ChangeRequest,
        action: str,
        resource: str,
        name: str,
        *,
        before: MaskedFields | None = None,
        after: MaskedFields | None = None,
        undo: UndoRecord | None = None,
        undoes: int | None = None,
    ) -> ChangeRecord:
        """Log a change made under the lock, unless it is a dry run.

        Raises ``Unavailable``.
        """
        ...


class ResourceStore(Protocol[E]):
    """The store of the resources. Raises as ``storage.yaml.entries.NamedEntries`` does."""

    async def add(self, entry: E, *, dry_run: bool = False) -> E:
        """Add an entry."""
        ...

    async def change(self, name: str, revise: Callable[[E], E], *, dry_run: bool = False) -> E:
        """Replace an entry."""
        ...

    async def remove(
        self, name: str, check: Callable[[E], object] = bool, *, dry_run: bool = False
    ) -> E:
        """Remove an entry, unless ``check`` raises."""
        ...


class ManagedResource(Generic[E]):
    """The resources of one kind, as they are changed.

    ``name`` returns a resource's name, ``show`` its fields with secrets masked, and ``busy`` what
    uses it, so that it can be neither deleted nor renamed (empty: nothing does). ``require``
    returns the new version, or raises when another resource that it needs does not exist; its
    second argument is the version being replaced. Both run under the lock of changes, so that
    nothing they rely on can disappear before the change is written.
    """

    def __init__(
        self,
        resource: str,
        kind: type[E],
        store: ResourceStore[E],
        journal: ChangeLog,
        *,
        name: Callable[[E], str],
        show: Callable[[E], MaskedFields],
        busy: Callable[[E], str] = lambda _: "",
        require: Callable[[E, E | None], E] = lambda new, _: new,
    ) -> None:
        self.resource = resource
        self.kind = kind
        self._store = store
        self._journal = journal
        self.name = name
        self.show = show
        self._busy = busy
        self._require = require

    def create_tag(self, entry: E) -> str:
        """Return an ETag of the resource that reveals nothing about its secrets."""
        return self._journal.create_tag(msgspec.json.encode(to_complete_builtins(entry)))

    async def add(self, entry: E, request: ChangeRequest) -> E:
        """Add a resource; here and below, return the result, also for a dry run."""

        async def make(*, dry_run: bool) -> E:
            return await self._store.add(self._require(entry, None), dry_run=dry_run)

        return await self.create_with(make, request, "create")

    async def create_with(
        self, make: Callable[..., Awaitable[E]], request: ChangeRequest, action: str = "copy"
    ) -> E:
        """Add a resource that ``make(dry_run=…)`` creates."""
        async with self._journal.hold(request):
            made = await make(dry_run=request.dry_run)
            await self._log(request, action, None, made)
        return made

    async def change(
        self,
        name: str,
        revise: Callable[[E], E],
        request: ChangeRequest,
        action: str = "change",
        write: Callable[..., Awaitable[E]] | None = None,
    ) -> E:
        """Change a resource with ``revise``. ``PreconditionFailed`` if its tag is not expected.

        ``write`` replaces the store's own ``change``.
        """
        before: list[E] = []

        def revise_checked(old: E) -> E:
            before.append(self.check_expected(old, request))
            return self._require(self._check_rename(old, revise(old)), old)

        async with self._journal.hold(request):
            change = write or self._store.change
            after = await change(name, revise_checked, dry_run=request.dry_run)
            if after != before[0]:
                await self._log(request, action, before[0], after)
        return after

    async def remove(self, name: str, request: ChangeRequest) -> E:
        """Remove a resource; otherwise as ``change``."""

        def check(old: E) -> None:
            self._require_unused(self.check_expected(old, request))

        async with self._journal.hold(request):
            gone = await self._store.remove(name, check, dry_run=request.dry_run)
            await self._log(request, "delete", gone, None)
        return gone

    async def undo(self, record: UndoRecord, request: ChangeRequest, number: int) -> ChangeRecord:
        """Undo a change. Raises ``Conflict`` if the resource was changed since."""
        before, after = self._decode(record.before), self._decode(record.after)
        async with self._journal.hold(request):
            try:
                await self._restore(before, after, request.dry_run)
            except NotFound as error:
                raise Conflict(
                    "The resource was deleted or renamed since", error.message
                ) from error
            except BadRequest as error:
                raise Conflict(
                    f"The change cannot be undone: {error.message}", error.details
                ) from error
            return await self._log(request, "undo", after, before, number)

    def require_allowed(self, old: E | None, new: E | None) -> E:
        """Return the new version, or the old one that is removed. ``Conflict``, ``BadRequest``."""
        if new is None:
            assert old is not None
            self._require_unused(old)
            return old
        return self._require(new if old is None else self._check_rename(old, new), old)

    def check_expected(self, entry: E, request: ChangeRequest) -> E:
        """Return the entry. ``PreconditionFailed`` if the caller expects another version."""
        if request.expects is not None and self.create_tag(entry) not in request.expects:
            raise PreconditionFailed(
                "The resource was changed since it was read",
                "Read it again, and send its new ETag.",
            )
        return entry

    async def _restore(self, before: E | None, after: E | None, dry_run: bool) -> None:
        def require_unchanged(old: E) -> None:
            if old != after:
                raise Conflict(
                    "The resource was changed since; later changes would be lost", UNDO_HINT
                )

        def revert(old: E) -> E:
            require_unchanged(old)
            assert before
            return self._require(self._check_rename(old, before), old)

        def check(old: E) -> None:
            require_unchanged(old)
            self._require_unused(old)

        if before is None:
            assert after
            await self._store.remove(self.name(after), check, dry_run=dry_run)
        elif after is None:
            await self._store.add(self._require(before, None), dry_run=dry_run)
        else:
            await self._store.change(self.name(after), revert, dry_run=dry_run)

    def _check_rename(self, old: E, after: E) -> E:
        if self.name(old) != self.name(after):
            self._require_unused(old)
        return after

    def _require_unused(self, entry: E) -> None:
        if users := self._busy(entry):
            raise Conflict(
                f'"{self.name(entry)}" is in use: {users}', "Change or delete those first."
            )

    async def _log(
        self,
        request: ChangeRequest,
        action: str,
        before: E | None,
        after: E | None,
        undoes: int = 0,
    ) -> ChangeRecord:
        named = after if after is not None else before
        assert named is not None
        return await self._journal.append(
            request,
            action,
            self.resource,
            self.name(named),
            before=self.show(before) if before is not None else None,
            after=self.show(after) if after is not None else None,
            undo=UndoRecord(resource=self.resource, before=_encode(before), after=_encode(after)),
            undoes=undoes or None,
        )

    def _decode(self, stored: Raw) -> E | None:
        fields = _decode_with_current_names(stored)
        if fields is None:
            return None
        return msgspec.json.decode(msgspec.json.encode(fields), type=self.kind)


_RENAMED_FIELDS = {
    "ways": "routes",
    "hiding": "mask_secrets",
    "when_unbooked": "on_ledger_failure",
}
"""Fields of models and settings that earlier versions stored under other names."""

_RENAMED_VALUES = {"when_unbooked": {b'"stop"': b'"refuse"'}}


def _decode_with_current_names(stored: Raw) -> dict[str, Raw] | None:
    """Decode an undo record's JSON, renaming what earlier versions called otherwise."""
    fields = msgspec.json.decode(stored, type=dict[str, Raw] | None)
    if fields is None:
        return None
    return {
        _RENAMED_FIELDS.get(name, name): Raw(
            _RENAMED_VALUES.get(name, {}).get(bytes(value), bytes(value))
        )
        for name, value in fields.items()
    }


class GatewaySettingsStore(Protocol[S_co]):
    """The store of the settings: ``GatewaySettingsRepository``, ``EffectiveSettings``."""

    async def read(self) -> S_co:
        """Read the current settings."""
        ...

    async def change(
        self,
        changes: Mapping[str, object],
        check: Callable[[S_co], object] = bool,
        *,
        dry_run: bool = False,
    ) -> S_co:
        """Write these settings, all or none; ``None`` removes one from the file."""
        ...


class ManagedSettings(Generic[S]):
    """The settings of one file, as they are changed: all that one request names, or none.

    ``show`` masks the secrets in them, and ``unmask(new, old)`` replaces the masks by the secrets
    of ``old``; it may raise ``BadRequest``.
    """

    def __init__(
        self,
        resource: str,
        store: GatewaySettingsStore[S],
        journal: ChangeLog,
        *,
        show: Callable[[S], S],
        unmask: Callable[[S, S], S],
    ) -> None:
        self.resource = resource
        self._store = store
        self._journal = journal
        self._show = show
        self._unmask = unmask

    def create_tag(self, settings: S) -> str:
        """Do as ``ManagedResource.create_tag``."""
        return self._journal.create_tag(msgspec.json.encode(to_complete_builtins(settings)))

    async def change(self, revise: Callable[[S], S], request: ChangeRequest) -> S:
        """Change the settings with ``revise``. Raises ``PreconditionFailed``, and as the store."""
        async with self._journal.hold(request):
            before = await self._store.read()
            if request.expects is not None and self.create_tag(before) not in request.expects:
                raise PreconditionFailed(
                    "The settings were changed since they were read",
                    "Read them again, and send the new ETag.",
                )
            after = self._unmask(revise(before), before)
            if after != before:
                await self._write(before, after, request, "change")
        return after

    async def undo(self, record: UndoRecord, request: ChangeRequest, number: int) -> ChangeRecord:
        """Undo a change, as ``ManagedResource.undo`` does."""
        was = _decode_with_current_names(record.before) or {}
        became = _decode_with_current_names(record.after) or {}
        async with self._journal.hold(request):
            now = await self._store.read()
            if _replace_values(now, became) != now:
                raise Conflict(
                    "The settings were changed since; later changes would be lost", UNDO_HINT
                )
            return await self._write(now, _replace_values(now, was), request, "undo", number)

    async def _write(
        self,
        before: S,
        after: S,
        request: ChangeRequest,
        action: str,
        undoes: int | None = None,
    ) -> ChangeRecord:
        def check(current: S) -> None:
            if current != before:
                raise Conflict("The settings were changed by another request meanwhile; try again")

        names = [
            name
            for name in before.__struct_fields__
            if getattr(before, name) != getattr(after, name)
        ]
        await self._store.change(_to_file_form(after, names), check, dry_run=request.dry_run)
        was, became = ({name: getattr(one, name) for name in names} for one in (before, after))
        return await self._journal.append(
            request,
            action,
            self.resource,
            ", ".join(names),
            before=_select_fields(self._show(before), names),
            after=_select_fields(self._show(after), names),
            undo=UndoRecord(resource=self.resource, before=_encode(was), after=_encode(became)),
            undoes=undoes,
        )


def _replace_values(settings: S, values: Mapping[str, Raw]) -> S:
    types = {one.name: one.type for one in structs.fields(settings)}
    decoded = {name: msgspec.json.decode(raw, type=types[name]) for name, raw in values.items()}
    return structs.replace(settings, **decoded)


def _to_file_form(settings: Struct, names: Iterable[str]) -> dict[str, object]:
    """Convert to the file's form: settings at their default are removed from the file."""
    default = type(settings)()
    return {
        name: None
        if getattr(settings, name) == getattr(default, name)
        else msgspec.to_builtins(getattr(settings, name), builtin_types=(Decimal,))
        for name in names
    }


def _select_fields(settings: Struct, names: Iterable[str]) -> MaskedFields:
    return {name: msgspec.to_builtins(getattr(settings, name)) for name in names}


def to_complete_builtins(value: object) -> object:
    """Convert all fields, including defaults, so that equal entries are encoded alike."""
    match value:
        case Struct():
            return {
                name: to_complete_builtins(getattr(value, name)) for name in value.__struct_fields__
            }
        case tuple():
            return list(map(to_complete_builtins, value))
    return value


def _encode(entry: object) -> Raw:
    return Raw(msgspec.json.encode(entry))
