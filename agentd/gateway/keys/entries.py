"""Parsed entries of ``access-keys.yml``, recognized by their text, also across restarts.

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
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.gateway.keys.model import AccessKey
from agentd.storage import document
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from agentd.storage.yaml import reader as yaml_reader

log = logging.getLogger(__name__)

MIN_PARSED_TO_CACHE = 100
"""Number of newly parsed valid entries above which they are cached."""
_LIMIT = 64 * 1024 * 1024


class ParsedEntries(Struct, frozen=True):
    """The contents of ``access-keys.known.json``."""

    version: str
    """The version of the agentd that read them."""
    keys: dict[str, AccessKey]
    """The keys by the SHA-256 of their texts."""


_remembered = msgspec.json.Decoder(ParsedEntries)


class AccessKeyEntries:
    """Reads entries of the file ``where``; ``memory`` is the cache. Every method blocks."""

    def __init__(self, where: str, memory: str) -> None:
        self._where = where
        self._cache_path = memory
        self._known: dict[str, AccessKey | tuple[ConfigProblem, ...]] | None = None
        """The parsed entries by their texts."""

    def read(self, texts: Iterable[str]) -> list[AccessKey | tuple[ConfigProblem, ...]]:
        """Return each entry, or the reason why it is invalid; lines are counted within it."""
        before, stored = self._known or {}, {} if self._known else self._load_cache()
        known: dict[str, AccessKey | tuple[ConfigProblem, ...]] = {}
        found, parsed = [], 0
        for text in texts:
            one = before.get(text) or stored.get(_digest(text) if stored else "")
            if one is None:
                one = self._parse(text)
                parsed += isinstance(one, AccessKey)
            known[text] = one
            found.append(one)
        self._known = known
        if parsed >= MIN_PARSED_TO_CACHE:
            self._save_cache(known)
        return found

    def _parse(self, text: str) -> AccessKey | tuple[ConfigProblem, ...]:
        try:
            return yaml_reader.load_yaml(self._where, text.encode(), AccessKey)
        except ConfigError as error:
            return tuple(error.problems)

    def _load_cache(self) -> dict[str, AccessKey]:
        try:
            found = document.read_document(self._cache_path, _LIMIT, own=True, private=True)
            kept = _remembered.decode(decode_checksummed(found.data)) if found else None
        except (AgentdError, ChecksumMismatch, msgspec.DecodeError) as error:
            log.info("%s is not used, all keys are parsed: %s", self._cache_path, error)
            return {}
        return kept.keys if kept and kept.version == __version__ else {}

    def _save_cache(self, known: dict[str, AccessKey | tuple[ConfigProblem, ...]]) -> None:
        keys = {_digest(text): one for text, one in known.items() if isinstance(one, AccessKey)}
        try:
            document.replace_document(
                self._cache_path, encode_checksummed(ParsedEntries(__version__, keys))
            )
        except AgentdError as error:
            log.warning("what the access keys say was not kept: %s", error)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
