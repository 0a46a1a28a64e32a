"""Channels, models and budgets that are created together, as one change that is undone as one."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from agentd.core.errors import BadRequest, Conflict, NotFound
from agentd.gateway.admin.changes import ChangeRecord, ChangeRequest, MaskedFields, UndoRecord
from agentd.gateway.admin.import_intent import ImportIntent, ImportIntentFile
from agentd.gateway.admin.service import UNDO_HINT, ChangeLog, to_complete_builtins
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.validation import require_known_channels
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.migration.plan import ImportPlan
from agentd.gateway.migration.reconcile import reconcile
from agentd.models.gateway_model import GatewayModel

E = TypeVar("E", bound=Struct)

_Entry: TypeAlias = Channel | GatewayModel | Budget

_log = logging.getLogger("agentd.proxy")


class ImportedEntries(Struct, frozen=True, omit_defaults=True):
    """The channels, models and budgets of one import."""

    channels: tuple[Channel, ...] = ()
    models: tuple[GatewayModel, ...] = ()
    budgets: tuple[Budget, ...] = ()

    @property
    def files(self) -> int:
        """The number of files that hold them."""
        return sum(map(bool, (self.channels, self.models, self.budgets)))


class BatchStore(Protocol[E]):
    """A store that adds or removes several entries, all or none.

    Raises as ``storage.yaml.entries.NamedEntries`` does.
    """

    async def add_all(self, added: Sequence[E], *, dry_run: bool = False) -> Sequence[E]:
        """Add entries at the end."""
        ...

    async def remove_all(
        self, names: Sequence[str], check: Callable[[E], object] = bool, *, dry_run: bool = False
    ) -> Sequence[E]:
        """Remove the entries of these names, unless ``check`` raises for one."""
        ...


_Part: TypeAlias = tuple[BatchStore[Any], Sequence[_Entry]]
"""A file's store, and what is created in it or removed from it."""


class ImportStores(NamedTuple):
    """Where the entries of imports are stored."""

    channels: BatchStore[Channel]
    models: BatchStore[GatewayModel]
    budgets: BatchStore[Budget]


