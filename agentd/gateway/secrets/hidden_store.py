"""The secrets masked for each access key, stored across restarts in ``proxy/hidden.jsonl``.

Such a secret can come back bare in a conversation whose beginning is gone, and a supplier that
stores conversations itself repeats its placeholder; a daemon that had forgotten it would leak the
one and not restore the other. Values are encrypted under a key derived from the seed: the file
alone reveals nothing.
"""

import hmac
import logging
import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from os.path import dirname
from threading import Lock

import msgspec
from msgspec import Struct

from agentd.core.clock import Clock, Timestamp, parse_iso, require_timestamps
from agentd.core.encryption import decrypt, encrypt
from agentd.gateway.secrets.known_values import MOST, KnownSecret
from agentd.storage.document import (
    explain_os_error,
    make_folder,
    read_document,
    replace_document,
    write_all,
)
from agentd.storage.layout import Layout

LIMIT = 16 * 2**20
"""Size in bytes above which the file is rewritten with the latest secrets only."""

DAYS = 90
"""A secret that was hidden first so long ago is forgotten at the next start."""

_READ_LIMIT = 4 * LIMIT
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


class _Line(Struct, frozen=True):
    """A secret as stored in the file."""

    key: str
    """The access key's id."""
    at: Timestamp
    sealed: str
    """Base64 of a nonce, and of the encrypted ``_Content``."""

    def __post_init__(self) -> None:
        require_timestamps(self.at)


class _Content(Struct, frozen=True):
    rule: str
    value: bytes
    """The value in UTF-8 that may contain lone surrogates, which JSON allows."""


class HiddenSecretStore:
    """The file. Blocking."""

    def __init__(self, layout: Layout, seed: bytes, clock: Clock) -> None:
        self._path = layout.masked_secrets
        self._clock = clock
        self._writing = Lock()
        self._encryption_key = hmac.digest(seed, b"hidden secrets", "sha256")

    def load(self, now: Timestamp) -> list[KnownSecret]:
        """Return the secrets of the last days, the oldest first; unreadable lines are skipped.

        Raises ``ConfigError`` or ``Unavailable``.
        """
        oldest = parse_iso(now) - timedelta(days=DAYS)
        lines, damaged = self._read_lines()
        recent = [line for line in lines if parse_iso(line.at) >= oldest]
        secrets = {(line.key, line.sealed): self._decrypt(line) for line in _select_latest(recent)}
        unread = sum(secret is None for secret in secrets.values())
        if damaged or unread:
            what = "%s: %d lines are damaged, %d of another seed: their secrets are not known"
            log.warning(what, self._path, damaged, unread)
        return [secret for secret in secrets.values() if secret]

    def append(self, secrets: Sequence[KnownSecret]) -> None:
        """Append secrets. Raises ``ConfigError`` or ``Unavailable``."""
        now = self._clock.now()
        data = b"".join(msgspec.json.encode(self._encrypt(one, now)) + b"\n" for one in secrets)
        with self._writing:
            if self._write(data) > LIMIT:
                self._compact()

    def _write(self, data: bytes) -> int:
        """Append the data; return the size of the file."""
        try:
            make_folder(dirname(self._path))
            file = os.open(self._path, _APPEND, 0o600)
            try:
                size = os.fstat(file).st_size
                write_all(file, b"\n" + data if size else data)  # the last line may be cut short
            finally:
                os.close(file)
        except OSError as error:
            raise explain_os_error(self._path, "write", error) from error
        return size + len(data)

    def _compact(self) -> None:
        lines = list(_select_latest(self._read_lines()[0]))
        data = [msgspec.json.encode(line) + b"\n" for line in lines]
        size = 0
        kept: list[bytes] = []
        for line in reversed(data):
            size += len(line)
            if size > LIMIT // 2:
                break
            kept.append(line)
        replace_document(self._path, b"".join(reversed(kept)))

    def _read_lines(self) -> tuple[list[_Line], int]:
        """Return the lines, and the number of damaged ones: a crash may cut one short."""
        found = read_document(self._path, _READ_LIMIT, own=True, private=True)
        lines: list[_Line] = []
        damaged = 0
        for line in filter(None, found.data.splitlines() if found else ()):
            try:
                lines.append(msgspec.json.decode(line, type=_Line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                damaged += 1
        return lines, damaged

    def _encrypt(self, secret: KnownSecret, now: Timestamp) -> _Line:
        content = msgspec.msgpack.encode(_Content(secret.rule, _encode(secret.value)))
        sealed = encrypt(self._encryption_key, content, secret.key.encode())
        return _Line(secret.key, now, b64encode(sealed).decode())

    def _decrypt(self, line: _Line) -> KnownSecret | None:
        try:
            sealed = b64decode(line.sealed, validate=True)
            content = decrypt(self._encryption_key, sealed, line.key.encode())
            decoded = msgspec.msgpack.decode(content, type=_Content)
        except (ValueError, msgspec.DecodeError):
            return None
        return KnownSecret(line.key, decoded.rule, decoded.value.decode("utf-8", "surrogatepass"))


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _select_latest(lines: Iterable[_Line]) -> list[_Line]:
    """Return the last ones of each key, as many as are remembered of it."""
    counts: Counter[str] = Counter()
    kept: list[_Line] = []
    for line in reversed(list(lines)):
        counts[line.key] += 1
        if counts[line.key] <= MOST:
            kept.append(line)
    return kept[::-1]
