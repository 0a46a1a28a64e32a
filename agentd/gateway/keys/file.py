"""``access-keys.yml`` of the state folder: the access keys of the model gateway.

Written by ``agentd proxy key``, by the API and by hand; comments stay. It holds salted hashes:
nothing from which a key could be made. A key that cannot be read as valid is none: a mistake in one
entry takes that key down, a mistake about the whole takes all down, and both are reported.
``revoked.json`` beside it remembers the secrets that agentd revoked: an older file that comes
back with a backup does not bring them back, until ``agentd proxy key reinstate``. The secret
before a reissue is valid until the new one is sent (``auth.key_renewals``).

Thousands of keys are common, so the file is read entry by entry (``list_editor``), and an entry
that was read before is known by its text (``gateway.keys.entries``).
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import NODEFAULT, Struct, structs

from agentd.auth.key_renewals import RenewalFile
from agentd.auth.revoked_keys import RevokedKey, RevokedKeys
from agentd.core.clock import SystemClock, Timestamp
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem, Conflict, NotFound
from agentd.gateway.keys.entries import AccessKeyEntries
from agentd.gateway.keys.model import AccessKey, PendingReissue, casefold_name
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.lock import hold_lock
from agentd.storage.yaml import list_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor
from agentd.storage.yaml.list_editor import YamlList, YamlListItem

LIMIT = 16 * 1024 * 1024
"""The largest file, in bytes: some 50,000 keys."""

_LIST = "keys"

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


class AccessKeyFileContents(Struct, frozen=True):
    """The contents of the file."""

    keys: tuple[AccessKey, ...] = ()
    """The valid keys, in the file's order."""
    problems: tuple[ConfigProblem, ...] = ()
    """Why others are not."""
    is_blank: bool = True
    """True if it is not there, or empty."""
    pending: tuple[PendingReissue, ...] = ()
    """Previous secrets that stay valid because the delivery of the new ones is not confirmed."""
    is_certain: bool = True
    """False if the file could not be read: its stamp is meaningless then."""

    @property
    def maybe_partial(self) -> bool:
        """True if it looks as a file does while it is being saved: gone, empty or half."""
        return bool(self.problems) or self.is_blank


_Pair: TypeAlias = tuple[AccessKey | None, AccessKey | None]
"""What a key was and is; ``None`` where there was or is none."""


class _Content(NamedTuple):
    """The file taken apart, and what each entry is; ``None`` for one that is not valid."""

    parts: YamlList
    keys: tuple[AccessKey | None, ...]
    problems: tuple[ConfigProblem, ...]


