"""The licence: a signed word of an issuer that model requests may be carried here.

A token is ``agentd-licence.v1.``, what it says and the issuer's Ed25519 signature over all before
it, each in base64url without padding. Management works without one.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from agentd.core import ids
from agentd.core.clock import Timestamp, format_iso, parse_iso, require_timestamps
from agentd.core.errors import BadRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PREFIX = "agentd-licence.v1"
ISSUER = "agentd-issuer.v1"
ISSUER_KEY = "agentd-issuer-key.v1"
"""The prefix of a token, an issuer's public and its private key; a dot follows."""

MAX_CHARS = 4096
"""The longest token."""

_SIZE = 32
"""Bytes of an Ed25519 key, private or public."""

State: TypeAlias = Literal["valid", "expired", "missing", "invalid"]
Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Licence(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a token. Raises ``ValueError`` for an invalid time or name."""

    holder: Line
    """The holder of the licence."""
    edition: Line
    """The edition of the licence."""
    issued: Timestamp
    """The time of issue."""
    expires: Timestamp
    """When it expires."""

    def __post_init__(self) -> None:
        require_timestamps(self.issued, self.expires)
        if not (self.holder.isprintable() and self.edition.isprintable()):
            raise ValueError("holder and edition are visible characters")


class LicenceStatus(Struct, frozen=True):
    """The permission for model requests; if denied, the reason and the remedy."""

    state: State
    """The state of the licence; model requests need a valid one."""
    reason: str = ""
    """Empty when it is valid."""
    licence: Licence | None = None
    """The content of the token, if its signature is valid."""


def generate_issuer() -> tuple[str, str]:
    """Make an issuer: its private key, to be kept secret, and its public one."""
    seed = ids.generate_signing_seed()
    return f"{ISSUER_KEY}.{_encode(seed)}", _derive_public_key(seed)


def derive_issuer(private: str) -> str:
    """Return the public key of a private one. Raises ``BadRequest``, without quoting it."""
    return _derive_public_key(_decode_key(private, ISSUER_KEY))


def create_licence(holder: str, edition: str, now: Timestamp, days: int) -> Licence:
    """Return a licence from now on for so many days. Raises ``BadRequest``."""
    try:
        expires = format_iso(parse_iso(now) + timedelta(days=days))
        return msgspec.convert(
            {"holder": holder, "edition": edition, "issued": now, "expires": expires}, Licence
        )
    except (OverflowError, ValueError) as error:
        raise BadRequest(f"There can be no such licence: {error}") from error


def sign(licence: Licence, private: str) -> str:
    """Return the token of a licence, signed by an issuer's private key. Raises ``BadRequest``."""
    key = _load_private_key(_decode_key(private, ISSUER_KEY))
    signed = f"{PREFIX}.{_encode(msgspec.json.encode(licence))}"
    return f"{signed}.{_encode(key.sign(signed.encode()))}"


def verify(token: str, issuers: Iterable[str]) -> Licence:
    """Return the licence in a token of one of the issuers; it may have expired.

    Raises ``BadRequest`` with the reason. ``issuers`` are valid public keys.
    """
    signed, dot, signature = token.rpartition(".")
    prefix, _, content = signed.rpartition(".")
    if len(token) > MAX_CHARS or not dot or prefix != PREFIX:
        raise BadRequest(f"This is not a licence: a licence begins with {PREFIX}.")
    proof = _decode(signature)
    if not any(_is_signed_by(issuer, signed.encode(), proof) for issuer in issuers):
        raise BadRequest("The licence is signed by no issuer that is known here, or was changed")
    try:
        return msgspec.json.decode(_decode(content), type=Licence)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The licence says what cannot be understood: {error}") from error


def get_status(licence: Licence, now: Timestamp) -> LicenceStatus:
    """Return the status of a licence whose signature holds."""
    if now < licence.expires:
        return LicenceStatus("valid", licence=licence)
    reason = f"The licence of {licence.holder} expired at {licence.expires}. {WHAT_TO_DO}"
    return LicenceStatus("expired", reason, licence)


WHAT_TO_DO = (
    "Install one: agentd licence install FILE, or for this workstation: agentd licence self"
)


def is_issuer(public: str) -> bool:
    """Return whether this is an issuer's public key."""
    try:
        _decode_key(public, ISSUER)
    except BadRequest:
        return False
    return True


def _is_signed_by(issuer: str, signed: bytes, proof: bytes) -> bool:
    # The library takes seven megabytes of memory, and management needs no licence.
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PublicKey,
    )

    try:
        Ed25519PublicKey.from_public_bytes(_decode_key(issuer, ISSUER)).verify(proof, signed)
    except InvalidSignature:
        return False
    return True


def _derive_public_key(seed: bytes) -> str:
    public = _load_private_key(seed).public_key()
    return f"{ISSUER}.{_encode(public.public_bytes_raw())}"


def _load_private_key(seed: bytes) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - see above
        Ed25519PrivateKey,
    )

    return Ed25519PrivateKey.from_private_bytes(seed)


def _decode_key(text: str, prefix: str) -> bytes:
    kind, _, letters = text.rpartition(".")
    found = _decode(letters) if kind == prefix else b""
    if len(found) != _SIZE:
        raise BadRequest(f"This is not an issuer's key: such a key begins with {prefix}.")
    return found


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Decode base64url; return nothing for any form other than the one that we write."""
    if not re.fullmatch("[A-Za-z0-9_-]*", text):
        return b""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""
    return data if _encode(data) == text else b""
