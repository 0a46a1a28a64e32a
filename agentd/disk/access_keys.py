"""``access-keys.yml`` of the state folder: the access keys of the model gateway.

Written by ``agentd proxy key``, by the API and by hand; comments stay. It holds salted hashes:
nothing from which a key could be made. A key that cannot be read as valid is none: a mistake in one
entry takes that key down, a mistake about the whole takes all down, and both are told.
``revoked.json`` beside it remembers the letters that agentd took away: an older file that comes
back with a backup does not bring them back, until ``agentd proxy key reinstate``. Letters
before a reissue are good until the new ones are told (``disk.renewals``).

Thousands of keys are common, so the file is read entry by entry (``listing``), and an entry that
was read before is known by its text (``access_key_entries``).
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from msgspec import Struct, structs

from agentd.clock import Clock, SystemClock
from agentd.disk import document, handwritten, listing
from agentd.disk.access_key_entries import Entries
from agentd.disk.graves import Grave, Graves
from agentd.disk.layout import Layout
from agentd.disk.listing import Entry, Listing
from agentd.disk.lock import held
from agentd.disk.renewals import Renewals
from agentd.disk.splice import Text
from agentd.errors import AgentdError, Conflict, Misconfigured, Mistake, NotFound
from agentd.proxy.access_key import AccessKey, UntoldLetters, folded

LIMIT = 16 * 1024 * 1024
"""The largest file, in bytes: some 50,000 keys."""

_LIST = "keys"

_CLOCK = SystemClock()

_HEADER = """\
# The access keys of agentd's model gateway: salted hashes only. Deleting or disabling an entry
# takes its key away at once. `agentd proxy key` and the API edit this file too, and leave your
# comments.
format: 1
keys:
"""


class AccessKeysYml(Struct, frozen=True):
    """The content of ``access-keys.yml``."""

    format: Literal[1] = 1
    keys: tuple[AccessKey, ...] | None = None


class Kept(Struct, frozen=True):
    """What the file says."""

    keys: tuple[AccessKey, ...] = ()
    """Those that are valid, in the file's order."""
    mistakes: tuple[Mistake, ...] = ()
    """Why others are not."""
    stamp: object = None
    """Of the file before it was read, as ``AccessKeyFile.stamp`` has it."""
    blank: bool = True
    """Whether it is not there, or empty."""
    untold: tuple[UntoldLetters, ...] = ()
    """Letters that are good because nobody is known to have those in the file."""
    certain: bool = True
    """False when it could not be read at all: its stamp then tells nothing."""

    @property
    def doubtful(self) -> bool:
        """Whether it looks as a file does while it is being saved: gone, empty or half."""
        return bool(self.mistakes) or self.blank


class _Content(NamedTuple):
    """The file taken apart, and what each entry is; ``None`` for one that is not valid."""

    parts: Listing
    keys: tuple[AccessKey | None, ...]
    mistakes: tuple[Mistake, ...]