class AccessKeyFile:
    """The file, for reading and editing. Everything but ``get_stamp`` blocks.

    Each change holds the lock of the file, is only tried in a ``dry_run``, and raises
    ``Conflict`` when somebody else saves it meanwhile, or when it is written in a way that cannot
    be edited.
    """

    def __init__(self, layout: Layout) -> None:
        self.path = layout.access_keys
        self.revoked_path = layout.access_keys_revoked
        """The file of revoked keys."""
        self._revoked_keys = RevokedKeys(self.revoked_path)
        self._renewals = RenewalFile(layout.access_keys_renewals, PendingReissue)
        self._renewing = False
        self._clock = SystemClock()
        self._lock = layout.access_keys_lock
        self._entries = AccessKeyEntries(self.path, layout.access_keys_cache)
        self._last: tuple[bytes, _Content] | None = None
        """The last read content and what was parsed from it."""

    def get_stamp(self) -> object:
        """Return the file's stamp; while a reissue is pending, that of ``renewals.json`` too."""
        stamp = document.get_stamp(self.path)
        return (stamp, document.get_stamp(self._renewals.path)) if self._renewing else stamp

    def read(self) -> AccessKeyFileContents:
        """Read all valid keys and the problems; never raises."""
        try:
            found = document.read_document(self.path, LIMIT, own=True)
            content = self._parse(found.data if found else b"")
            revoked = self._revoked_keys.read_digests()
            content = _drop_revoked(self.path, content, revoked)
            unconfirmed, damage = self._find_pending(content.keys, revoked)
        except ConfigError as error:
            return AccessKeyFileContents(problems=tuple(error.problems))
        except AgentdError as error:
            problems = (ConfigProblem(self.path, 0, error.message),)
            return AccessKeyFileContents(problems=problems, is_certain=False)
        keys = tuple(key for key in content.keys if key)
        blank = found is None or not found.data
        return AccessKeyFileContents(keys, (*content.problems, *damage), blank, unconfirmed)

    def add(self, key: AccessKey, *, dry_run: bool = False) -> None:
        """Append a key. ``Conflict`` if its name is taken."""

        def change(now: _Content) -> tuple[YamlList, list[AccessKey | None]]:
            return _append_entries(self.path, now.parts, list(now.keys), [key])

        self._edit(change, dry_run)

    def change(
        self,
        key_id: str,
        revise: Callable[[AccessKey], AccessKey],
        *,
        dry_run: bool = False,
        renewals: Sequence[PendingReissue] = (),
    ) -> AccessKey:
        """Replace a key by what ``revise`` makes of it, with the same id, and return it.

        ``NotFound``; ``Conflict`` when its new name is taken. ``renewals``, which ``revise`` may
        fill, are noted first, and secrets that they keep valid are not revoked.
        """
        made: list[AccessKey] = []

        def change(now: _Content) -> tuple[YamlList, list[AccessKey | None]]:
            number, before = _find(now.keys, key_id)
            after = revise(before)
            _check_free((*now.keys[:number], *now.keys[number + 1 :]), after)
            made.append(after)
            keys = [*now.keys[:number], after, *now.keys[number + 1 :]]
            return _replace_entry(self.path, now.parts, number, (before, after)), keys

        self._edit(change, dry_run, renewals)
        return made[0]

    def reissue(
        self, key_id: str, revise: Callable[[AccessKey], AccessKey], *, dry_run: bool = False
    ) -> AccessKey:
        """Store a key with the new secret that ``revise`` gives it, as ``change`` does.

        Where this raises, the previous secret stays valid. Where it returns, it is valid beside
        the new one until ``refuse_previous`` in this process, until ``revoke_previous`` in all.
        """

        def make_reissued(key: AccessKey) -> AccessKey:
            after = revise(key)
            current = {key.secret.sha256}
            revoked = self._revoked_keys.read_digests()
            undelivered = next(iter(self._renewals.find_active(current, revoked)), None)
            after, pending = _prepare_reissue(key, after, undelivered)
            noted.append(pending)
            return after

        noted: list[PendingReissue] = []
        try:
            return self.change(key_id, make_reissued, dry_run=dry_run, renewals=noted)
        except ConfigError as error:
            raise Conflict(
                "A file of agentd's own is damaged; repair it first", error.message
            ) from error

    def refuse_previous(self, new: str) -> None:
        """Refuse the previous secret in this process: the new one is about to be sent."""
        self._renewals.mark_delivered(new)

    def restore_previous(self, new: str) -> None:
        """Accept the previous secret again: nobody received the new one."""
        self._renewals.mark_undelivered(new)

    def revoke_previous(self, key_id: str, new: str) -> None:
        """Revoke the secrets before the one of this digest: somebody has the new one."""
        with hold_lock(self._lock, "the access keys"):
            renewals = self._renewals.find_up_to(key_id, new)
            if not renewals:
                return
            found = document.read_document(self.path, LIMIT, own=True)
            known = _index_by_digest(self._parse(found.data if found else b"").keys)
            before = {one.sha256 for one in renewals} | {one.new for one in renewals}
            gone = before - known.keys() - {new}  # an undo may have brought one back
            name = next((key.name for key in known.values() if key.id == key_id), key_id)
            at = self._clock.now()
            self._revoked_keys.update(add=[RevokedKey(name, one, at) for one in gone])
            self._renewals.remove(renewals)

    def remove(
        self, key_id: str, check: Callable[[AccessKey], object] = bool, *, dry_run: bool = False
    ) -> AccessKey:
        """Remove and return a key, unless ``check`` raises. ``NotFound``."""

        def take(key: AccessKey) -> None:
            check(key)

        (pair,) = self.edit_all([key_id], take, dry_run=dry_run)
        assert pair[0]
        return pair[0]

    def edit_all(
        self,
        key_ids: Sequence[str],
        revise: Callable[[AccessKey], AccessKey | None],
        added: Sequence[AccessKey] = (),
        *,
        dry_run: bool = False,
    ) -> list[_Pair]:
        """Revise keys, of which ``revise`` returns ``None`` for one to remove, and add others.

        All or none, by one change of the file; returns what each was and is. As ``change``.
        """
        pairs: list[_Pair] = []

        def change(now: _Content) -> tuple[YamlList, list[AccessKey | None]]:
            parts, keys, pairs[:] = _edit_entries(self.path, now, key_ids, revise)
            pairs.extend((None, key) for key in added)
            return _append_entries(self.path, parts, keys, added)

        self._edit(change, dry_run)
        return pairs

    def remove_made_by(self, makers: Set[str]) -> tuple[AccessKey, ...]:
        """Remove and return all keys whose ``created_by`` is one of these; there may be none."""
        gone: list[AccessKey] = []
        if not makers & self.find_by_maker().keys():
            return ()

        def change(now: _Content) -> tuple[YamlList, list[AccessKey | None]]:
            gone.extend(key for key in now.keys if key and key.created_by in makers)
            parts, left, _ = _edit_entries(self.path, now, [key.id for key in gone], lambda _: None)
            return parts, left

        self._edit(change, dry_run=False)
        return tuple(gone)

    def find_by_maker(self) -> dict[str, list[AccessKey]]:
        """Return all keys by who made them. ``ConfigError`` for a file broken as a whole."""
        found = document.read_document(self.path, LIMIT, own=True)
        makers: dict[str, list[AccessKey]] = {}
        for key in filter(None, self._parse(found.data if found else b"").keys):
            makers.setdefault(key.created_by, []).append(key)
        return makers

    def reinstate(self, wanted: str) -> AccessKey:
        """Restore a revoked key that is still in the file.

        ``wanted`` is its id or name. ``NotFound``.
        """
        with hold_lock(self._lock, "the access keys"):
            found = document.read_document(self.path, LIMIT, own=True)
            keys = self._parse(found.data if found else b"").keys
            for key in filter(None, keys):
                if wanted == key.id or casefold_name(wanted) == casefold_name(key.name):
                    if not self._revoked_keys.update(remove=(key.secret.sha256,)):
                        raise NotFound(f"The access key {key.name} was not revoked")
                    return key
            raise NotFound(f'{self.path} has no access key "{wanted[:100]}"')

    def _edit(
        self,
        change: Callable[[_Content], tuple[YamlList, list[AccessKey | None]]],
        dry_run: bool,
        renewals: Sequence[PendingReissue] = (),
    ) -> None:
        with hold_lock(self._lock, "the access keys"):
            found = document.read_document(self.path, LIMIT, own=True)
            data = found.data if found and found.data.strip() else _HEADER.encode()
            try:
                now = self._parse(data)
            except ConfigError as error:
                what = f"{self.path} has errors; fix them, then try again"
                raise Conflict(what, error.message) from error
            if len(now.keys) != len(now.parts.entries):
                raise Conflict(yaml_reader.explain_not_editable(self.path))
            after, expected = change(now)
            edited = after.content.encode()
            try:
                fits = list(self._parse(edited).keys) == expected
            except ConfigError as error:
                why = yaml_reader.explain_not_editable(self.path)
                raise Conflict(why, error.message) from error
            if not fits:
                raise Conflict(yaml_reader.explain_not_editable(self.path))
            if not dry_run:
                known, left = _index_by_digest(now.keys), _index_by_digest(expected)
                for renewal in renewals:
                    self._renewals.add(renewal, known)
                revoked = (
                    []
                    if renewals
                    else _list_newly_revoked(
                        known, left, _read_renewals(self._renewals), self._clock.now()
                    )
                )
                back = left.keys() - known.keys()
                restored = back & self._revoked_keys.read_digests() if back else ()  # by an undo
                stamp = found.stamp if found else None
                document.replace_document(self.path, edited, expected=stamp)
                if revoked or restored:  # last: a change that fails makes no secret valid again
                    self._revoked_keys.update(add=revoked, remove=restored)

    def _find_pending(
        self, keys: Iterable[AccessKey | None], revoked: frozenset[str]
    ) -> tuple[tuple[PendingReissue, ...], tuple[ConfigProblem, ...]]:
        """Return the active renewals and the problems; a damaged file keeps no secret valid."""
        try:
            found = self._renewals.find_active(_index_by_digest(keys), revoked)
        except ConfigError as error:
            self._renewing = False
            return (), tuple(error.problems)
        self._renewing = bool(found)
        return found, ()

    def _parse(self, data: bytes) -> _Content:
        """Parse the file, unless it was parsed last. Raises ``ConfigError`` if it is no YAML."""
        last = self._last
        if last is None or last[0] != data:
            last = self._last = data, _parse_file(self.path, self._entries, data)
        return last[1]


