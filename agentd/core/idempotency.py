"""The key that identifies a repeated request."""

from msgspec import Struct


class IdempotencyKey(Struct, frozen=True):
    """A caller's ``Idempotency-Key``, qualified by the caller, and the digest of the request."""

    key: str
    digest: str