class AccessKeyFile:
    """The file, for who reads it and for who edits it. Everything but ``stamp`` blocks.

    Each change holds the lock of the file, is only tried in a ``dry_run``, and raises
    ``Conflict`` when somebody else saves it meanwhile, or when it is written in a way that cannot
    be edited.
    """

    def __init__(self, layout: Layout, clock: Clock = _CLOCK) -> None:
        self.path = layout.access_keys
        self.graves = layout.access_keys_revoked
        """The file of those that were taken away."""
        self._graves = Graves(self.graves)
        self._renewals = Renewals(layout.access_keys_renewals, UntoldLetters)
        self._renewing = False
        self._clock = clock
        self._lock = layout.access_keys_lock
        self._entries = Entries(self.path, layout.access_keys_known)
        self._last: tuple[bytes, _Content] | None = None
        """What was read last, and what it is: whoever writes it reads it again."""

    def stamp(self) -> object:
        """The file's stamp now; while letters are untold, that of ``renewals.json`` too."""
        stamp = document.stamp(self.path)
        return (stamp, document.stamp(self._renewals.path)) if self._renewing else stamp

    def read(self) -> Kept:
        """All that is valid; never raises."""
        stamp = self.stamp()
        try:
            found = document.read(self.path, LIMIT, guarded=True)
            content = self._content(found.data if found else b"")
            dead = self._graves.digests()
            content = _without_dead(self.path, content, dead)
            untold, damage = self._untold(content.keys, dead)
        except Misconfigured as error:
            return Kept(mistakes=tuple(error.mistakes), stamp=stamp)
        except AgentdError as error:
            told = (Mistake(self.path, 0, error.message),)
            return Kept(mistakes=told, stamp=stamp, certain=False)
        keys = tuple(key for key in content.keys if key)
        blank = found is None or not found.data
        return Kept(keys, (*content.mistakes, *damage), stamp, blank, untold)

    def add(self, key: AccessKey, *, dry_run: bool = False) -> None:
        """One more, at the end. ``Conflict`` when its name is taken."""

        def change(now: _Content) -> tuple[Listing, list[AccessKey | None]]:
            _check_free(now.keys, key)
            text = Text(self.path, "")
            _write(text, None, key)
            lines = text.content.splitlines()
            return now.parts.with_one_more(lines, _LIST), [*now.keys, key]

        self._edit(change, dry_run)

    def change(
        self,
        key_id: str,
        revise: Callable[[AccessKey], AccessKey],
        *,
        dry_run: bool = False,
        renewals: Sequence[UntoldLetters] = (),
    ) -> AccessKey:
        """Another key of the same id in its place, as ``revise`` makes it; it is answered.

        ``NotFound``; ``Conflict`` when its new name is taken. ``renewals``, which ``revise`` may
        fill, are noted first, and letters that they keep good are not buried.
        """
        made: list[AccessKey] = []

        def change(now: _Content) -> tuple[Listing, list[AccessKey | None]]:
            number, before = _find(now.keys, key_id)
            after = revise(before)
            _check_free((*now.keys[:number], *now.keys[number + 1 :]), after)
            entry = now.parts.entries[number]
            text = Text(self.path, entry.value)
            _write(text, before, after)
            made.append(after)
            keys = [*now.keys[:number], after, *now.keys[number + 1 :]]
            return now.parts.changed(number, entry.with_value(text.content)), keys

        self._edit(change, dry_run, renewals)
        return made[0]

    def reissue(
        self, key_id: str, revise: Callable[[AccessKey], AccessKey], *, dry_run: bool = False
    ) -> AccessKey:
        """Keep a key with the other letters that ``revise`` gives it. As ``change``.

        Where this raises, the letters before are good as they were. Where it returns, they are
        good beside the new ones until ``answer`` in this process, and until ``settle`` in all.
        """

        def reissued(key: AccessKey) -> AccessKey:
            after = revise(key)
            current = {key.secret.sha256}
            unheard = next((one for one in self._renewals.open(current)), None)
            if unheard and after.before:  # those that nobody has need no grace, but those before
                after = structs.replace(after, before=unheard.secret)
            good: AccessKey | UntoldLetters = unheard or key
            noted.append(
                UntoldLetters(
                    key.id, after.secret.sha256, good.secret, good.before, good.before_until
                )
            )
            return after

        noted: list[UntoldLetters] = []
        try:
            return self.change(key_id, reissued, dry_run=dry_run, renewals=noted)
        except Misconfigured as error:
            raise Conflict(
                "A file of agentd's own is damaged; mend it first", error.message
            ) from error

    def answer(self, new: str) -> None:
        """Refuse the letters before in this process: the new ones are about to be told."""
        self._renewals.answer(new)

    def take_back(self, new: str) -> None:
        """Let the letters before be good again: the new ones did not reach anybody."""
        self._renewals.take_back(new)

    def settle(self, key_id: str, new: str) -> None:
        """Bury what was good before the letters of this digest: somebody has them."""
        with held(self._lock, "the access keys"):
            renewals = self._renewals.up_to(key_id, new)
            if not renewals:
                return
            found = document.read(self.path, LIMIT, guarded=True)
            known = _letters(self._content(found.data if found else b"").keys)
            before = {one.sha256 for one in renewals} | {one.new for one in renewals}
            gone = before - known.keys() - {new}  # an undo may have brought one back
            name = next((key.name for key in known.values() if key.id == key_id), key_id)
            at = self._clock.now()
            self._graves.change(bury=[Grave(name, one, at) for one in gone])
            self._renewals.end(renewals)

    def remove(
        self, key_id: str, check: Callable[[AccessKey], object] = bool, *, dry_run: bool = False
    ) -> AccessKey:
        """One less, with the comments right above it, unless ``check`` raises; it is answered.

        ``NotFound``.
        """
        gone: list[AccessKey] = []

        def change(now: _Content) -> tuple[Listing, list[AccessKey | None]]:
            number, key = _find(now.keys, key_id)
            check(key)
            gone.append(key)
            keys = [*now.keys[:number], *now.keys[number + 1 :]]
            return now.parts.without(number, _LIST), keys

        self._edit(change, dry_run)
        return gone[0]

    def reinstate(self, wanted: str) -> AccessKey:
        """Let a key be good again that was taken away, and stands in the file all the same.

        ``wanted`` is its id or name. ``NotFound``.
        """
        with held(self._lock, "the access keys"):
            found = document.read(self.path, LIMIT, guarded=True)
            keys = self._content(found.data if found else b"").keys
            for key in filter(None, keys):
                if wanted == key.id or folded(wanted) == folded(key.name):
                    if not self._graves.change(exhume=(key.secret.sha256,)):
                        raise NotFound(f"The access key {key.name} was not taken away")
                    return key
            raise NotFound(f'{self.path} has no access key "{wanted[:100]}"')

    def _edit(
        self,
        change: Callable[[_Content], tuple[Listing, list[AccessKey | None]]],
        dry_run: bool,
        renewals: Sequence[UntoldLetters] = (),
    ) -> None:
        with held(self._lock, "the access keys"):
            found = document.read(self.path, LIMIT, guarded=True)
            data = found.data if found and found.data.strip() else _HEADER.encode()
            try:
                now = self._content(data)
            except Misconfigured as error:
                what = f"{self.path} has mistakes; mend them, then try again"
                raise Conflict(what, error.message) from error
            if len(now.keys) != len(now.parts.entries):
                raise Conflict(handwritten.by_hand(self.path))
            after, expected = change(now)
            edited = after.content.encode()
            try:
                fits = list(self._content(edited).keys) == expected
            except Misconfigured as error:
                raise Conflict(handwritten.by_hand(self.path), error.message) from error
            if not fits:
                raise Conflict(handwritten.by_hand(self.path))
            if not dry_run:
                known, left = _letters(now.keys), _letters(expected)
                for renewal in renewals:
                    self._renewals.begin(renewal, known)
                graves = [] if renewals else self._graves_of(known, left)
                if back := left.keys() - known.keys():  # as by an undo
                    self._graves.change(exhume=back)
                document.replace(self.path, edited, expected=found.stamp if found else None)
                if graves:
                    self._graves.change(bury=graves)

    def _graves_of(
        self, known: Mapping[str, AccessKey], left: Mapping[str, AccessKey]
    ) -> list[Grave]:
        """Those of letters that go, and of those before them that nobody was told the end of."""
        at, gone = self._clock.now(), known.keys() - left.keys()
        graves = {one: Grave(known[one].name, one, at) for one in gone}
        for one in _sound(self._renewals) if gone else ():
            if one.new in gone and one.sha256 not in left:
                graves[one.sha256] = Grave(known[one.new].name, one.sha256, at)
        return list(graves.values())

    def _untold(
        self, keys: Iterable[AccessKey | None], dead: frozenset[str]
    ) -> tuple[tuple[UntoldLetters, ...], tuple[Mistake, ...]]:
        """Return those in force, and why others are not: a damaged file keeps nothing good."""
        try:
            found = self._renewals.open(_letters(keys))
        except Misconfigured as error:
            self._renewing = False
            return (), tuple(error.mistakes)
        self._renewing = bool(found)
        return tuple(one for one in found if one.sha256 not in dead), ()

    def _content(self, data: bytes) -> _Content:
        """Raises ``Misconfigured`` when the file cannot be read as a whole."""
        last = self._last
        if last is None or last[0] != data:
            last = self._last = data, self._taken_apart(data)
        return last[1]

    def _taken_apart(self, data: bytes) -> _Content:
        content = handwritten.decoded(self.path, data, LIMIT)
        parts = listing.taken_apart(content, _LIST)
        frame = handwritten.load(self.path, parts.frame.encode(), AccessKeysYml)
        if frame.keys is not None and parts.entries:
            line = parts.entries[-1].line
            raise Misconfigured([Mistake(self.path, line, "what follows the keys is no YAML")])
        if frame.keys:  # written in brackets, say: all of it is one text
            return _without_twins(self.path, parts, list(frame.keys), [])
        keys: list[AccessKey | None] = []
        mistakes: list[Mistake] = []
        read = self._entries.read(entry.value for entry in parts.entries)
        for entry, one in zip(parts.entries, read, strict=True):
            if isinstance(one, AccessKey):
                keys.append(one)
            else:
                keys.append(None)
                mistakes += (_moved(mistake, entry) for mistake in one)
        return _without_twins(self.path, parts, keys, mistakes)


