"""The remains of a recorded folder after a power cut. Pure but for ``lay_out``, which writes them.

The rules are harder than those of any one file system. Of a file, all is safe that was written
before a sync of it began; of what came later any beginning may be there, torn at any byte, with
or without zeros in place of the rest. A name is safe only when its folder was synced after it
was given; of the later changes of a folder any may be there, and any may be missing.
"""

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.crash.recorder import Event, Made, Named, Resized, Synced, Thing, Unnamed, Written

Tree: TypeAlias = "dict[str, Tree | bytes]"
PAGE = 4096


@dataclass
class _ThingHistory:
    """The record of one thing: its changes with their places in the log, and its syncs."""

    is_folder: bool
    changes: list[tuple[int, Event]] = field(default_factory=list)
    safe: int = 0


def build_cut_tree(log: Sequence[Event], chance: random.Random, *, holes: bool = False) -> Tree:
    """Return one of the many trees that may be found when the power fails at the end of this log.

    With ``holes``, pages that were never synced may be missing before others that are there.
    """
    things: dict[Thing, _ThingHistory] = {0: _ThingHistory(is_folder=True)}
    for at, event in enumerate(log):
        match event:
            case Made(thing, is_folder):
                things[thing] = _ThingHistory(is_folder)
            case Written(thing) | Resized(thing):
                things[thing].changes.append((at, event))
            case Named(folder) | Unnamed(folder):
                things[folder].changes.append((at, event))
            case Synced(thing, upto):
                things[thing].safe = max(things[thing].safe, upto)
            case _:
                pass
    return _build_tree(0, things, chance, holes)


def lay_out(tree: Tree, folder: str) -> None:
    """Write a tree into a folder that is made for it."""
    os.mkdir(folder, 0o700)
    for name, content in tree.items():
        path = os.path.join(folder, name)
        if isinstance(content, bytes):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(fd, content)
            os.close(fd)
        else:
            lay_out(content, path)


def _build_tree(
    folder: Thing, things: dict[Thing, _ThingHistory], chance: random.Random, holes: bool
) -> Tree:
    entries: dict[str, Thing] = {}
    kept = things[folder]
    luck = chance.choice([0.0, 0.5, 0.9, 1.0])
    for at, event in kept.changes:
        if at >= kept.safe and chance.random() >= luck:
            continue
        if isinstance(event, Named):
            entries[event.name] = event.thing
            entries.pop(event.ceased, None)
        elif isinstance(event, Unnamed):
            entries.pop(event.name, None)
    return {
        name: _build_tree(thing, things, chance, holes)
        if things[thing].is_folder
        else _build_content(things[thing], chance, holes)
        for name, thing in entries.items()
    }


def _build_content(kept: _ThingHistory, chance: random.Random, holes: bool) -> bytes:
    safe = [event for at, event in kept.changes if at < kept.safe]
    later = [event for at, event in kept.changes if at >= kept.safe]
    data = _apply_changes(bytearray(), safe)
    if not later:
        return bytes(data)
    there = chance.randrange(len(later) + 1)
    before = len(data)
    data = _apply_changes(data, later[:there])
    if there < len(later) and isinstance(torn := later[there], Written):
        part = torn.data[: chance.randrange(len(torn.data) + 1)]
        _put(data, torn.offset, part)
        if chance.random() < 0.3:  # the size grew, the data did not
            _put(data, torn.offset + len(part), bytes(len(torn.data) - len(part)))
    if holes:
        for page in range(before // PAGE, len(data) // PAGE + 1):
            start, end = max(before, page * PAGE), min(len(data), (page + 1) * PAGE)
            if start < end and chance.random() < 0.3:
                data[start:end] = bytes(end - start)
    return bytes(data)


def _apply_changes(data: bytearray, changes: Iterable[Event]) -> bytearray:
    for change in changes:
        if isinstance(change, Written):
            _put(data, change.offset, change.data)
        elif isinstance(change, Resized):
            del data[change.size :]
            data.extend(bytes(change.size - len(data)))
    return data


def _put(data: bytearray, offset: int, part: bytes) -> None:
    data.extend(bytes(max(offset - len(data), 0)))
    data[offset : offset + len(part)] = part
