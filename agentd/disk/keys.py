"""The named access keys: ``keys.yml`` for people to read and edit, and what must outlive an edit.

``keys.yml`` (format 1) holds name, salt, salted SHA-256 and time of each key: nothing from which
a key could be made, so it is safe to commit. Deleting an entry revokes its key. ``revoked.json``
remembers what was revoked through agentd: it wins over an older ``keys.yml`` that comes back
with a ``git checkout`` or a backup, until ``agentd keys reinstate``. ``last_used.json`` is a
cache. ``renewals.json`` keeps a key good that was made anew until the new one is told
(``disk.renewals``). Whoever changes any of them holds ``keys.lock``.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from agentd.access.key import NamedKey, Renewal, find_descendants
from agentd.access.service import Kept, Revoked
from agentd.clock import Timestamp
from agentd.disk import document, handwritten, roundtrip
from agentd.disk.graves import Grave, Graves, read_json, write_json
from agentd.disk.layout import Layout
from agentd.disk.lock import held
from agentd.disk.renewals import Renewals
from agentd.errors import (
    AgentdError,
    Conflict,
    Misconfigured,
    NotFound,
    find_repeated,
    nearest,
)

T = TypeVar("T")

SETTLE = 0.02
"""Seconds after which the time of a file that is being emptied is right."""

_HEADER = b"""\
# Named access keys of agentd: salted hashes only, safe to commit. Deleting an entry revokes its
# key at once. `agentd keys` edits this file too, and leaves your comments.
format: 1
keys: []
"""


class KeysYml(Struct, frozen=True):
    """The content of ``keys.yml``."""

    format: Literal[1] = 1
    keys: tuple[NamedKey, ...] | None = None

    def __post_init__(self) -> None:
        for what in ("name", "sha256"):
            twice = find_repeated(getattr(key, what) for key in self.keys or ())
            if twice is not None:
                raise ValueError(f"two keys have the {what} {twice}; one must go")


class LastUsedJson(Struct, frozen=True, rename="camel"):
    """The content of ``last_used.json``."""

    format: Literal[1] = 1
    last_used: dict[str, Timestamp] = {}


class KeyFile:
    """The ``KeyStore`` of a state folder. Everything but ``stamp`` blocks."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._graves = Graves(layout.revoked)
        self._renewals = Renewals(layout.renewals, Renewal)
        self._renewing = False

    def stamp(self) -> object:
        """The stamp of ``keys.yml``; while a key is being renewed, of ``renewals.json`` too."""
        stamp = document.stamp(self._layout.keys)
        return (stamp, document.stamp(self._layout.renewals)) if self._renewing else stamp

    def read(self) -> Kept:
        """What the files say; whatever is wrong with them is its ``trouble``."""
        try:
            revoked = self._graves.digests()
            found = document.read(self._layout.keys, handwritten.LIMIT, guarded=True)
        except AgentdError as error:
            return Kept(trouble=error.message)
        if found is None:
            return Kept(revoked=revoked)
        if not found.data.strip():
            return Kept(revoked=revoked, torn=True, saved=self._saved())
        try:
            named = self._parsed(found.data)
            renewals = self._open_renewals(named, revoked)
            return Kept(named, revoked, renewals=renewals)
        except Misconfigured as error:
            return Kept(revoked=revoked, trouble=error.message, torn=True, saved=self._saved())

    def _saved(self) -> float:
        """When a torn file was last written: a file is empty a little before its time says so."""
        time.sleep(SETTLE)
        stamp = document.stamp(self._layout.keys)
        return stamp.mtime_ns / 1e9 if stamp else 0.0

    def check(self) -> None:
        """Raise what is wrong with ``keys.yml``: ``Misconfigured`` or ``Unavailable``."""
        found = document.read(self._layout.keys, handwritten.LIMIT, guarded=True)
        if found:
            self._parsed(found.data)
        self._renewals.read()

    def add(self, key: NamedKey) -> None:
        """Keep one more. ``Conflict`` when its name is taken."""
        with self._changing():
            keys, edit = self._open()
            if any(kept.name == key.name for kept in keys):
                raise Conflict(
                    f"There is a key named {key.name} already; agentd keys regenerate"
                    f" {key.name} makes another in its place"
                )
            values = {name: one for name, one in msgspec.structs.asdict(key).items() if one}
            edit(lambda tree: tree.append("keys", values), (*keys, key))

    def renew(self, key: NamedKey) -> None:
        """Keep this instead of the one of its name. ``NotFound``.

        Where this raises, nothing is another than before. Where it returns, the one before is
        refused in this process, and everywhere once ``settle`` was called; until then the next
        process takes both, for it cannot know whether the new one was told to anybody.
        """
        with self._changing():
            keys, edit = self._open()
            index = _index(keys, key.name)
            current = {one.sha256 for one in keys}
            untold = {one.new: one for one in self._renewals.open(current)}
            before = untold.get(keys[index].sha256, keys[index])
            renewal = Renewal(key.name, key.sha256, before.salt, before.sha256)
            self._renewals.begin(renewal, current)
            if key.created_by in ("", f"key:{key.name}"):  # it is still who made it that knows it
                key = msgspec.structs.replace(key, created_by=keys[index].created_by)
            values = {"salt": key.salt, "sha256": key.sha256, "created": key.created}
            if key.created_by:
                values["created_by"] = key.created_by
            edit(
                lambda tree: tree.update("keys", index, values),
                (*keys[:index], key, *keys[index + 1 :]),
            )
            self._renewals.answer(key.sha256)

    def settle(self, name: str, new: str, at: Timestamp) -> None:
        """Bury what was good before the key of this digest: somebody has it."""
        with self._changing():
            if renewals := self._renewals.up_to(name, new):
                before = {one.sha256 for one in renewals} | {one.new for one in renewals}
                self._graves.change(bury=[Grave(name, one, at) for one in before - {new}])
                self._renewals.end(renewals)

    def take_back(self, new: str) -> None:
        """Let the key before be good again: the answer with the new one did not get out."""
        self._renewals.take_back(new)

    def revoke(self, name: str, at: Timestamp, *, with_children: bool = False) -> Revoked:
        """Remember that the key was revoked, then remove it. ``NotFound``.

        So are all that it made, and that those made, ``with_children``.
        """
        with self._changing():
            keys, edit = self._open()
            _index(keys, name)
            children = find_descendants(keys, name)
            gone = {name, *(children if with_children else ())}
            digests = [(key.name, key.sha256) for key in keys if key.name in gone]
            digests += [(one.name, one.sha256) for one in self._renewals.read() if one.name in gone]
            self._graves.change(bury=[Grave(whose, one, at) for whose, one in digests])
            numbers = [number for number, key in enumerate(keys) if key.name in gone]

            def remove(tree: Any) -> None:
                for number in reversed(numbers):
                    tree.remove("keys", number)

            edit(remove, tuple(key for key in keys if key.name not in gone))
        revoked = tuple(key.name for key in keys if key.name in gone)
        return Revoked(revoked, tuple(one for one in children if one not in gone))

    def reinstate(self, name: str) -> None:
        """Let a revoked key that stands in ``keys.yml`` again be good again. ``NotFound``."""
        with self._changing():
            keys, _ = self._open()
            digest = keys[_index(keys, name)].sha256
            if not self._graves.change(exhume=(digest,)):
                raise NotFound(f"The key {name} is not revoked")

    def last_used(self) -> dict[str, Timestamp]:
        """When each key was last used, by digest; a damaged memory of it is none."""
        with suppress(AgentdError):
            return read_json(self._layout.last_used, LastUsedJson, handwritten.LIMIT).last_used
        return {}

    def save_last_used(self, uses: dict[str, Timestamp]) -> None:
        """Remember when each key was last used."""
        write_json(self._layout.last_used, LastUsedJson(last_used=uses))

    def graves(self) -> tuple[Grave, ...]:
        """What was revoked. ``Misconfigured`` when the file is damaged or unsafe."""
        return self._graves.read()

    def _open_renewals(
        self, named: tuple[NamedKey, ...], revoked: frozenset[str]
    ) -> tuple[Renewal, ...]:
        """Those in force; a damaged file is none, and is told by ``check``."""
        try:
            renewals = self._renewals.open({key.sha256 for key in named})
        except AgentdError:
            renewals = ()
        self._renewing = bool(renewals)
        return tuple(one for one in renewals if one.sha256 not in revoked)

    def _parsed(self, data: bytes) -> tuple[NamedKey, ...]:
        return handwritten.load(self._layout.keys, data, KeysYml).keys or ()

    def _open(self) -> tuple[tuple[NamedKey, ...], Callable[..., None]]:
        """The keys now, and how to change them: ``edit(change, keys expected then)``.

        Raises ``Misconfigured`` when the file has mistakes, and the edit ``Conflict`` when it
        was changed by somebody else meanwhile.
        """
        path = self._layout.keys
        found = document.read(path, handwritten.LIMIT, guarded=True)
        data = found.data if found and found.data.strip() else _HEADER

        def edit(change: Callable[[Any], None], expected: tuple[NamedKey, ...]) -> None:
            edited = roundtrip.edited(path, data, change)
            if self._parsed(edited) != expected:
                raise Conflict(handwritten.by_hand(path))
            document.replace(path, edited, expected=found.stamp if found else None)

        return self._parsed(data), edit

    def _changing(self) -> AbstractContextManager[None]:
        return held(self._layout.keys_lock, "the keys")


def _index(keys: tuple[NamedKey, ...], name: str) -> int:
    names = [key.name for key in keys]
    if name not in names:
        raise NotFound(f'There is no key named "{name}"{nearest(name, names)}')
    return names.index(name)
