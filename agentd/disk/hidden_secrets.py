"""The secrets that were hidden for each access key, kept over a restart: ``proxy/hidden.jsonl``.

Such a secret comes back bare, in a conversation of which the beginning is gone, and a supplier that
keeps conversations himself names its placeholder; a daemon that had forgotten it would tell the one
and not put back the other. Values are encrypted under a key that is derived from the seed: who has
that file alone learns nothing.
"""

import hmac
import logging
import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from os.path import dirname
from threading import Lock

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from agentd import ids
from agentd.clock import Clock, Timestamp, parse_iso
from agentd.disk.document import make_folder, read, replace, trouble, write_all
from agentd.disk.layout import Layout
from agentd.proxy.secrets.known import MOST, Secret

LIMIT = 16 * 2**20
"""Bytes of the file above which it is written anew with the latest secrets only."""

DAYS = 90
"""A secret that was hidden first so long ago is forgotten at the next start."""

_READ_LIMIT = 4 * LIMIT
_NONCE = 12
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

log = logging.getLogger(__name__)


class _Line(Struct, frozen=True):
    """One secret as it stands in the file."""

    key: str
    """The access key's id."""
    at: Timestamp
    sealed: str
    """Base64 of a nonce, and of the encrypted ``_Content``."""


class _Content(Struct, frozen=True):
    rule: str
    value: bytes
    """In UTF-8, of which JSON allows half pairs."""


class HiddenSecrets:
    """The file. Blocking."""

    def __init__(self, layout: Layout, seed: bytes, clock: Clock) -> None:
        self._path = layout.hidden_secrets
        self._clock = clock
        self._writing = Lock()
        self._cipher = AESGCM(hmac.digest(seed, b"hidden secrets", "sha256"))

    def load(self) -> list[Secret]:
        """Return all that are kept, the oldest first; lines that tell none are passed over.

        Raises ``Misconfigured`` or ``Unavailable``.
        """
        oldest = parse_iso(self._clock.now()) - timedelta(days=DAYS)
        lines = [line for line in self._lines() if parse_iso(line.at) >= oldest]
        secrets = {(line.key, line.sealed): self._open(line) for line in _latest(lines)}
        unread = sum(secret is None for secret in secrets.values())
        if unread:
            log.warning("%s: %d entries are damaged, or of another seed", self._path, unread)
        return [secret for secret in secrets.values() if secret]

    def keep(self, secrets: Sequence[Secret]) -> None:
        """Append some. Raises ``Misconfigured`` or ``Unavailable``."""
        now = self._clock.now()
        data = b"".join(msgspec.json.encode(self._seal(one, now)) + b"\n" for one in secrets)
        with self._writing:
            if self._append(data) > LIMIT:
                self._compact()

    def _append(self, data: bytes) -> int:
        """Write it behind all else; return the size of the file."""
        try:
            make_folder(dirname(self._path))
            file = os.open(self._path, _APPEND, 0o600)
            try:
                size = os.fstat(file).st_size
                write_all(file, b"\n" + data if size else data)  # the last line may be cut short
            finally:
                os.close(file)
        except OSError as error:
            raise trouble(self._path, "write", error) from error
        return size + len(data)

    def _compact(self) -> None:
        lines = list(_latest(self._lines()))
        data = [msgspec.json.encode(line) + b"\n" for line in lines]
        size = 0
        kept: list[bytes] = []
        for line in reversed(data):
            size += len(line)
            if size > LIMIT // 2:
                break
            kept.append(line)
        replace(self._path, b"".join(reversed(kept)))

    def _lines(self) -> list[_Line]:
        found = read(self._path, _READ_LIMIT, guarded=True, private=True)
        lines: list[_Line] = []
        for line in found.data.splitlines() if found else ():
            try:
                lines.append(msgspec.json.decode(line, type=_Line))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # cut short by a crash
        return lines

    def _seal(self, secret: Secret, now: Timestamp) -> _Line:
        nonce = ids.new_seed()[:_NONCE]
        content = msgspec.msgpack.encode(_Content(secret.rule, _encode(secret.value)))
        sealed = nonce + self._cipher.encrypt(nonce, content, secret.key.encode())
        return _Line(secret.key, now, b64encode(sealed).decode())

    def _open(self, line: _Line) -> Secret | None:
        try:
            sealed = b64decode(line.sealed, validate=True)
            content = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], line.key.encode())
            told = msgspec.msgpack.decode(content, type=_Content)
        except (NotBase64, InvalidTag, ValueError, msgspec.DecodeError):
            return None
        return Secret(line.key, told.rule, told.value.decode("utf-8", "surrogatepass"))


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _latest(lines: Iterable[_Line]) -> list[_Line]:
    """The last ones of each key, as many as are remembered of it."""
    counts: Counter[str] = Counter()
    kept: list[_Line] = []
    for line in reversed(list(lines)):
        counts[line.key] += 1
        if counts[line.key] <= MOST:
            kept.append(line)
    return kept[::-1]
