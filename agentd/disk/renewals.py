"""Keys that were made anew, until somebody is known to have the new ones.

A renewal takes the old key away, and gives the new one in an answer that may never arrive: when
the disk fails on the way, or the daemon dies before it has answered, nobody has the new key. So
``renewals.json`` first notes the old key beside the digest of the new one; then the file of the
keys is replaced; and only when the answer is out, the old key is buried. An old key noted here is
good as long as the file of the keys holds the new one, and neither was that one used nor was it
told to anybody: the process that gave the answer refuses the old key from before the answer on.
"""

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

from agentd.access.key import Renewal
from agentd.disk.graves import read_json, write_json

_LIMIT = 16 * 1024 * 1024


class RenewalsJson(Struct, frozen=True):
    """The content of ``renewals.json``."""

    format: Literal[1] = 1
    renewals: tuple[Renewal, ...] = ()


class Renewals:
    """The file. Everything blocks; whoever changes it holds the lock of the keys' file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._answered: frozenset[str] = frozenset()
        """Digests of new keys that this process has told, or is about to."""

    def read(self) -> tuple[Renewal, ...]:
        """Return all that are noted. ``Misconfigured`` when the file is damaged or unsafe."""
        return read_json(self._path, RenewalsJson, _LIMIT).renewals

    def open(self, current: Collection[str]) -> tuple[Renewal, ...]:
        """Return those whose old key is good, where these digests stand in the keys' file."""
        return tuple(
            one for one in self.read() if one.new in current and one.new not in self._answered
        )

    def begin(self, renewal: Renewal, current: Collection[str]) -> None:
        """Note one more, and forget those whose new key is not in the keys' file."""
        kept = (one for one in self.read() if one.new in current)
        self._write((*kept, renewal))

    def answer(self, new: str) -> None:
        """Refuse the old key from now on: the new one is about to be told."""
        self._answered |= {new}

    def take_back(self, new: str) -> None:
        """Let the old key be good again: the answer with the new one did not get out."""
        self._answered -= {new}

    def end(self, names: Collection[str]) -> None:
        """Forget all of these names."""
        known = self.read()
        kept = tuple(one for one in known if one.name not in names)
        if kept != known:
            self._write(kept)

    def _write(self, renewals: tuple[Renewal, ...]) -> None:
        write_json(self._path, RenewalsJson(renewals=renewals))