class ManagedImport:
    """Creates entries of several files together; ``gateway.admin.service`` manages single ones.

    ``known`` returns the channels that there are, ``models_now`` the models, ``budgets_now`` the
    budgets, and ``busy`` what else uses entries of an import, so that it cannot be undone (empty:
    nothing does).

    Budgets are written first, then channels, then the models that lead through these, each file at
    once; they are removed in reverse. ``intents`` notes what is under way: if the daemon is killed
    in between, ``recover`` removes what was written before the last file, or was to be removed.
    """

    resource = "import"

    def __init__(
        self,
        stores: ImportStores,
        journal: ChangeLog,
        known: Callable[[], Mapping[str, Channel]],
        models_now: Callable[[], Sequence[GatewayModel]],
        budgets_now: Callable[[], Mapping[str, Budget]],
        busy: Callable[[ImportedEntries], str],
        intents: ImportIntentFile,
    ) -> None:
        self._models_now = models_now
        self._budgets_now = budgets_now
        self._intents = intents
        self._channels, self._models, self._budgets = stores
        self._journal = journal
        self._known = known
        self._busy = busy
        self._is_half_written = False
        """True if the last change was written in part, which could not be taken back."""

    def fit(self, plan: ImportPlan) -> ImportPlan:
        """Return the plan without what exists. ``BadRequest`` if it is too large."""
        return reconcile(
            plan,
            {name: one.url for name, one in self._known().items()},
            {one.name for one in self._models_now()},
            [(one.name, one.owner, one.tag) for one in self._budgets_now().values()],
        )

    async def add(self, entries: ImportedEntries, request: ChangeRequest) -> ChangeRecord:
        """Create all entries or none. Raises ``BadRequest`` and ``Conflict``."""
        async with self._journal.hold(request), self._noted(entries, request, "create", adds=True):
            await self._add(entries, request.dry_run)
            return await self._log(request, "create", None, entries)

    async def recover(self) -> None:
        """Finish, or take back, what a kill of the daemon interrupted; called at start."""
        intent = await self._intents.load()
        if intent is None:
            return
        async with self._journal.lock:
            if self._journal.last_number < intent.number:
                is_written = self._is_last_file_written(intent)
                if not is_written:
                    await self._remove_left_over(intent)
                if is_written == intent.adds:
                    await self._log_recovered(intent)
            await self._intents.clear()

    async def undo(self, record: UndoRecord, request: ChangeRequest, number: int) -> ChangeRecord:
        """Undo an import, or the undo of one. ``Conflict`` if an entry was changed since."""
        before, after = _decode(record.before), _decode(record.after)
        entries, adds = after or before or ImportedEntries(), after is None
        async with (
            self._journal.hold(request),
            self._noted(entries, request, "undo", number, adds=adds),
        ):
            try:
                if after:
                    await self._remove(after, request.dry_run)
                if before:
                    await self._add(before, request.dry_run)
            except NotFound as error:
                raise Conflict("A part was deleted or renamed since", error.message) from error
            except BadRequest as error:
                raise Conflict(
                    f"The change cannot be undone: {error.message}", error.details
                ) from error
            return await self._log(request, "undo", after, before, number)

    @asynccontextmanager
    async def _noted(
        self,
        entries: ImportedEntries,
        request: ChangeRequest,
        action: str,
        undoes: int = 0,
        *,
        adds: bool,
    ) -> AsyncIterator[None]:
        """Note for the block what is about to be written to both files.

        A start after a kill in the block finishes it, or takes it back; so does one after a write
        that failed and could not be taken back.
        """
        if request.dry_run or entries.files < 2:
            yield
            return
        intent = ImportIntent(
            number=self._journal.last_number + 1,
            by=request.by,
            remote=request.remote,
            action=action,
            undoes=undoes,
            adds=adds,
            channels={one.name: self._create_tag(one) for one in entries.channels},
            models=tuple(one.name for one in entries.models),
            budgets={one.name: self._create_tag(one) for one in entries.budgets},
        )
        self._is_half_written = False
        try:
            await self._intents.save(intent)
            yield
        finally:
            if not self._is_half_written:
                await self._intents.clear()

    def _create_tag(self, entry: Struct) -> str:
        return self._journal.create_tag(msgspec.json.encode(to_complete_builtins(entry)))

    def _is_last_file_written(self, intent: ImportIntent) -> bool:
        """Return whether the file that is written last, and emptied first, has the entries."""
        if intent.models:
            return not {model.name for model in self._models_now()}.isdisjoint(intent.models)
        return bool(self._find_unchanged(intent.channels, self._known()))

    def _find_unchanged(self, tags: Mapping[str, str], known: Mapping[str, Struct]) -> list[str]:
        """Return the names of the entries that are as the import wrote them."""
        return [
            name
            for name, tag in tags.items()
            if name in known and self._create_tag(known[name]) == tag
        ]

    async def _remove_left_over(self, intent: ImportIntent) -> None:
        """Remove what is there of an import whose last file is not written."""
        used = {route.channel for model in self._models_now() for route in model.routes}
        found = self._find_unchanged(intent.channels, self._known())
        channels = [name for name in found if name not in used]
        budgets = self._find_unchanged(intent.budgets, self._budgets_now())
        if channels:
            await self._channels.remove_all(channels)
        if budgets:
            await self._budgets.remove_all(budgets)
        if left := (*channels, *budgets):
            _log.warning(
                "an import was interrupted; a part of it is removed again: %s", ", ".join(left)
            )

    async def _log_recovered(self, intent: ImportIntent) -> None:
        """Log what was interrupted after its models were written or removed."""
        known, request = self._known(), ChangeRequest(intent.by, intent.remote)
        undoes = intent.undoes or None
        if intent.adds:
            entries = ImportedEntries(
                tuple(known[name] for name in intent.channels if name in known),
                tuple(one for one in self._models_now() if one.name in intent.models),
                tuple(one for name, one in self._budgets_now().items() if name in intent.budgets),
            )
            await self._log(request, intent.action, None, entries, undoes)
            return
        names = {"channels": list(intent.channels), "models": list(intent.models)}
        if intent.budgets:
            names["budgets"] = list(intent.budgets)
        count = _describe_counts(len(intent.channels), len(intent.models), len(intent.budgets))
        await self._journal.append(
            request, intent.action, self.resource, count, before=names, undoes=undoes
        )

    async def _add(self, entries: ImportedEntries, dry_run: bool) -> None:
        if not entries.files:
            raise BadRequest("There is nothing to import", "Send channels, models or budgets.")
        known = {*self._known(), *(one.name for one in entries.channels)}
        for model in entries.models:
            require_known_channels(model, known)
        parts = self._list_parts(entries)
        for part in parts:  # each file is checked before any is written
            await _write(*part, adds=True, dry_run=True)
        if not dry_run:
            await self._write_each(parts, adds=True)

    async def _remove(self, entries: ImportedEntries, dry_run: bool) -> None:
        if users := self._busy(entries):
            raise Conflict(f"A part is in use: {users}", "Change or delete those first.")
        parts = self._list_parts(entries)
        for part in parts:
            await _write(*part, adds=False, dry_run=True)
        if not dry_run:
            await self._write_each(parts[::-1], adds=False)

    def _list_parts(self, entries: ImportedEntries) -> list[_Part]:
        """Return what is to be written to each file, in the order in which it is added."""
        parts: list[_Part] = [
            (self._budgets, entries.budgets),
            (self._channels, entries.channels),
            (self._models, entries.models),
        ]
        return [part for part in parts if part[1]]

    async def _write_each(self, parts: list[_Part], *, adds: bool) -> None:
        """Add or remove the entries of each file; after an error, all files are as before.

        A write that failed is taken back, too: its file may have been replaced, and only the sync
        of the folder failed. If that fails as well, the next start does it.
        """
        try:
            for part in parts:
                await _write(*part, adds=adds)
        except BaseException:
            self._is_half_written = True
            for part in reversed(parts):
                with suppress(NotFound, Conflict):  # not written, or edited by hand meanwhile
                    await _write(*part, adds=not adds)
            self._is_half_written = False
            raise

    async def _log(
        self,
        request: ChangeRequest,
        action: str,
        before: ImportedEntries | None,
        after: ImportedEntries | None,
        undoes: int | None = None,
    ) -> ChangeRecord:
        named = after or before
        assert named is not None
        return await self._journal.append(
            request,
            action,
            self.resource,
            _count(named),
            before=_list_names(before),
            after=_list_names(after),
            undo=UndoRecord(
                resource=self.resource,
                before=msgspec.Raw(msgspec.json.encode(before)),
                after=msgspec.Raw(msgspec.json.encode(after)),
            ),
            undoes=undoes,
        )