def _without_twins(
    path: str, parts: Listing, keys: list[AccessKey | None], mistakes: list[Mistake]
) -> _Content:
    """Of two with the same id or name the first is valid."""
    ids: set[str] = set()
    names: set[str] = set()
    for number, key in enumerate(keys):
        if key is None:
            continue
        name = folded(key.name)
        if key.id in ids or name in names:
            line = parts.entries[number].line if parts.entries else 0
            what = f'"{key.name}" ({key.id}) has the id or name of a key above; it is not valid'
            mistakes.append(Mistake(path, line, what))
            keys[number] = None
        ids.add(key.id)
        names.add(name)
    mistakes.sort(key=lambda mistake: mistake.line)
    return _Content(parts, tuple(keys), tuple(mistakes))


def _without_dead(path: str, content: _Content, dead: frozenset[str]) -> _Content:
    """Keys whose letters agentd took away are not valid, whoever wrote them there again."""
    keys, mistakes = list(content.keys), list(content.mistakes)
    for number, key in enumerate(keys):
        if key and key.secret.sha256 in dead:
            line = content.parts.entries[number].line if content.parts.entries else 0
            what = f'"{key.name}" ({key.id}) was taken away; it is not valid'
            again = f"`agentd proxy key reinstate {key.id}` would make it good again"
            mistakes.append(Mistake(path, line, f"{what} ({again})"))
            keys[number] = None
    return content._replace(keys=tuple(keys), mistakes=tuple(mistakes))