def _parse_file(path: str, known: AccessKeyEntries, data: bytes) -> _Content:
    content = yaml_reader.decode_text(path, data, LIMIT)
    parts = list_editor.split_list(content, _LIST)
    frame = yaml_reader.load_yaml(path, parts.frame.encode(), AccessKeysYml)
    if frame.keys is not None and parts.entries:
        line = parts.entries[-1].line
        raise ConfigError([ConfigProblem(path, line, "what follows the keys is not YAML")])
    if frame.keys:  # written in brackets, say: all of it is one text
        return _drop_duplicates(path, parts, list(frame.keys), [])
    keys: list[AccessKey | None] = []
    problems: list[ConfigProblem] = []
    read = known.read(entry.value for entry in parts.entries)
    for entry, one in zip(parts.entries, read, strict=True):
        if isinstance(one, AccessKey):
            keys.append(one)
        else:
            keys.append(None)
            problems += (_add_file_line(problem, entry) for problem in one)
    return _drop_duplicates(path, parts, keys, problems)


def _drop_duplicates(
    path: str, parts: YamlList, keys: list[AccessKey | None], problems: list[ConfigProblem]
) -> _Content:
    """Drop keys whose id or name an earlier key has."""
    ids: set[str] = set()
    names: set[str] = set()
    for number, key in enumerate(keys):
        if key is None:
            continue
        name = casefold_name(key.name)
        if key.id in ids or name in names:
            line = parts.entries[number].line if parts.entries else 0
            what = f'"{key.name}" ({key.id}) has the id or name of a key above; it is not valid'
            problems.append(ConfigProblem(path, line, what))
            keys[number] = None
        ids.add(key.id)
        names.add(name)
    problems.sort(key=lambda problem: problem.line)
    return _Content(parts, tuple(keys), tuple(problems))


