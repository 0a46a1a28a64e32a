"""Labels, and the chats that have them.

A label's name is in the list (``labels.yml``) and in each chat that has it. Where both
change, what is to be done is written down first, then the chats change, and the list last: what a
crash leaves half done is finished at the next start, what a conflict does by asking again. A chat
that is read-only, since its journal is damaged, keeps the name that it has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from msgspec import Struct

from agentd.chats.commands import ChatCommands
from agentd.chats.labels.model import MAX_LABELS, Label, find_index, require_unused_name
from agentd.chats.repository import ChatRepository
from agentd.core.errors import AgentdError, BadRequest, NotFound, Unavailable, suggest_name

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 100
"""Chats whose labels are changed at a time: their records share the disk's syncs."""


class LabelStore(Protocol):
    """The list of labels (``chats.labels.store.LabelFile``)."""

    async def get_labels(self) -> tuple[Label, ...]:
        """Return all of them, in their order."""
        ...

    async def add(self, label: Label) -> None:
        """Add one; ``Conflict``."""
        ...

    async def change(self, name: str, label: Label) -> None:
        """Put this in the place of the one of that name; ``NotFound`` or ``Conflict``."""
        ...

    async def remove(self, name: str) -> None:
        """Remove one; ``NotFound`` or ``Conflict``."""
        ...


class LabelChange(Struct, frozen=True):
    """A change of a label's name, in the list and in all chats that have it."""

    name: str
    label: Label | None
    """The replacement; None if it is deleted."""
    by: str


class LabelChangeStore(Protocol):
    """The one change in progress; survives a crash (``chats.labels.store.LabelChangeFile``)."""

    async def read(self) -> LabelChange | None:
        """Return the unfinished change; ``ConfigError`` or ``Unavailable``."""
        ...

    async def write(self, change: LabelChange) -> None:
        """Keep it; ``Unavailable``."""
        ...

    async def clear(self) -> None:
        """Remove the finished change; ``Unavailable``."""
        ...


class DeletedChats(Protocol):
    """The chats that can be restored (``chats.trash.Trash``)."""

    async def change_label(self, name: str, by: str, *, add: Iterable[str]) -> None:
        """Put other labels in the place of one."""
        ...


