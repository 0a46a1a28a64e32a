"""Placeholders, which replace secrets in requests to suppliers.

``SECRET_<kind>_<22 letters>``: letters, digits and ``_`` only, which no quoting alters. Of the
letters 16 are a keyed hash of the secret and the access key, so that the same secret has the same
placeholder in a key's every request and nobody guesses one; 6 are a keyed hash of those, so that
we know our own placeholders again without remembering them. All in all they are 40 at most: some
suppliers take no longer identifier of a tool's call.
"""

import hmac
import re
from base64 import b32encode

_FORM = re.compile(rb"SECRET_[a-z0-9_]{1,40}?_([a-z2-7]{22})")
_OWN, _CHECK = 16, 6
_KIND = 10
LONGEST = len("SECRET__") + _KIND + _OWN + _CHECK


class Placeholders:
    """Creates placeholders. ``seed``: 32 random bytes that only this installation has."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def create(self, value: bytes, kind: str, key_id: str) -> str:
        """Return the placeholder of a secret in requests of this access key."""
        own = self._derive_letters(b"secret", key_id, value)[:_OWN]
        return f"SECRET_{kind.replace('-', '_')[:_KIND]}_{own}{self._check(own, key_id)}"

    def find_in(self, text: bytes, key_id: str) -> list[tuple[int, int]]:
        """Return begin and end of each of this key's own placeholders."""
        return [
            found.span()
            for found in _FORM.finditer(text)
            if hmac.compare_digest(
                found[1][_OWN:], self._check(found[1][:_OWN].decode(), key_id).encode()
            )
        ]

    def digest(self, value: bytes) -> str:
        """Return 16 hexadecimal digits that identify the secret without revealing it."""
        return hmac.digest(self._seed, b"report\0" + value, "sha256").hex()[:16]

    def _check(self, own: str, key_id: str) -> str:
        return self._derive_letters(b"check", key_id, own.encode())[:_CHECK]

    def _derive_letters(self, use: bytes, key_id: str, value: bytes) -> str:
        made = hmac.digest(self._seed, b"\0".join((use, key_id.encode(), value)), "sha256")
        return b32encode(made).decode().lower()
