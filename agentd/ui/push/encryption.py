"""Encrypts notifications for one browser (RFC 8291) and signs them (VAPID, RFC 8292).

All functions block, and need the extra ``push``; its libraries load at the first use.
"""

from importlib.util import find_spec
from urllib.parse import urlsplit

from agentd.core.errors import BadRequest
from agentd.ui.push.model import decode_base64url, encode_base64url

CONTACT = "mailto:agentd@example.com"
"""Push services want somebody to write to. Nobody's own address is sent to them."""
_TOKEN_SECONDS = 12 * 3600
"""Seconds that a signature is valid for; services refuse more than 24 hours."""


def is_installed() -> bool:
    """Return whether the extra is installed."""
    return bool(find_spec("http_ece") and find_spec("py_vapid"))


def generate_private_key() -> str:
    """Return a new key that signs notifications, base64url."""
    from py_vapid import Vapid02  # noqa: PLC0415 - few need it, and it brings a large library

    made = Vapid02()
    made.generate_keys()
    return encode_base64url(made.private_key.private_numbers().private_value.to_bytes(32))


def derive_public_key(private_key: str) -> str:
    """Return the key that browsers subscribe with: an uncompressed point, base64url."""
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415
    from py_vapid import Vapid02  # noqa: PLC0415

    public = Vapid02.from_raw(private_key.encode()).public_key
    point = public.public_bytes(forms.Encoding.X962, forms.PublicFormat.UncompressedPoint)
    return encode_base64url(point)


def check_point(p256dh: str) -> None:
    """Raise ``BadRequest`` for a public key that is no point of the curve."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode_base64url(p256dh))
    except ValueError as error:
        raise BadRequest("keys.p256dh is no point of the curve P-256") from error


def encrypt_payload(payload: bytes, p256dh: str, auth: str) -> bytes:
    """Return the payload as only this browser can read it (``aes128gcm``, one record)."""
    import http_ece  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    encrypted: bytes = http_ece.encrypt(
        payload,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=decode_base64url(p256dh),
        auth_secret=decode_base64url(auth),
    )
    return encrypted


def sign_request(endpoint: str, private_key: str, now: float) -> str:
    """Return the ``Authorization`` of a request to this address; ``now`` in seconds since 1970."""
    from py_vapid import Vapid02  # noqa: PLC0415

    parts = urlsplit(endpoint)
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(now) + _TOKEN_SECONDS,
        "sub": CONTACT,
    }
    signed: str = Vapid02.from_raw(private_key.encode()).sign(claims)["Authorization"]
    return signed