class LabelService:
    """Keeps the list and the chats in step; raises what these raise."""

    def __init__(
        self,
        chats: ChatRepository,
        editing: ChatCommands,
        store: LabelStore,
        change_in_progress: LabelChangeStore,
        deleted: DeletedChats,
    ) -> None:
        self._chats = chats
        self._editing = editing
        self._store = store
        self._change_in_progress = change_in_progress
        self._deleted = deleted
        self._relabelling = asyncio.Lock()
        """Held from the look at the list to the end of what is done by it: see ``_run_to_end``."""

    async def finish_interrupted(self) -> None:
        """Finish what a crash interrupted; where that fails, the next start tries again."""
        try:
            change = await self._change_in_progress.read()
            if change is None:
                return
            log.info("the change of the label %r, which was interrupted, is finished", change.name)
            await self._apply(change)
            await self._change_in_progress.clear()
        except AgentdError as error:
            log.warning("a change of a label was interrupted, and stays so: %s", error.message)

    async def list_with_counts(self) -> list[tuple[Label, int]]:
        """List each label and how many chats have it."""
        listed = await self._store.get_labels()
        counts = dict.fromkeys((label.name for label in listed), 0)
        for chat in self._chats.summaries.values():
            for name in chat.labels:
                if name in counts:
                    counts[name] += 1
        return [(label, counts[label.name]) for label in listed]

    async def create(self, label: Label) -> None:
        """Add a label; ``Conflict`` when its name is taken."""
        await self._run_to_end(partial(self._store.add, label))

    async def change(self, name: str, new_name: str | None, color: str | None, by: str) -> Label:
        """Change the name or colour; the chats with the label get the new name."""
        return await self._run_to_end(partial(self._change, name, new_name, color, by))

    async def _change(self, name: str, new_name: str | None, color: str | None, by: str) -> Label:
        listed = await self._store.get_labels()
        index = find_index(listed, name)
        old = listed[index]
        new = Label(new_name or name, old.color if color is None else color)
        require_unused_name(listed[:index] + listed[index + 1 :], new.name)
        if new.name != name:
            await self._apply_recorded(LabelChange(name, new, by))
        elif new != old:
            await self._store.change(name, new)
        return new

    async def delete(self, name: str, by: str) -> None:
        """Delete a label, and remove it from all chats."""
        await self._run_to_end(partial(self._delete, name, by))

    async def _delete(self, name: str, by: str) -> None:
        find_index(await self._store.get_labels(), name)
        await self._apply_recorded(LabelChange(name, None, by))

    async def add_to_chats(self, name: str, chats: Collection[int], by: str) -> None:
        """Add a label to these chats; ``NotFound`` before any is changed."""
        await self._run_to_end(partial(self._add_to_chats, name, chats, by))

    async def _add_to_chats(self, name: str, chats: Collection[int], by: str) -> None:
        find_index(await self._store.get_labels(), name)
        for chat in chats:
            labels = self._chats.get_summary(chat).labels
            if name not in labels:
                _require_room(len(labels) + 1)
        await _run_in_portions(
            lambda chat: self._editing.change_labels(chat, by, add=[name], remove=[]), chats
        )

    async def remove_from_chats(self, name: str, chats: Collection[int], by: str) -> None:
        """Remove a label, listed or not, from these chats; ``NotFound`` before any is changed."""
        await self._run_to_end(partial(self._remove_from_chats, name, chats, by))

    async def _remove_from_chats(self, name: str, chats: Collection[int], by: str) -> None:
        for chat in chats:
            self._chats.get_summary(chat)
        await _run_in_portions(
            lambda chat: self._editing.change_labels(chat, by, add=[], remove=[name]), chats
        )

    async def set_labels(self, chat_id: int, names: Collection[str], by: str) -> tuple[str, ...]:
        """Replace a chat's labels; a name that is not listed is a ``BadRequest``.

        Labels it already has may stay, listed or not.
        """
        return await self._run_to_end(partial(self._set_labels, chat_id, names, by))

    async def _set_labels(self, chat_id: int, names: Collection[str], by: str) -> tuple[str, ...]:
        present = self._chats.get_summary(chat_id).labels
        known = [label.name for label in await self._store.get_labels()]
        for place, name in enumerate(names):
            if name not in known and name not in present:
                what = f"labels[{place}]: no label is named {name[:100]!r}"
                raise BadRequest(f"{what}{suggest_name(name, known)}")
        wanted = list(dict.fromkeys(names))
        _require_room(len(wanted))
        return await self._editing.change_labels(chat_id, by, add=wanted, remove=present)

    async def _run_to_end(self, change: Callable[[], Awaitable[T]]) -> T:
        """Complete a change, even if its caller disconnects meanwhile; one at a time.

        What it found in the list is true until it ends: no other takes the name that chats get.
        """

        async def run_alone() -> T:
            async with self._relabelling:
                return await change()

        return await asyncio.shield(asyncio.ensure_future(run_alone()))

    async def _apply_recorded(self, change: LabelChange) -> None:
        await self._change_in_progress.write(change)
        try:
            await self._apply(change)
        except AgentdError:  # the caller gets the error, and may retry
            await self._change_in_progress.clear()
            raise
        await self._change_in_progress.clear()

    async def _apply(self, change: LabelChange) -> None:
        add = [change.label.name] if change.label else []
        await self._relabel_chats(change, add)
        await self._deleted.change_label(change.name, change.by, add=add)
        await self._relabel_chats(change, add)  # those that were restored meanwhile
        if change.name not in [label.name for label in await self._store.get_labels()]:
            return  # the crash came after the last step
        if change.label:
            await self._store.change(change.name, change.label)
        else:
            await self._store.remove(change.name)

    async def _relabel_chats(self, change: LabelChange, add: Collection[str]) -> None:
        found = [chat.id for chat in self._chats.summaries.values() if change.name in chat.labels]
        await _run_in_portions(lambda chat: self._relabel_chat(chat, change, add), found)

    async def _relabel_chat(self, chat: int, change: LabelChange, add: Collection[str]) -> None:
        try:
            with suppress(NotFound):  # deleted meanwhile: it gets its label in the trash
                await self._editing.change_labels(chat, change.by, add=add, remove=[change.name])
        except Unavailable as error:
            known = self._chats.summaries.get(chat)
            if not (known and known.damage):
                raise
            log.warning("chat %d keeps the label %r: %s", chat, change.name, error.message)


def _require_room(labels: int) -> None:
    if labels > MAX_LABELS:
        raise BadRequest(f"A chat has at most {MAX_LABELS} labels")


async def _run_in_portions(
    change: Callable[[int], Awaitable[object]], chats: Collection[int]
) -> None:
    """Change these chats, some at a time; raise the first failure of a portion when it is done."""
    left = list(chats)
    while left:
        portion, left = left[:AT_ONCE], left[AT_ONCE:]
        done = await asyncio.gather(*map(change, portion), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result
