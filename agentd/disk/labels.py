"""``labels.yml`` of the configuration folder: written by hand, and by the API.

What the API writes leaves the comments as they are. A change of a name, which takes many steps, is
kept in ``relabelling.json`` of the state folder until it is finished.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import structs

from agentd.catalog.labels import Label, LabelList, check_free, contradictions, index_of
from agentd.chats.labelling import Relabelling
from agentd.disk import document, handwritten, roundtrip
from agentd.disk.graves import write_json
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.errors import Conflict, Misconfigured, Mistake

_HEADER = b"""\
# The labels of chats, in the order in which they are shown. The API and the browser edit this
# file too, and leave your comments.
labels: []
"""


def load(layout: Layout) -> tuple[Label, ...]:
    """The labels, in the file's order; none without a file. Blocking.

    Raises ``Misconfigured`` with every mistake, or ``Unavailable``.
    """
    found = document.read(layout.labels, handwritten.LIMIT)
    return _parsed(layout.labels, found.data) if found else ()


class LabelBook:
    """The labels as they are now, and how they are changed.

    ``changed`` is called on the loop when they are others.
    """

    def __init__(self, layout: Layout, changed: Callable[[], None] = lambda: None) -> None:
        self._layout = layout
        self._changing = asyncio.Lock()
        self.file: Reloaded[tuple[Label, ...]] = Reloaded(
            layout.labels, partial(load, layout), (), changed
        )

    async def labels(self) -> tuple[Label, ...]:
        """All labels, as the file is at the call; a broken edit leaves them as they were."""
        await self.file.ensure_current()
        return self.file.current

    async def add(self, label: Label) -> None:
        """One more, at the end. ``Conflict`` when its name is taken, or the file is broken."""

        def change(labels: tuple[Label, ...], tree: Any) -> tuple[Label, ...]:
            check_free(labels, label.name)
            tree.append("labels", structs.asdict(label))
            return (*labels, label)

        await self._change(change)

    async def change(self, name: str, label: Label) -> None:
        """Another one in the place of that name's. ``NotFound``; ``Conflict`` as in ``add``."""

        def change(labels: tuple[Label, ...], tree: Any) -> tuple[Label, ...]:
            index = index_of(labels, name)
            check_free(labels[:index] + labels[index + 1 :], label.name)
            tree.update("labels", index, structs.asdict(label))
            return (*labels[:index], label, *labels[index + 1 :])

        await self._change(change)

    async def remove(self, name: str) -> None:
        """One less. ``NotFound``; ``Conflict`` as in ``add``."""

        def change(labels: tuple[Label, ...], tree: Any) -> tuple[Label, ...]:
            index = index_of(labels, name)
            tree.remove("labels", index)
            return labels[:index] + labels[index + 1 :]

        await self._change(change)

    async def _change(self, change: Callable[[tuple[Label, ...], Any], tuple[Label, ...]]) -> None:
        async with self._changing:
            await asyncio.to_thread(self._edit, change)
            await self.file.refresh()

    def _edit(self, change: Callable[[tuple[Label, ...], Any], tuple[Label, ...]]) -> None:
        path = self._layout.labels
        document.make_folder(self._layout.config)
        try:
            found = document.read(path, handwritten.LIMIT)
            data = found.data if found and found.data.strip() else _HEADER
            labels = _parsed(path, data)
        except Misconfigured as error:
            what = f"{path} has mistakes; mend them, then try again"
            raise Conflict(what, error.message) from error
        after: list[tuple[Label, ...]] = []
        edited = roundtrip.edited(path, data, lambda tree: after.append(change(labels, tree)))
        try:
            as_read = _parsed(path, edited)
        except Misconfigured as error:
            raise Conflict(handwritten.by_hand(path), error.message) from error
        if as_read != after[0]:
            raise Conflict(handwritten.by_hand(path))
        document.replace(path, edited, expected=found.stamp if found else None)


class RelabellingJson(Relabelling, frozen=True):
    """The content of ``relabelling.json``."""

    format: Literal[1] = 1


class IntentFile:
    """``relabelling.json``: the change of a label's name that is going on."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.relabelling

    def load(self) -> Relabelling | None:
        """As ``read``. Blocking."""
        found = document.read(self._path, handwritten.LIMIT)
        if found is None:
            return None
        try:
            return msgspec.json.decode(found.data, type=RelabellingJson)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged ({error}): delete it, and rename or delete the label once more"
            raise Misconfigured([Mistake(self._path, 0, what)]) from error

    async def read(self) -> Relabelling | None:
        """The change that was not finished. ``Misconfigured`` or ``Unavailable``."""
        return await asyncio.to_thread(self.load)

    async def write(self, change: Relabelling) -> None:
        """Keep it. ``Unavailable``."""
        kept = RelabellingJson(change.name, change.label, change.by)
        await asyncio.to_thread(write_json, self._path, kept)

    async def clear(self) -> None:
        """It is finished. ``Unavailable``."""
        await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        with document.told(self._path, "remove"), suppress(FileNotFoundError):
            os.unlink(self._path)
            document.sync_folder(os.path.dirname(self._path))


def _parsed(path: str, data: bytes) -> tuple[Label, ...]:
    return handwritten.load(path, data, LabelList, contradictions).labels or ()
