"""Changes of several resources of one kind: all or none, one line of the journal, one undo."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from agentd.core.errors import BadRequest, Conflict, NotFound, PreconditionFailed
from agentd.gateway.admin.changes import ChangeRecord, ChangeRequest, MaskedFields, UndoRecord
from agentd.gateway.admin.service import UNDO_HINT, ChangeLog, ManagedResource

E = TypeVar("E", bound=Struct)

MAX_UNDO_BYTES = 1024 * 1024
"""The most bytes of what undoes a batch: it is one file of limited size."""

_MAX_NAMED = 5


class EditAllStore(Protocol[E]):
    """A store that changes several entries at once.

    Raises as ``storage.yaml.entries.NamedEntries`` does.
    """

    async def edit_all(
        self,
        names: Sequence[str],
        revise: Callable[[E], E | None],
        added: Sequence[E] = (),
        *,
        dry_run: bool = False,
    ) -> list[tuple[E | None, E | None]]:
        """Revise entries (``None`` removes one) and add others, all or none."""
        ...


class BatchResult(Struct, Generic[E], frozen=True):
    """The outcome of a batch: what each entry was and is, and the change in the journal."""

    pairs: list[tuple[E | None, E | None]]
    change: ChangeRecord | None
    """None if nothing had to be changed."""
    tag: str
    """An ETag of the entries as they were."""


class ManagedBatch(Generic[E]):
    """Changes several resources of one kind together; ``managed`` changes single ones.

    ``title`` returns an entry's name as people know it.
    """

    def __init__(
        self,
        managed: ManagedResource[E],
        store: EditAllStore[E],
        journal: ChangeLog,
        title: Callable[[E], str],
    ) -> None:
        self._managed = managed
        self._store = store
        self._journal = journal
        self._title = title
        self.resource = f"batch of {managed.resource}"

    async def change(
        self,
        names: Sequence[str],
        revise: Callable[[E], E | None],
        request: ChangeRequest,
        action: str,
    ) -> BatchResult[E]:
        """Revise entries, all or none. ``PreconditionFailed`` if one is not as expected."""

        def revise_checked(old: E) -> E | None:
            after = revise(old)
            self._managed.require_allowed(old, after)
            return after

        async with self._journal.hold(request):
            pairs = await self._store.edit_all(names, revise_checked, dry_run=True)
            tag = self._create_tag(pairs)
            if request.expects is not None and tag not in request.expects:
                raise PreconditionFailed(
                    "One of them was changed since they were read", "Read them again."
                )
            change = await self._write(pairs, request, action)
        return BatchResult(pairs, change, tag)

    async def add(self, entries: Sequence[E], request: ChangeRequest) -> list[E]:
        """Add entries, all or none."""
        async with self._journal.hold(request):
            added = [self._managed.require_allowed(None, entry) for entry in entries]
            pairs: list[tuple[E | None, E | None]] = [(None, entry) for entry in added]
            await self._write(pairs, request, "create")
        return added

    async def undo(self, record: UndoRecord, request: ChangeRequest, number: int) -> ChangeRecord:
        """Undo a batch. ``Conflict`` if one of its entries was changed since."""
        before, after = self._decode(record.before), self._decode(record.after)
        pairs = list(zip(after, before, strict=True))
        async with self._journal.hold(request):
            try:
                change = await self._write(pairs, request, "undo", number)
            except NotFound as error:
                raise Conflict("One of them was deleted or renamed since", error.message) from error
            except BadRequest as error:
                raise Conflict(
                    f"The change cannot be undone: {error.message}", error.details
                ) from error
        assert change
        return change

    async def _write(
        self,
        pairs: Sequence[tuple[E | None, E | None]],
        request: ChangeRequest,
        action: str,
        undoes: int | None = None,
    ) -> ChangeRecord | None:
        """Write what differs, if the entries are still as they were, and log it."""
        differing = [pair for pair in pairs if pair[0] != pair[1]]
        if not differing:
            return None
        undo = self._build_undo(differing)
        wanted = {self._managed.name(old): (old, new) for old, new in differing if old is not None}

        def revise(now: E) -> E | None:
            old, new = wanted[self._managed.name(now)]
            if now != old:
                raise Conflict(
                    f'"{self._title(now)}" was changed since; later changes would be lost',
                    UNDO_HINT,
                )
            self._managed.require_allowed(old, new)
            return new

        added = [new for old, new in differing if old is None and new is not None]
        for entry in added:
            self._managed.require_allowed(None, entry)
        await self._store.edit_all([*wanted], revise, added, dry_run=request.dry_run)
        return await self._journal.append(
            request,
            action,
            self._managed.resource,
            self._describe(differing),
            before=self._show(old for old, _ in differing),
            after=self._show(new for _, new in differing),
            undo=undo,
            undoes=undoes,
        )

    def _build_undo(self, pairs: Sequence[tuple[E | None, E | None]]) -> UndoRecord:
        before, after = (
            msgspec.Raw(msgspec.json.encode([pair[side] for pair in pairs])) for side in (0, 1)
        )
        if len(bytes(before)) + len(bytes(after)) > MAX_UNDO_BYTES // 2:
            raise BadRequest("Too much would be changed at once", "Choose fewer of them.")
        return UndoRecord(resource=self.resource, before=before, after=after)

    def _describe(self, pairs: Sequence[tuple[E | None, E | None]]) -> str:
        """Return a name for the journal, such as ``3: a, b, c``."""
        titles = [self._title(one) for old, new in pairs if (one := new or old) is not None]
        more = f" and {len(titles) - _MAX_NAMED} more" if len(titles) > _MAX_NAMED else ""
        return f"{', '.join(titles[:_MAX_NAMED])}{more}"

    def _show(self, entries: Iterable[E | None]) -> MaskedFields | None:
        shown = {
            self._managed.name(one): self._managed.show(one) for one in entries if one is not None
        }
        return shown or None

    def _create_tag(self, pairs: Sequence[tuple[E | None, E | None]]) -> str:
        tags = [self._managed.create_tag(old) for old, _ in pairs if old is not None]
        return self._journal.create_tag("".join(tags).encode())

    def _decode(self, stored: msgspec.Raw) -> list[E | None]:
        kind = self._managed.kind
        decoded: list[E | None] = msgspec.json.decode(stored, type=list[kind | None])  # type: ignore[valid-type]
        return decoded
