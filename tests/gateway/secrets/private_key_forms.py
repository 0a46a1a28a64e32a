"""Private keys of every kind, made anew in each run, and how they stand in texts."""

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote, quote_plus

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x25519

from tests.gateway.secrets.samples import make_letters

TRADITIONAL = serialization.PrivateFormat.TraditionalOpenSSL
PKCS8 = serialization.PrivateFormat.PKCS8
OPENSSH = serialization.PrivateFormat.OpenSSH


def _make_rsa_key(size: int) -> Any:
    return rsa.generate_private_key(65537, size)


_MADE: dict[str, tuple[Callable[[], Any], Any]] = {
    "RSA-1024": (lambda: _make_rsa_key(1024), TRADITIONAL),
    "RSA-2048": (lambda: _make_rsa_key(2048), TRADITIONAL),
    "RSA-2048 in PKCS8": (lambda: _make_rsa_key(2048), PKCS8),
    "RSA-4096": (lambda: _make_rsa_key(4096), PKCS8),
    "RSA-3072 of OpenSSH": (lambda: _make_rsa_key(3072), OPENSSH),
    "DSA-2048": (lambda: dsa.generate_private_key(2048), PKCS8),
    "P-256": (lambda: ec.generate_private_key(ec.SECP256R1()), TRADITIONAL),
    "P-256 in PKCS8": (lambda: ec.generate_private_key(ec.SECP256R1()), PKCS8),
    "P-521 of OpenSSH": (lambda: ec.generate_private_key(ec.SECP521R1()), OPENSSH),
    "secp256k1": (lambda: ec.generate_private_key(ec.SECP256K1()), TRADITIONAL),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate, PKCS8),
    "Ed25519 of OpenSSH": (ed25519.Ed25519PrivateKey.generate, OPENSSH),
    "Ed448": (ed448.Ed448PrivateKey.generate, PKCS8),
    "X25519": (x25519.X25519PrivateKey.generate, PKCS8),
}


def _make_pgp_key() -> str:
    rows = [make_letters(64) for _ in range(40)]
    head = "Version: GnuPG v2\nComment: https://keys.example -- mine\n\n"
    checked = f"{make_letters(30)}==\n={make_letters(4)}"
    return _format_block("PGP PRIVATE KEY BLOCK", head + "\n".join([*rows, checked]))


def _make_putty_key() -> str:
    public, private = ("\n".join(make_letters(64) for _ in range(count)) for count in (6, 14))
    return (
        "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nComment: me\nPublic-Lines: 6\n"
        f"{public}\nPrivate-Lines: 14\n{private}\nPrivate-MAC: {Random(3).randbytes(32).hex()}"  # noqa: S311
    )


def _make_openvpn_key() -> str:
    rows = [Random(row).randbytes(16).hex() for row in range(16)]  # noqa: S311
    return _format_block("OpenVPN Static key V1", "\n".join(rows))


def _format_block(what: str, content: str) -> str:
    return f"-----BEGIN {what}-----\n{content}\n-----END {what}-----"


_WRITTEN = {"PGP": _make_pgp_key, "PuTTY": _make_putty_key, "OpenVPN": _make_openvpn_key}

KINDS = (*_MADE, *(f"{kind}, encrypted" for kind in ("RSA-2048", "P-256 in PKCS8")), *_WRITTEN)


@cache
def make_private_key(kind: str) -> str:
    """Make a key of this kind as its file has it, without the last line end."""
    if kind in _WRITTEN:
        return _WRITTEN[kind]()
    make, form = _MADE[kind.removesuffix(", encrypted")]
    closed: Any = serialization.NoEncryption()
    if kind.endswith("encrypted"):
        closed = serialization.BestAvailableEncryption(b"hunter22")
    made = make().private_bytes(serialization.Encoding.PEM, form, closed)
    return str(made.decode().strip())


def list_secret_lines(key: str) -> list[str]:
    """List the lines that nobody may see."""
    if "Private-Lines" in key:
        key = key[key.index("Private-Lines") :]
    return [row for row in key.split("\n") if "-----" not in row and ": " not in row and row]


def _wrap_each_line(before: str, after: str = "") -> Callable[[str], str]:
    return lambda key: "\n".join(f"{before}{row}{after}" for row in key.split("\n"))


def _number_lines(form: str) -> Callable[[str], str]:
    return lambda key: "\n".join(
        form.format(number, row) for number, row in enumerate(key.split("\n"), 1)
    )


WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "with carriage returns": lambda key: key.replace("\n", "\r\n"),
    "indented": _wrap_each_line("    "),
    "in a list of YAML": lambda key: (
        "keys:\n  - key: |\n" + _wrap_each_line("      ")(key) + "\nb: 1"
    ),
    "as a comment": _wrap_each_line("# "),
    "quoted in a mail": _wrap_each_line("> "),
    "in a diff": _wrap_each_line("+"),
    "taken out by a diff": _wrap_each_line("-"),
    "numbered by cat": _number_lines("{:6}\t{}"),
    "numbered with an arrow": _number_lines("{:6}\u2192{}"),
    "found by grep": _number_lines("deploy/keys/id_of_the_server.pem:{}:{}"),
    "added up in source": _wrap_each_line('    "', '\\n" +'),
    "a list of lines": lambda key: json.dumps(key.split("\n"), indent=2),
    "on one line with escapes": lambda key: f'KEY="{key}"'.replace("\n", "\\n"),
    "on one line with blanks": lambda key: f"KEY={key}".replace("\n", " "),
    "in .env over many lines": lambda key: f'PRIVATE_KEY="{key}"\nDEBUG=1',
    "in .env with single quotes": lambda key: f"export PRIVATE_KEY='{key}'",
    "in JSON": lambda key: json.dumps({"private_key": key, "type": "service_account"}),
    "in JSON in JSON": lambda key: json.dumps({"a": json.dumps({"key": key})}),
    "in JSON in JSON in JSON": lambda key: json.dumps([json.dumps([json.dumps([key])])]),
    "in HTML": lambda key: key.replace("\n", "<br>\n"),
    "in an address": quote,
    "in a form": quote_plus,
}
"""The ways in which files, tools and programs write a key."""
