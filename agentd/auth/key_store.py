"""The files of the API keys: ``keys.yml``, which people may edit, and the files beside it.

``keys.yml`` (format 1) has name, salt, salted SHA-256 and time of each key: nothing from which a
key could be derived, so it is safe to commit. Deleting an entry revokes its key. ``revoked.json``
lists the keys that were revoked through agentd: it overrides an older ``keys.yml`` that comes back
with a ``git checkout`` or a backup, until ``agentd keys reinstate``. ``last_used.json`` is a
cache. ``renewals.json`` keeps the old value of a regenerated key valid until the new one is
delivered (``auth.key_renewals``). Writers of any of them hold ``keys.lock``.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from agentd.auth.gate import INVALID_KEY
from agentd.auth.key import (
    ENVIRONMENT,
    AccessKeyRef,
    NamedKey,
    Renewal,
    find_descendants,
    find_gateway_keys,
)
from agentd.auth.key_renewals import RenewalFile
from agentd.auth.key_service import KeyFileContents, RevocationResult
from agentd.auth.revoked_keys import RevokedKey, RevokedKeys
from agentd.core.clock import Timestamp
from agentd.core.errors import (
    AgentdError,
    ConfigError,
    Conflict,
    NotFound,
    Unauthorized,
    Unavailable,
    iter_repeated,
    suggest_name,
)
from agentd.http.access import Caller, require_answers
from agentd.storage import document
from agentd.storage.json_document import read_json, write_json
from agentd.storage.layout import Layout
from agentd.storage.lock import hold_lock
from agentd.storage.yaml import editor as yaml_editor
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.editor import YamlEditor
from agentd.storage.yaml.schema import ValuePath

T = TypeVar("T")

MTIME_SETTLE_SECONDS = 0.02
"""Seconds after which the modification time of a truncated file is up to date."""

_HEADER = b"""\
# Named API keys of agentd: salted hashes only, safe to commit. Deleting an entry revokes its key
# at once. `agentd keys` edits this file too, and keeps your comments.
format: 1
keys: []
"""

_log = logging.getLogger("agentd.access")


class KeysYml(Struct, frozen=True):
    """The content of ``keys.yml``."""

    format: Literal[1] = 1
    keys: tuple[NamedKey, ...] | None = None


class LastUsedJson(Struct, frozen=True, rename="camel"):
    """The content of ``last_used.json``."""

    format: Literal[1] = 1
    last_used: dict[str, Timestamp] = {}


class _Identified(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...


class AccessKeySource(Protocol):
    """The access keys of the model gateway (``gateway.keys.file.AccessKeyFile``)."""

    def find_by_maker(self) -> Mapping[str, Sequence[_Identified]]:
        """Return all keys by creator. ``ConfigError`` when the file cannot be read at all."""
        ...

    def remove_made_by(self, makers: Set[str]) -> Sequence[_Identified]:
        """Remove all keys of these creators in one change of the file, and return them."""
        ...


class _NoAccessKeys:
    """An empty source, for a daemon without the model gateway."""

    def find_by_maker(self) -> Mapping[str, Sequence[_Identified]]:
        return {}

    def remove_made_by(self, makers: Set[str]) -> Sequence[_Identified]:
        return ()


class KeyFile:
    """The ``KeyStore`` of a state folder. All methods but ``get_stamp`` block.

    ``gateway_keys`` are revoked with the API key that made them.
    """

    def __init__(self, layout: Layout, gateway_keys: AccessKeySource | None = None) -> None:
        self._layout = layout
        self._path = layout.keys  # joined once: it is looked at for every request
        self._revoked = RevokedKeys(layout.revoked)
        self._renewals = RenewalFile(layout.renewals, Renewal)
        self._renewing = False
        self._access_keys = gateway_keys or _NoAccessKeys()

    def get_stamp(self) -> object:
        """Return the stamp of ``keys.yml``; during a renewal also that of ``renewals.json``."""
        stamp = document.get_stamp(self._path)
        return (stamp, document.get_stamp(self._layout.renewals)) if self._renewing else stamp

    def read(self) -> KeyFileContents:
        """Return the contents of the files; errors are in its ``problem``."""
        try:
            revoked = self._revoked.read_digests()
            found = document.read_document(self._path, yaml_reader.MAX_FILE_SIZE, own=True)
        except AgentdError as error:
            return KeyFileContents(problem=error.message)
        if found is None:
            return KeyFileContents(revoked=revoked)
        if not found.data.strip():
            return KeyFileContents(revoked=revoked, is_torn=True, modified_at=self._read_mtime())
        try:
            named = self._parse(found.data)
            renewals = self._find_active_renewals(named, revoked)
            return KeyFileContents(named, revoked, renewals=renewals)
        except ConfigError as error:
            return KeyFileContents(
                revoked=revoked, problem=error.message, is_torn=True, modified_at=self._read_mtime()
            )

    def _read_mtime(self) -> float:
        """Return the modification time of a torn file.

        It waits a moment first: a file is truncated a little before its time is updated.
        """
        time.sleep(MTIME_SETTLE_SECONDS)
        stamp = document.get_stamp(self._path)
        return stamp.mtime_ns / 1e9 if stamp else 0.0

    def check(self) -> None:
        """Raise ``ConfigError`` or ``Unavailable`` if ``keys.yml`` cannot be used."""
        found = document.read_document(self._path, yaml_reader.MAX_FILE_SIZE, own=True)
        if found:
            self._parse(found.data)
        self._renewals.read()

    def add(self, key: NamedKey) -> None:
        """Store one more key. ``Conflict`` when its name is taken.

        ``Unauthorized`` when it is made with a key that was revoked meanwhile, ``Forbidden`` when
        that one may do less by now.
        """
        with self._lock():
            keys, edit = self._open_for_edit()
            self._require_maker(keys, key)
            if any(other.name == key.name for other in keys):
                raise Conflict(
                    f"There is already a key named {key.name};"
                    f" 'agentd keys regenerate {key.name}' replaces it"
                )
            values = {name: one for name, one in msgspec.structs.asdict(key).items() if one}
            if key.answers:  # the default
                del values["answers"]
            else:
                values["answers"] = False
            edit(lambda text: text.append_item(("keys",), values), (*keys, key))

    def renew(self, key: NamedKey) -> None:
        """Replace the key of this name. ``NotFound``, and as ``add``.

        If this raises, nothing has changed. When it returns, the old key is refused by this
        process, and everywhere once ``complete_renewal`` was called; until then another process
        accepts both keys, since it cannot know whether the new one was delivered.
        """
        with self._lock():
            keys, edit = self._open_for_edit()
            index = _find_index(keys, key.name)
            key = msgspec.structs.replace(key, answers=keys[index].answers)
            self._require_maker(keys, key)
            current = {one.sha256 for one in keys}
            revoked = self._revoked.read_digests()
            undelivered = {one.new: one for one in self._renewals.find_active(current, revoked)}
            before = undelivered.get(keys[index].sha256, keys[index])
            renewal = Renewal(key.name, key.sha256, before.salt, before.sha256)
            self._renewals.add(renewal, current)
            if key.created_by in (
                "",
                f"key:{key.name}",
            ):  # a key that renews itself has no new creator
                key = msgspec.structs.replace(key, created_by=keys[index].created_by)
            values = {"salt": key.salt, "sha256": key.sha256, "created": key.created}
            if key.created_by:
                values["created_by"] = key.created_by
            edit(
                lambda text: text.update_item(("keys",), index, values),
                (*keys[:index], key, *keys[index + 1 :]),
            )
            self._renewals.mark_delivered(key.sha256)

    def complete_renewal(self, name: str, new: str, at: Timestamp) -> None:
        """Revoke the keys before the one with this digest, which was delivered."""
        with self._lock():
            if renewals := self._renewals.find_up_to(name, new):
                before = {one.sha256 for one in renewals} | {one.new for one in renewals}
                self._revoked.update(add=[RevokedKey(name, one, at) for one in before - {new}])
                self._renewals.remove(renewals)

    def undo_renewal(self, new: str) -> None:
        """Make the old key valid again, because the new one was not delivered."""
        self._renewals.mark_undelivered(new)

    def revoke(self, name: str, at: Timestamp, *, with_children: bool = False) -> RevocationResult:
        """Record that the key is revoked, then remove it. ``NotFound``.

        ``with_children`` also revokes all keys that it made, directly or through others, and the
        gateway's access keys that any of these made. First the API keys are revoked, so that they
        cannot make more; then the access keys are removed; last the API keys are removed from
        their file, which says until then who made what: after an interruption the same call
        finishes the work.
        """
        with self._lock():
            keys, edit = self._open_for_edit()
            _find_index(keys, name)
            children = find_descendants(keys, name)
            gone = {name, *(children if with_children else ())}
            digests = [(key.name, key.sha256) for key in keys if key.name in gone]
            for one in self._renewals.read():
                if one.name in gone:  # also a new key that was never known to be delivered
                    digests += [(one.name, one.sha256), (one.name, one.new)]
            self._revoked.update(add=[RevokedKey(whose, one, at) for whose, one in digests])
            revoked = tuple(key.name for key in keys if key.name in gone)
            try:
                made = self._find_access_keys((name, *children), remove=with_children)
            except AgentdError as error:
                raise _make_partial_revocation_error(revoked, error) from error
            numbers = [number for number, key in enumerate(keys) if key.name in gone]

            def remove(text: YamlEditor) -> None:
                for number in reversed(numbers):
                    text.remove_item(("keys",), number)

            edit(remove, tuple(key for key in keys if key.name not in gone))
        left = tuple(one for one in children if one not in gone)
        taken = made if with_children else ()
        return RevocationResult(revoked, left, taken, () if with_children else made)

    def load_access_keys(self) -> dict[str, tuple[AccessKeyRef, ...]]:
        """Return the gateway's access keys by creator; none if their file is damaged."""
        try:
            found = self._access_keys.find_by_maker()
        except AgentdError:
            return {}
        return {maker: _describe(made) for maker, made in found.items()}

    def reinstate(self, name: str) -> None:
        """Make a revoked key that is in ``keys.yml`` again valid again. ``NotFound``."""
        with self._lock():
            keys, _ = self._open_for_edit()
            digest = keys[_find_index(keys, name)].sha256
            if not self._revoked.update(remove=(digest,)):
                raise NotFound(f"The key {name} is not revoked")

    def load_last_used(self) -> dict[str, Timestamp]:
        """Return when each key was last used, by digest; empty if the file is damaged."""
        path = self._layout.last_used
        try:
            return read_json(path, LastUsedJson, yaml_reader.MAX_FILE_SIZE).last_used
        except AgentdError as error:
            _log.warning("the last uses of API keys are not known: %s", error.message)
            return {}

    def save_last_used(self, uses: dict[str, Timestamp]) -> None:
        """Store when each key was last used."""
        write_json(self._layout.last_used, LastUsedJson(last_used=uses))

    def list_revoked(self) -> tuple[RevokedKey, ...]:
        """Return the revoked keys. ``ConfigError`` when the file is damaged or unsafe."""
        return self._revoked.read()

    def _require_maker(self, keys: Iterable[NamedKey], made: NamedKey) -> None:
        """Raise ``Unauthorized`` or ``Forbidden`` unless the API key that makes another one may.

        Its request was admitted before, and may have waited for the lock while the key was revoked
        with all that it had made by then.
        """
        kind, _, name = made.created_by.partition(":")
        if kind != "key" or name == ENVIRONMENT:
            return
        revoked = self._revoked.read_digests()
        maker = next((one for one in keys if one.name == name), None)
        if maker is None or maker.sha256 in revoked:
            raise Unauthorized(INVALID_KEY)
        if made.answers:
            require_answers(Caller("key", name, "manager", may_answer=maker.answers))

    def _find_access_keys(
        self, names: tuple[str, ...], *, remove: bool
    ) -> tuple[AccessKeyRef, ...]:
        """Return the access keys that these API keys made; ``remove`` removes them."""
        if remove:
            return _describe(self._access_keys.remove_made_by({f"key:{one}" for one in names}))
        found = self._access_keys.find_by_maker()
        made = {maker: _describe(found[maker]) for maker in found}
        return find_gateway_keys(made, names)

    def _find_active_renewals(
        self, named: tuple[NamedKey, ...], revoked: frozenset[str]
    ) -> tuple[Renewal, ...]:
        """Return the renewals in effect; none if their file is damaged, which ``check`` reports."""
        try:
            renewals = self._renewals.find_active({key.sha256 for key in named}, revoked)
        except AgentdError:
            renewals = ()
        self._renewing = bool(renewals)
        return renewals

    def _parse(self, data: bytes) -> tuple[NamedKey, ...]:
        return yaml_reader.load_yaml(self._path, data, KeysYml, _validate).keys or ()

    def _open_for_edit(self) -> tuple[tuple[NamedKey, ...], Callable[..., None]]:
        """Return the current keys, and a function ``edit(change, expected keys after it)``.

        Raises ``ConfigError`` when the file is invalid; the edit raises ``Conflict`` when the
        file was changed by somebody else meanwhile.
        """
        path = self._path
        found = document.read_document(path, yaml_reader.MAX_FILE_SIZE, own=True)
        data = found.data if found and found.data.strip() else _HEADER

        def edit(change: Callable[[YamlEditor], object], expected: tuple[NamedKey, ...]) -> None:
            edited = yaml_editor.edit_content(path, data, change)
            if self._parse(edited) != expected:
                raise Conflict(yaml_reader.explain_not_editable(path))
            document.replace_document(path, edited, expected=found.stamp if found else None)

        return self._parse(data), edit

    def _lock(self) -> AbstractContextManager[None]:
        return hold_lock(self._layout.keys_lock, "the keys")


def _validate(content: KeysYml) -> Iterator[tuple[ValuePath, str]]:
    for what in ("name", "sha256"):
        for index, value in iter_repeated(getattr(key, what) for key in content.keys or ()):
            place = ("keys", index, what)
            yield place, f"two keys have the {what} {value}; delete one of them"


def _describe(keys: Iterable[_Identified]) -> tuple[AccessKeyRef, ...]:
    return tuple(AccessKeyRef(key.id, key.name) for key in keys)


def _make_partial_revocation_error(names: tuple[str, ...], error: AgentdError) -> AgentdError:
    """Return the error for API keys that are revoked while their access keys may not be."""
    kind = Unavailable if isinstance(error, Unavailable) else Conflict
    return kind(
        f"{', '.join(names)}: revoked, but access keys made with them may remain;"
        " fix the following problem, then revoke again",
        error.details or error.message,
    )


def _find_index(keys: tuple[NamedKey, ...], name: str) -> int:
    names = [key.name for key in keys]
    if name not in names:
        raise NotFound(f'There is no key named "{name}"{suggest_name(name, names)}')
    return names.index(name)
