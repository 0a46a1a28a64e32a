"""``management-keys.yml`` of the state folder: the management keys, edited by hand too.

It holds SHA-256 hashes only. Deleting or disabling an entry takes its key away at once.
``management-keys.revoked.json`` beside it remembers the keys that agentd removed: an older file
that comes back with a backup does not bring them back, until ``agentd proxy management-key
reinstate``.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from agentd.auth.revoked_keys import RevokedKey, RevokedKeys
from agentd.core.clock import Timestamp
from agentd.core.errors import ConfigProblem, NotFound, iter_repeated, suggest_name
from agentd.gateway.management_keys.model import ManagementKey
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.lock import hold_lock
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.entries import NamedEntries
from agentd.storage.yaml.schema import ValuePath

_WHAT = "management key"


class ManagementKeysYml(Struct, frozen=True):
    """The content of ``management-keys.yml``."""

    format: Literal[1] = 1
    keys: tuple[ManagementKey, ...] | None = None


class ManagementKeyContents(NamedTuple):
    """The contents of the file."""

    keys: tuple[ManagementKey, ...] = ()
    """The keys that are not revoked, in the file's order."""
    problems: tuple[ConfigProblem, ...] = ()
    """Revoked keys that came back."""
    is_blank: bool = True
    """True if the file is missing or empty."""


class ManagementKeyFile:
    """Reads and edits the file. All methods but ``get_stamp`` block.

    Each change holds the lock, and raises as ``NamedEntries`` does.
    """

    def __init__(self, layout: Layout) -> None:
        self.path = layout.management_keys
        self._lock = layout.management_keys_lock
        self._revoked = RevokedKeys(layout.management_keys_revoked)
        self.revoked_path = layout.management_keys_revoked
        """The file of removed keys."""
        self._entries = NamedEntries[ManagementKey](
            self.path, ManagementKeysYml, "keys", _validate, _WHAT, private=True
        )

    def get_stamp(self) -> object:
        """Return a value that differs after every edit."""
        return document.get_stamp(self.path), document.get_stamp(self.revoked_path)

    def load(self) -> ManagementKeyContents:
        """Read the keys. Raises ``ConfigError`` with every problem, and ``Unavailable``."""
        revoked = self._revoked.read_digests()
        found = document.read_document(self.path, yaml_reader.MAX_FILE_SIZE, own=True)
        if found is None or not found.data.strip():
            return ManagementKeyContents()
        keys = self._parse(found.data)
        back = [
            ConfigProblem(
                self.path,
                0,
                f"the management key {key.name} was removed, and is not accepted; delete its"
                f" entry, or: agentd proxy management-key reinstate {key.name}",
            )
            for key in keys
            if key.sha256 in revoked
        ]
        valid = tuple(key for key in keys if key.sha256 not in revoked)
        return ManagementKeyContents(valid, tuple(back), is_blank=False)

    def add(self, key: ManagementKey, *, dry_run: bool = False) -> ManagementKey:
        """Add a key. ``Conflict`` if its name is taken."""
        with hold_lock(self._lock, "the management keys"):
            added = self._entries.add(key, dry_run=dry_run)
            if not dry_run:  # an undo brings a removed key back
                self._revoked.update(remove=(key.sha256,))
            return added

    def change(
        self,
        name: str,
        revise: Callable[[ManagementKey], ManagementKey],
        *,
        dry_run: bool = False,
    ) -> ManagementKey:
        """Replace a key; its hash stays. ``NotFound``."""

        def revise_key(old: ManagementKey) -> ManagementKey:
            return structs.replace(revise(old), sha256=old.sha256, salt=old.salt)

        with hold_lock(self._lock, "the management keys"):
            return self._entries.change(name, revise_key, dry_run=dry_run)

    def remove(
        self,
        name: str,
        check: Callable[[ManagementKey], object] = bool,
        *,
        at: Timestamp,
        dry_run: bool = False,
    ) -> ManagementKey:
        """Remove and return a key, unless ``check`` raises. ``NotFound``."""
        with hold_lock(self._lock, "the management keys"):
            gone = self._entries.remove(name, check, dry_run=dry_run)
            if not dry_run:  # only now: a removal that is refused must change nothing
                self._revoked.update(add=[RevokedKey(gone.name, gone.sha256, at)])
            return gone

    def reinstate(self, name: str) -> None:
        """Accept a removed key again whose entry came back. ``NotFound``."""
        with hold_lock(self._lock, "the management keys"):
            found = document.read_document(self.path, yaml_reader.MAX_FILE_SIZE, own=True)
            keys = {key.name: key for key in self._parse(found.data if found else b"")}
            if name not in keys:
                hint = suggest_name(name, list(keys)) if keys else ""
                raise NotFound(f'There is no management key "{name[:100]}"{hint}')
            if not self._revoked.update(remove=(keys[name].sha256,)):
                raise NotFound(f"The management key {name} is not revoked")

    def _parse(self, data: bytes) -> tuple[ManagementKey, ...]:
        return yaml_reader.load_yaml(self.path, data, ManagementKeysYml, _validate).keys or ()


def _validate(content: ManagementKeysYml) -> Iterator[tuple[ValuePath, str]]:
    for what in ("name", "sha256"):
        for index, value in iter_repeated(getattr(key, what) for key in content.keys or ()):
            place = ("keys", index, what)
            yield place, f"two keys have the {what} {value}; delete one of them"
