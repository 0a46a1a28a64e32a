"""The licence: a signed word of an issuer that model requests may be carried here.

A token is ``agentd-licence.v1.``, what it says and the issuer's Ed25519 signature over all before
it, each in base64url without padding. Management works without one.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta, Struct

from agentd import ids
from agentd.clock import Timestamp, iso, parse_iso
from agentd.errors import BadRequest

PREFIX = "agentd-licence.v1"
ISSUER = "agentd-issuer.v1"
ISSUER_KEY = "agentd-issuer-key.v1"
"""How a token, an issuer's public and its private key begin; a dot follows."""

LONGEST = 4096
"""No token is longer."""

_SIZE = 32
"""Bytes of an Ed25519 key, private or public."""

State: TypeAlias = Literal["valid", "expired", "missing", "invalid"]
Line: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Licence(Struct, frozen=True, forbid_unknown_fields=True):
    """What a token says. Raises ``ValueError`` for what is no moment or no visible name."""

    holder: Line
    """Whose it is."""
    edition: Line
    """What kind it is."""
    issued: Timestamp
    """When it was issued."""
    expires: Timestamp
    """Until when it holds."""

    def __post_init__(self) -> None:
        for moment in (self.issued, self.expires):
            if iso(parse_iso(moment)) != moment:
                raise ValueError(f"{moment[:40]!r} is no moment of ours")
        if not (self.holder.isprintable() and self.edition.isprintable()):
            raise ValueError("holder and edition are visible characters")


class LicenceStatus(Struct, frozen=True):
    """Whether model requests are carried, and if not why, with what to do."""

    state: State
    """Whether it holds."""
    reason: str = ""
    """Empty when it is valid."""
    licence: Licence | None = None
    """What the token says, where its signature holds."""


def new_issuer() -> tuple[str, str]:
    """Make an issuer: its private key, to be kept secret, and its public one."""
    seed = ids.new_seed()
    return f"{ISSUER_KEY}.{_text(seed)}", _public(seed)


def issuer_of(private: str) -> str:
    """The public key of a private one. Raises ``BadRequest``, which does not tell it."""
    return _public(_key(private, ISSUER_KEY))


def lasting(holder: str, edition: str, now: Timestamp, days: int) -> Licence:
    """A licence from now on for so many days. Raises ``BadRequest``."""
    try:
        expires = iso(parse_iso(now) + timedelta(days=days))
        return msgspec.convert(
            {"holder": holder, "edition": edition, "issued": now, "expires": expires}, Licence
        )
    except (OverflowError, ValueError) as error:
        raise BadRequest(f"There can be no such licence: {error}") from error


def signed(licence: Licence, private: str) -> str:
    """The token of a licence, signed by an issuer's private key. Raises ``BadRequest``."""
    key = Ed25519PrivateKey.from_private_bytes(_key(private, ISSUER_KEY))
    said = f"{PREFIX}.{_text(msgspec.json.encode(licence))}"
    return f"{said}.{_text(key.sign(said.encode()))}"


def verify(token: str, issuers: Iterable[str]) -> Licence:
    """What the token of one of the issuers says; it may be expired.

    Raises ``BadRequest`` with why it is none. ``issuers`` are public keys, which must be sound.
    """
    said, dot, signature = token.rpartition(".")
    prefix, _, content = said.rpartition(".")
    if len(token) > LONGEST or not dot or prefix != PREFIX:
        raise BadRequest(f"This is no licence: one begins with {PREFIX}.")
    proof = _bytes(signature)
    if not any(_signed_by(issuer, said.encode(), proof) for issuer in issuers):
        raise BadRequest("The licence is signed by no issuer that is known here, or was changed")
    try:
        return msgspec.json.decode(_bytes(content), type=Licence)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The licence says what cannot be understood: {error}") from error


def standing(licence: Licence, now: Timestamp) -> LicenceStatus:
    """The status of a licence whose signature holds."""
    if now < licence.expires:
        return LicenceStatus("valid", licence=licence)
    reason = f"The licence of {licence.holder} expired at {licence.expires}. {WHAT_TO_DO}"
    return LicenceStatus("expired", reason, licence)


WHAT_TO_DO = (
    "Install one: agentd licence install FILE, or for this workstation: agentd licence self"
)


def is_issuer(public: str) -> bool:
    """Whether this is an issuer's public key."""
    try:
        _key(public, ISSUER)
    except BadRequest:
        return False
    return True


def _signed_by(issuer: str, said: bytes, proof: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(_key(issuer, ISSUER)).verify(proof, said)
    except InvalidSignature:
        return False
    return True


def _public(seed: bytes) -> str:
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    return f"{ISSUER}.{_text(public.public_bytes_raw())}"


def _key(text: str, prefix: str) -> bytes:
    kind, _, letters = text.rpartition(".")
    found = _bytes(letters) if kind == prefix else b""
    if len(found) != _SIZE:
        raise BadRequest(f"This is no issuer's key: one begins with {prefix}.")
    return found


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Nothing for what is not base64url in the one way in which we write it."""
    if not re.fullmatch("[A-Za-z0-9_-]*", text):
        return b""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return b""
    return data if _text(data) == text else b""
