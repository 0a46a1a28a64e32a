"""``labels.yml`` of the configuration folder: written by hand, and by the API.

What the API writes leaves the comments as they are. A change of a name, which takes many steps, is
kept in ``relabelling.json`` of the state folder until it is finished.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec
from msgspec import structs

from agentd.chats.labels.model import Label, LabelList, find_index, require_unused_name, validate
from agentd.chats.labels.service import LabelChange
from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage import document
from agentd.storage.json_document import write_json
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor, edit_yaml_list

_HEADER = b"""\
# The labels of chats, in the order in which they are shown. The API and the browser edit this
# file too, and leave your comments.
labels: []
"""


def load(layout: Layout) -> tuple[Label, ...]:
    """Return the labels, in the file's order; none without a file. Blocking.

    Raises ``ConfigError`` with every mistake, or ``Unavailable``.
    """
    found = document.read_document(layout.labels, yaml_reader.MAX_FILE_SIZE)
    return _parse(layout.labels, found.data) if found else ()


class LabelFile:
    """The labels as they are now, and how they are changed.

    ``changed`` is called on the loop when they change.
    """

    def __init__(self, layout: Layout, changed: Callable[[], None] = lambda: None) -> None:
        self._layout = layout
        self._changing = asyncio.Lock()
        self.file: WatchedFile[tuple[Label, ...]] = WatchedFile(
            layout.labels, partial(load, layout), (), changed
        )

    async def get_labels(self) -> tuple[Label, ...]:
        """Return all labels as the file is at the call; a broken edit leaves them as they were."""
        await self.file.ensure_current()
        return self.file.current

    async def add(self, label: Label) -> None:
        """Append a label. ``Conflict`` if its name is taken, or the file is invalid."""

        def change(labels: tuple[Label, ...], text: YamlEditor) -> tuple[Label, ...]:
            require_unused_name(labels, label.name)
            text.append_item(("labels",), structs.asdict(label))
            return (*labels, label)

        await self._change(change)

    async def change(self, name: str, label: Label) -> None:
        """Replace the label of that name. ``NotFound``; ``Conflict`` as in ``add``."""

        def change(labels: tuple[Label, ...], text: YamlEditor) -> tuple[Label, ...]:
            index = find_index(labels, name)
            require_unused_name(labels[:index] + labels[index + 1 :], label.name)
            text.update_item(("labels",), index, structs.asdict(label))
            return (*labels[:index], label, *labels[index + 1 :])

        await self._change(change)

    async def remove(self, name: str) -> None:
        """Delete a label. ``NotFound``; ``Conflict`` as in ``add``."""

        def change(labels: tuple[Label, ...], text: YamlEditor) -> tuple[Label, ...]:
            index = find_index(labels, name)
            text.remove_item(("labels",), index)
            return labels[:index] + labels[index + 1 :]

        await self._change(change)

    async def _change(
        self, change: Callable[[tuple[Label, ...], YamlEditor], tuple[Label, ...]]
    ) -> None:
        path = self._layout.labels
        async with self._changing:
            await self.file.write(
                partial(edit_yaml_list, path, partial(_parse, path), change, _HEADER)
            )


class LabelChangeJson(LabelChange, frozen=True):
    """The content of ``relabelling.json``."""

    format: Literal[1] = 1


class LabelChangeFile:
    """``relabelling.json``: the renaming of a label that is under way."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.label_rename

    def load(self) -> LabelChange | None:
        """Read the file, as ``read`` does. Blocking."""
        found = document.read_document(self._path, yaml_reader.MAX_FILE_SIZE)
        if found is None:
            return None
        try:
            return msgspec.json.decode(found.data, type=LabelChangeJson)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = f"is damaged ({error}): delete it, and rename or delete the label once more"
            raise ConfigError([ConfigProblem(self._path, 0, what)]) from error

    async def read(self) -> LabelChange | None:
        """Return the unfinished change. ``ConfigError`` or ``Unavailable``."""
        return await asyncio.to_thread(self.load)

    async def write(self, change: LabelChange) -> None:
        """Keep it. ``Unavailable``."""
        kept = LabelChangeJson(change.name, change.label, change.by)
        await asyncio.to_thread(write_json, self._path, kept)

    async def clear(self) -> None:
        """Remove the finished change. ``Unavailable``."""
        await asyncio.to_thread(self._clear)

    def _clear(self) -> None:
        with document.translate_os_errors(self._path, "remove"), suppress(FileNotFoundError):
            os.unlink(self._path)
            document.sync_folder(os.path.dirname(self._path))


def _parse(path: str, data: bytes) -> tuple[Label, ...]:
    return yaml_reader.load_yaml(path, data, LabelList, validate).labels or ()