async def _write(
    store: BatchStore[Any], entries: Sequence[_Entry], *, adds: bool, dry_run: bool = False
) -> None:
    if adds:
        await store.add_all(entries, dry_run=dry_run)
        return
    names = [one.name for one in entries]
    await store.remove_all(names, _require_same(entries), dry_run=dry_run)


def _require_same(entries: Sequence[_Entry]) -> Callable[[_Entry], None]:
    """Return a check that raises ``Conflict`` for an entry that is not as in ``entries``."""
    stored = {one.name: one for one in entries}

    def check(now: _Entry) -> None:
        if now != stored[now.name]:
            raise Conflict(
                f'"{now.name}" was changed since; later changes would be lost', UNDO_HINT
            )

    return check


def _decode(stored: msgspec.Raw) -> ImportedEntries | None:
    return msgspec.json.decode(stored, type=ImportedEntries | None)


def _count(entries: ImportedEntries) -> str:
    """Return a name for the journal, such as ``3 channels, 1 model``."""
    return _describe_counts(len(entries.channels), len(entries.models), len(entries.budgets))


def _describe_counts(channels: int, models: int, budgets: int) -> str:
    counts = [("channel", channels), ("model", models)]
    if budgets:
        counts.append(("budget", budgets))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)


def _list_names(entries: ImportedEntries | None) -> MaskedFields | None:
    """Return what the journal shows: names only, because there may be hundreds of entries."""
    if entries is None:
        return None
    names: MaskedFields = {
        "channels": [one.name for one in entries.channels],
        "models": [one.name for one in entries.models],
    }
    if entries.budgets:
        names["budgets"] = [one.name for one in entries.budgets]
    return names
