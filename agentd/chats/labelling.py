"""Labels, and the chats that bear them.

A label's name stands in the list (``labels.yml``) and in each chat that bears it. Where both
change, what is to be done is written down first, then the chats change, and the list last: what a
crash leaves half done is finished at the next start, what a conflict does by asking again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable
from typing import Protocol

from msgspec import Struct

from agentd.catalog.labels import MOST, Label, check_free, index_of
from agentd.chats.editing import Editing
from agentd.chats.shelf import Shelf
from agentd.errors import AgentdError, BadRequest, nearest

log = logging.getLogger(__name__)

AT_ONCE = 100
"""Chats whose labels are changed at a time: their records share the disk's syncs."""


class Labels(Protocol):
    """The list of labels (``disk.labels.LabelBook``)."""

    async def labels(self) -> tuple[Label, ...]:
        """All of them, in their order."""
        ...

    async def add(self, label: Label) -> None:
        """One more; ``Conflict``."""
        ...

    async def change(self, name: str, label: Label) -> None:
        """Put this in the place of the one of that name; ``NotFound`` or ``Conflict``."""
        ...

    async def remove(self, name: str) -> None:
        """One less; ``NotFound`` or ``Conflict``."""
        ...


class Relabelling(Struct, frozen=True):
    """A change of a label's name, in the list and in all chats that bear it."""

    name: str
    label: Label | None
    """What takes its place; None: it is deleted."""
    by: str


class Intent(Protocol):
    """The one change that is going on, kept over a crash (``disk.labels.IntentFile``)."""

    async def read(self) -> Relabelling | None:
        """The change that was not finished; ``Misconfigured`` or ``Unavailable``."""
        ...

    async def write(self, change: Relabelling) -> None:
        """Keep it; ``Unavailable``."""
        ...

    async def clear(self) -> None:
        """It is finished; ``Unavailable``."""
        ...


class Labelling:
    """Keeps the list and the chats in step; raises what these raise."""

    def __init__(self, shelf: Shelf, editing: Editing, book: Labels, intent: Intent) -> None:
        self._shelf = shelf
        self._editing = editing
        self._book = book
        self._intent = intent
        self._relabelling = asyncio.Lock()

    async def finish_interrupted(self) -> None:
        """Finish what a crash interrupted; where that fails, the next start tries again."""
        try:
            change = await self._intent.read()
            if change is None:
                return
            log.info("the change of the label %r, which was interrupted, is finished", change.name)
            await self._apply(change)
            await self._intent.clear()
        except AgentdError as error:
            log.warning("a change of a label was interrupted, and stays so: %s", error.message)

    async def labels(self) -> list[tuple[Label, int]]:
        """Each label, and how many chats bear it."""
        listed = await self._book.labels()
        borne = dict.fromkeys((label.name for label in listed), 0)
        for chat in self._shelf.known.values():
            for name in chat.labels:
                if name in borne:
                    borne[name] += 1
        return [(label, borne[label.name]) for label in listed]

    async def create(self, label: Label) -> None:
        """A label more; ``Conflict`` when its name is taken."""
        await self._book.add(label)

    async def change(self, name: str, new_name: str | None, color: str | None, by: str) -> Label:
        """Another name or colour; the chats that bear it bear it by its new name."""
        listed = await self._book.labels()
        index = index_of(listed, name)
        old = listed[index]
        new = Label(new_name or name, old.color if color is None else color)
        check_free(listed[:index] + listed[index + 1 :], new.name)
        if new.name != name:
            await self._carry_out(Relabelling(name, new, by))
        elif new != old:
            await self._book.change(name, new)
        return new

    async def delete(self, name: str, by: str) -> None:
        """A label less, in the chats too."""
        index_of(await self._book.labels(), name)
        await self._carry_out(Relabelling(name, None, by))

    async def assign(self, name: str, chats: Collection[int], by: str, *, bear: bool) -> None:
        """These chats bear the label, or no longer; ``NotFound`` before any is changed."""
        listed = await self._book.labels()
        if bear:
            index_of(listed, name)
        for chat in chats:
            borne = self._shelf.summary(chat).labels
            if bear and name not in borne:
                _check_number(len(borne) + 1)
        await _all(
            self._editing.label(chat, by, add=[name] if bear else [], remove=[] if bear else [name])
            for chat in chats
        )

    async def set(self, chat_id: int, names: Collection[str], by: str) -> tuple[str, ...]:
        """A chat bears these and no others; a name that is not listed is a ``BadRequest``.

        What it bears already may stay, listed or not.
        """
        borne = self._shelf.summary(chat_id).labels
        known = [label.name for label in await self._book.labels()]
        for place, name in enumerate(names):
            if name not in known and name not in borne:
                what = f"labels[{place}]: no label is named {name[:100]!r}"
                raise BadRequest(f"{what}{nearest(name, known)}")
        wanted = list(dict.fromkeys(names))
        _check_number(len(wanted))
        return await self._editing.label(chat_id, by, add=wanted, remove=borne)

    async def _carry_out(self, change: Relabelling) -> None:
        """Go through a change to its end, though whoever asked for it leaves meanwhile."""
        await asyncio.shield(asyncio.ensure_future(self._noted(change)))

    async def _noted(self, change: Relabelling) -> None:
        async with self._relabelling:
            await self._intent.write(change)
            try:
                await self._apply(change)
            except AgentdError:  # whoever asked is told, and asks again or thinks better of it
                await self._intent.clear()
                raise
            await self._intent.clear()

    async def _apply(self, change: Relabelling) -> None:
        add = [change.label.name] if change.label else []
        for chats in self._bearing(change.name):
            await _all(
                self._editing.label(chat, change.by, add=add, remove=[change.name])
                for chat in chats
            )
        if change.name not in [label.name for label in await self._book.labels()]:
            return  # the crash came after the last step
        if change.label:
            await self._book.change(change.name, change.label)
        else:
            await self._book.remove(change.name)

    def _bearing(self, name: str) -> list[list[int]]:
        """The chats that bear a label, some at a time."""
        found = [chat.id for chat in self._shelf.known.values() if name in chat.labels]
        return [found[at : at + AT_ONCE] for at in range(0, len(found), AT_ONCE)]


def _check_number(labels: int) -> None:
    if labels > MOST:
        raise BadRequest(f"A chat bears at most {MOST} labels")


async def _all(changes: Iterable[Awaitable[object]]) -> None:
    """All at once; the first failure is raised once none is going on any more."""
    done = await asyncio.gather(*changes, return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
