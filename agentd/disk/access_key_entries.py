"""What each entry of ``access-keys.yml`` says: known by its text, from start to start, too.

To parse thousands of them takes seconds, so ``access-keys.known.json`` has what valid ones were
read as, each under the SHA-256 of its text. It is a cache: what is not in it is parsed, and so is
all of it after another version of agentd wrote it, or where anybody else could have.
"""

import logging
from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec import Struct

from agentd import __version__
from agentd.disk import document, handwritten
from agentd.disk.lines import Broken, seal, unseal
from agentd.errors import AgentdError, Misconfigured, Mistake
from agentd.proxy.access_key import AccessKey

log = logging.getLogger(__name__)

MANY = 100
"""Valid entries that were parsed anew, and are then remembered."""
_LIMIT = 64 * 1024 * 1024


class Remembered(Struct, frozen=True):
    """What ``access-keys.known.json`` holds."""

    version: str
    """Of the agentd that read them."""
    keys: dict[str, AccessKey]
    """By the SHA-256 of their texts."""


_remembered = msgspec.json.Decoder(Remembered)


class Entries:
    """Reads entries of the file ``where``; ``memory`` is the cache. Every method blocks."""

    def __init__(self, where: str, memory: str) -> None:
        self._where = where
        self._memory = memory
        self._known: dict[str, AccessKey | tuple[Mistake, ...]] | None = None
        """By their texts."""

    def read(self, texts: Iterable[str]) -> list[AccessKey | tuple[Mistake, ...]]:
        """What each is, or why it is none; lines are counted within it."""
        before, stored = self._known or {}, {} if self._known else self._stored()
        known: dict[str, AccessKey | tuple[Mistake, ...]] = {}
        found, parsed = [], 0
        for text in texts:
            one = before.get(text) or stored.get(_digest(text) if stored else "")
            if one is None:
                one = self._parsed(text)
                parsed += isinstance(one, AccessKey)
            known[text] = one
            found.append(one)
        self._known = known
        if parsed >= MANY:
            self._keep(known)
        return found

    def _parsed(self, text: str) -> AccessKey | tuple[Mistake, ...]:
        try:
            return handwritten.load(self._where, text.encode(), AccessKey)
        except Misconfigured as error:
            return tuple(error.mistakes)

    def _stored(self) -> dict[str, AccessKey]:
        try:
            found = document.read(self._memory, _LIMIT, guarded=True, private=True)
            kept = _remembered.decode(unseal(found.data)) if found else None
        except (AgentdError, Broken, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.info("%s is not used, all keys are parsed: %s", self._memory, error)
            return {}
        return kept.keys if kept and kept.version == __version__ else {}

    def _keep(self, known: dict[str, AccessKey | tuple[Mistake, ...]]) -> None:
        keys = {_digest(text): one for text, one in known.items() if isinstance(one, AccessKey)}
        try:
            document.replace(self._memory, seal(Remembered(__version__, keys)))
        except AgentdError as error:
            log.warning("what the access keys say was not kept: %s", error)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