def _drop_revoked(path: str, content: _Content, revoked: frozenset[str]) -> _Content:
    """Drop keys whose secret was revoked, even if somebody wrote them into the file again."""
    keys, problems = list(content.keys), list(content.problems)
    for number, key in enumerate(keys):
        if key and key.secret.sha256 in revoked:
            line = content.parts.entries[number].line if content.parts.entries else 0
            what = f'"{key.name}" ({key.id}) was revoked; it is not valid'
            again = f"`agentd proxy key reinstate {key.id}` would restore it"
            problems.append(ConfigProblem(path, line, f"{what} ({again})"))
            keys[number] = None
    return content._replace(keys=tuple(keys), problems=tuple(problems))


def _list_newly_revoked(
    known: Mapping[str, AccessKey],
    left: Mapping[str, AccessKey],
    unconfirmed: Iterable[PendingReissue],
    at: Timestamp,
) -> list[RevokedKey]:
    """Return the secrets that this change revokes, all those of pending reissues included."""
    gone = known.keys() - left.keys()
    names = {known[one].id: known[one].name for one in gone}
    revoked = {one: RevokedKey(known[one].name, one, at) for one in gone}
    for reissue in unconfirmed:
        if reissue.key_id in names:
            for one in {reissue.sha256, reissue.new} - left.keys():
                revoked[one] = RevokedKey(names[reissue.key_id], one, at)
    return list(revoked.values())


def _read_renewals(renewals: RenewalFile[PendingReissue]) -> tuple[PendingReissue, ...]:
    """Return the pending reissues; none if the file is damaged: then no old secret is valid."""
    try:
        return renewals.read()
    except ConfigError:
        return ()


def _index_by_digest(keys: Iterable[AccessKey | None]) -> dict[str, AccessKey]:
    return {key.secret.sha256: key for key in keys if key}


