"""Keys that were made anew, until somebody is known to have the new ones.

A renewal takes the old key away, and gives the new one in an answer that may never arrive: when
the disk fails on the way, or the daemon dies before it has answered, nobody has the new key. So
``renewals.json`` first notes the old key beside the digest of the new one; then the file of the
keys is replaced; and only when the answer is out, the old key is buried. An old key noted here is
good as long as the file of the keys holds the new one, and neither was that one used nor was it
told to anybody: the process that gives the answer refuses the old key from before the answer on.
The named keys and the access keys of the model gateway have such a file each.
"""

from collections.abc import Collection
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from agentd.disk.graves import read_json, write_json

_LIMIT = 16 * 1024 * 1024


class Superseded(Protocol):
    """An old key, and the digest of the new one."""

    @property
    def name(self) -> str:
        """What stays the same when a key is made anew."""
        ...

    @property
    def new(self) -> str:
        """The digest of the new key."""
        ...

    @property
    def sha256(self) -> str:
        """The digest of the old key."""
        ...


R = TypeVar("R", bound=Superseded)


class RenewalsJson(Struct, Generic[R], frozen=True):
    """The content of ``renewals.json``, and of ``proxy/renewals.json``."""

    format: Literal[1] = 1
    renewals: tuple[R, ...] = ()


class Renewals(Generic[R]):
    """One such file. Everything blocks; whoever changes it holds the lock of its keys' file."""

    def __init__(self, path: str, kind: type[R]) -> None:
        self.path = path
        self._shape: Any = RenewalsJson[kind]  # type: ignore[valid-type]
        self._answered: frozenset[str] = frozenset()
        """Digests of new keys that this process has told, or is about to."""

    def read(self) -> tuple[R, ...]:
        """Return all that are noted. ``Misconfigured`` when the file is damaged or unsafe."""
        content: RenewalsJson[R] = read_json(self.path, self._shape, _LIMIT)
        return content.renewals

    def open(self, current: Collection[str]) -> tuple[R, ...]:
        """Return those whose old key is good, where these digests stand in the keys' file."""
        return tuple(
            one for one in self.read() if one.new in current and one.new not in self._answered
        )

    def up_to(self, name: str, new: str) -> tuple[R, ...]:
        """Return those of a name up to the one that made this key; none when it is not noted.

        What was made after it is not told yet, and stays.
        """
        known = [one for one in self.read() if one.name == name]
        last = max((at for at, one in enumerate(known, 1) if one.new == new), default=0)
        return tuple(known[:last])

    def begin(self, renewal: R, current: Collection[str]) -> None:
        """Note one more, and forget those whose new key is not in the keys' file."""
        kept = (one for one in self.read() if one.new in current)
        self._write((*kept, renewal))

    def answer(self, new: str) -> None:
        """Refuse the old key from now on: the new one is about to be told."""
        self._answered |= {new}

    def take_back(self, new: str) -> None:
        """Let the old key be good again: the answer with the new one did not get out."""
        self._answered -= {new}

    def end(self, ended: Collection[R]) -> None:
        """Forget these."""
        known = self.read()
        kept = tuple(one for one in known if one not in ended)
        if kept != known:
            self._write(kept)

    def _write(self, renewals: tuple[R, ...]) -> None:
        write_json(self.path, RenewalsJson(renewals=renewals))
