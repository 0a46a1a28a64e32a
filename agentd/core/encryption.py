"""Encrypts what is kept on disk but must not be read there: AES-GCM with a random nonce.

The library takes seven megabytes of memory. It is loaded when something is first encrypted, since
many a daemon never does that.
"""

from agentd.core import ids

_NONCE = 12
"""Bytes at the beginning of what was encrypted."""


def encrypt(key: bytes, content: bytes, context: bytes) -> bytes:
    """Return the content encrypted; ``decrypt`` must be given the same ``context``. Blocking."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    nonce = ids.generate_signing_seed()[:_NONCE]
    return nonce + AESGCM(key).encrypt(nonce, content, context)


def decrypt(key: bytes, data: bytes, context: bytes) -> bytes:
    """Decrypt data; ``ValueError`` if it was altered or the key is wrong. Blocking."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    try:
        return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], context)
    except InvalidTag as error:
        raise ValueError("it was altered, or encrypted with another key") from error