def _add_file_line(problem: ConfigProblem, entry: YamlListItem) -> ConfigProblem:
    """Return a problem of an entry with its line in the file."""
    line = problem.line + entry.line - 1 if problem.line else entry.line
    return dataclasses.replace(problem, line=line)


def _prepare_reissue(
    key: AccessKey, after: AccessKey, undelivered: PendingReissue | None
) -> tuple[AccessKey, PendingReissue]:
    """Return the reissued key, and the note that keeps the last delivered secret valid."""
    if undelivered and after.before:
        # An undelivered secret needs no grace period, but the previous one does.
        after = structs.replace(after, before=undelivered.secret)
    good: AccessKey | PendingReissue = undelivered or key
    pending = PendingReissue(
        key.id, after.secret.sha256, good.secret, good.before, good.before_until
    )
    return after, pending


def _replace_entry(
    path: str, parts: YamlList, number: int, pair: tuple[AccessKey, AccessKey]
) -> YamlList:
    entry = parts.entries[number]
    text = YamlEditor(path, entry.value)
    _write(text, *pair)
    return parts.with_item(number, entry.with_value(text.content))


def _edit_entries(
    path: str,
    now: _Content,
    key_ids: Iterable[str],
    revise: Callable[[AccessKey], AccessKey | None],
) -> tuple[YamlList, list[AccessKey | None], list[_Pair]]:
    """Revise keys, or remove them; returns the list, its keys, and what each was and is."""
    parts, keys, pairs = now.parts, list(now.keys), list[_Pair]()
    gone = set()
    for key_id in dict.fromkeys(key_ids):
        number, before = _find(now.keys, key_id)
        after = revise(before)
        pairs.append((before, after))
        if after:
            parts = _replace_entry(path, parts, number, (before, after))
            keys[number] = after
        else:
            gone.add(number)
    parts = parts.without_items(gone, _LIST) if gone else parts
    return parts, [key for number, key in enumerate(keys) if number not in gone], pairs


def _append_entries(
    path: str, parts: YamlList, keys: list[AccessKey | None], added: Iterable[AccessKey]
) -> tuple[YamlList, list[AccessKey | None]]:
    """Return the list with further keys; ``Conflict`` if a name is taken."""
    every = list(keys)
    for key in added:
        _check_free(every, key)
        text = YamlEditor(path, "")
        _write(text, None, key)
        parts = parts.with_appended(text.content.splitlines(), _LIST)
        every.append(key)
    return parts, every


def _find(keys: Sequence[AccessKey | None], key_id: str) -> tuple[int, AccessKey]:
    for number, key in enumerate(keys):
        if key and key.id == key_id:
            return number, key
    raise NotFound(f'There is no access key with the id "{key_id[:40]}"')


def _check_free(others: Iterable[AccessKey | None], key: AccessKey) -> None:
    for other in others:
        if other and casefold_name(other.name) == casefold_name(key.name):
            raise Conflict(f'There is an access key "{other.name}" already')


def _write(text: YamlEditor, before: AccessKey | None, after: AccessKey) -> None:
    """Write the fields that differ; ``before`` is ``None`` for a new key."""
    old, new = _to_plain(before) if before else {}, _to_plain(after)
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) == new.get(name):
            continue
        if name not in new:
            text.delete((name,))
        elif name == "limits" and name in old:
            _write_limits(text, old[name], new[name])
        else:
            text.set((name,), new[name])


def _write_limits(text: YamlEditor, old: Mapping[str, object], new: Mapping[str, object]) -> None:
    for name in dict.fromkeys([*new, *old]):  # what is new first: the map is never empty
        if name not in new:
            text.delete(("limits", name))
        elif old.get(name) != new[name]:
            text.set(("limits", name), new[name])


def _to_plain(value: Struct) -> dict[str, Any]:
    """Return a struct's fields as they are written: without those at their default."""
    fields: dict[str, Any] = {}
    for field in structs.fields(value):
        one = getattr(value, field.name)
        if not field.required and one == _get_default(field):
            continue
        fields[field.name] = _to_plain_value(one)
    return fields


def _to_plain_value(value: object) -> object:
    match value:
        case Struct():
            return _to_plain(value)
        case dict():
            return {name: _to_plain_value(one) for name, one in value.items()}
        case Decimal():
            return Decimal(f"{value:f}")
    return value


def _get_default(field: structs.FieldInfo) -> object:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()