def _sound(renewals: Renewals[UntoldLetters]) -> tuple[UntoldLetters, ...]:
    """Return what is noted; nothing where it is damaged, for then it keeps nothing good."""
    try:
        return renewals.read()
    except Misconfigured:
        return ()


def _letters(keys: Iterable[AccessKey | None]) -> dict[str, AccessKey]:
    return {key.secret.sha256: key for key in keys if key}


def _moved(mistake: Mistake, entry: Entry) -> Mistake:
    """A mistake of an entry at its line of the file."""
    line = mistake.line + entry.line - 1 if mistake.line else entry.line
    return dataclasses.replace(mistake, line=line)


def _find(keys: Sequence[AccessKey | None], key_id: str) -> tuple[int, AccessKey]:
    for number, key in enumerate(keys):
        if key and key.id == key_id:
            return number, key
    raise NotFound(f'There is no access key with the id "{key_id[:40]}"')


def _check_free(others: Iterable[AccessKey | None], key: AccessKey) -> None:
    for other in others:
        if other and folded(other.name) == folded(key.name):
            raise Conflict(f'There is an access key "{other.name}" already')


def _write(text: Text, before: AccessKey | None, after: AccessKey) -> None:
    """Change what differs; ``before`` is ``None`` for what is new."""
    old, new = _plain(before) if before else {}, _plain(after)
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) == new.get(name):
            continue
        if name not in new:
            text.drop((name,))
        elif name == "limits" and name in old:
            _write_limits(text, old[name], new[name])
        else:
            text.set((name,), new[name])


def _write_limits(text: Text, old: Mapping[str, object], new: Mapping[str, object]) -> None:
    for name in dict.fromkeys([*new, *old]):  # what is new first: the map is never empty
        if name not in new:
            text.drop(("limits", name))
        elif old.get(name) != new[name]:
            text.set(("limits", name), new[name])


def _plain(value: Struct) -> dict[str, Any]:
    """A struct as it is written: without what is left at its default."""
    told: dict[str, Any] = {}
    for field in structs.fields(value):
        one = getattr(value, field.name)
        if not field.required and one == field.default:
            continue
        if isinstance(one, Struct):
            one = _plain(one)
        elif isinstance(one, Decimal):
            one = Decimal(f"{one:f}")
        told[field.name] = one
    return told
