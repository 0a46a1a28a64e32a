"""Channels and models that are created together, as one change that is undone as one."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from agentd.core.errors import AgentdError, BadRequest, Conflict, NotFound
from agentd.gateway.admin.changes import ChangeRecord, ChangeRequest, MaskedFields, UndoRecord
from agentd.gateway.admin.service import UNDO_HINT, ChangeLog
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.validation import require_known_channels
from agentd.models.gateway_model import GatewayModel

E = TypeVar("E", bound=Struct)


class ImportedEntries(Struct, frozen=True, omit_defaults=True):
    """The channels and models of one import."""

    channels: tuple[Channel, ...] = ()
    models: tuple[GatewayModel, ...] = ()


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


class ManagedImport:
    """Creates channels and models together; ``gateway.admin.service`` manages single ones.

    ``known`` returns the names of the channels that there are, and ``busy`` what else uses
    entries of an import, so that it cannot be undone (empty: nothing does).

    Channels are written before the models that lead through them, each file at once. If the
    daemon is killed in between, there are channels that no model uses, and no change is logged.
    """

    resource = "import"

    def __init__(
        self,
        channels: BatchStore[Channel],
        models: BatchStore[GatewayModel],
        journal: ChangeLog,
        known: Callable[[], Collection[str]],
        busy: Callable[[ImportedEntries], str],
    ) -> None:
        self._channels = channels
        self._models = models
        self._journal = journal
        self._known = known
        self._busy = busy

    async def add(self, entries: ImportedEntries, request: ChangeRequest) -> ChangeRecord:
        """Create all entries or none. Raises ``BadRequest`` and ``Conflict``."""
        async with self._journal.lock:
            await self._add(entries, request.dry_run)
            return await self._log(request, "create", None, entries)

    async def undo(self, record: UndoRecord, request: ChangeRequest, number: int) -> ChangeRecord:
        """Undo an import, or the undo of one. ``Conflict`` if an entry was changed since."""
        before, after = _decode(record.before), _decode(record.after)
        async with self._journal.lock:
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

    async def _add(self, entries: ImportedEntries, dry_run: bool) -> None:
        if not (entries.channels or entries.models):
            raise BadRequest("There is nothing to import", "Send channels or models.")
        known = {*self._known(), *(one.name for one in entries.channels)}
        for model in entries.models:
            require_known_channels(model, known)
        # Each file is checked before either is written.
        await self._channels.add_all(entries.channels, dry_run=True)
        await self._models.add_all(entries.models, dry_run=True)
        if dry_run:
            return
        await self._channels.add_all(entries.channels)
        try:
            await self._models.add_all(entries.models)
        except AgentdError:  # such as an edit by hand at this moment
            await self._channels.remove_all([one.name for one in entries.channels])
            raise

    async def _remove(self, entries: ImportedEntries, dry_run: bool) -> None:
        if users := self._busy(entries):
            raise Conflict(f"A part is in use: {users}", "Change or delete those first.")
        every: tuple[Channel | GatewayModel, ...] = (*entries.channels, *entries.models)
        stored = {(type(one), one.name): one for one in every}

        def check(now: Channel | GatewayModel) -> None:
            if now != stored[type(now), now.name]:
                raise Conflict(
                    f'"{now.name}" was changed since; later changes would be lost', UNDO_HINT
                )

        channels = [one.name for one in entries.channels]
        models = [one.name for one in entries.models]
        await self._channels.remove_all(channels, check, dry_run=True)
        await self._models.remove_all(models, check, dry_run=True)
        if not dry_run:
            await self._models.remove_all(models, check)
            await self._channels.remove_all(channels, check)

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


def _decode(stored: msgspec.Raw) -> ImportedEntries | None:
    return msgspec.json.decode(stored, type=ImportedEntries | None)


def _count(entries: ImportedEntries) -> str:
    """Return a name for the journal, such as ``3 channels, 1 model``."""
    counts = (("channel", len(entries.channels)), ("model", len(entries.models)))
    return ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)


def _list_names(entries: ImportedEntries | None) -> MaskedFields | None:
    """Return what the journal shows: names only, because there may be hundreds of entries."""
    if entries is None:
        return None
    return {
        "channels": [one.name for one in entries.channels],
        "models": [one.name for one in entries.models],
    }
