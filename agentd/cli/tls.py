"""``agentd tls``: a certificate for https in the local network."""

import argparse
import json
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agentd.cli.options import Subcommands, add_json_option, resolve_layout
from agentd.core.errors import BadRequest
from agentd.storage import document

DAYS = 820
"""The days a certificate is valid: Apple's browsers accept no longer ones."""
_MAX_NAMES = 50

EXAMPLES = """\
examples:
  agentd tls                                 for this machine's names and addresses
  agentd tls --name workshop.local --name 192.168.1.20

It writes tls/server.crt, tls/server.key and tls/authority.crt beside agentd.yml. Only the last one
goes to other devices, and it is no secret; the key that signed the certificate is not kept, so
nobody can make another one that your devices would trust.
"""

_TRUST = """\
Add this to {settings}, and restart the daemon:

  host: 0.0.0.0
  hosts: [{hosts}]
  tls: {{certificate: {certificate}, key: {key}}}

Then have each device trust {authority} (once, until {expires}):

  iPhone, iPad  send the file to it (AirDrop, mail), install the profile in Settings > General >
                VPN & Device Management, then switch it on in Settings > General > About >
                Certificate Trust Settings
  Android       Settings > Security > More > Install a certificate > CA certificate
  macOS         open the file with Keychain Access, and set it to Always Trust
  Windows       certutil -user -addstore Root authority.crt
  Linux         sudo cp authority.crt /usr/local/share/ca-certificates/agentd.crt
                sudo update-ca-certificates     (Chromium and Firefox: import it in their settings)
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "tls",
        help="make a certificate for https in the local network",
        description="Make a certificate for this machine, and say how devices come to trust it.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--name", action="append", default=[], help="a further name or address; may be repeated"
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the files; those that are there are replaced."""
    layout = resolve_layout(args)
    names = list(dict.fromkeys([*args.name, *find_own_names()]))[:_MAX_NAMES]
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=DAYS)
    authority, chain, key = make_certificate(names, expires)
    folder = os.path.join(layout.config, "tls")
    document.make_folder(folder)
    paths = {}
    for name, data, mode in (
        ("authority", authority, 0o644),
        ("certificate", chain, 0o644),
        ("key", key, 0o600),
    ):
        paths[name] = os.path.join(folder, _FILES[name])
        document.replace_document(paths[name], data, mode=mode)
    if args.json:
        print(json.dumps({**paths, "names": names, "expires": expires.isoformat()}))
        return 0
    hosts = [name for name in names if name not in _LOOPBACK]
    shown = {
        "settings": layout.settings,
        "hosts": ", ".join(json.dumps(name) for name in hosts),
        "expires": expires.date(),
    }
    print(_TRUST.format(**shown, **paths), end="")
    return 0


_FILES = {"authority": "authority.crt", "certificate": "server.crt", "key": "server.key"}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def find_own_names() -> Iterable[str]:
    """Yield the names and addresses by which this machine is likely to be called."""
    yield from _LOOPBACK
    host = socket.gethostname()
    if _is_usable(host):
        yield host
        if "." not in host:
            yield f"{host}.local"
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))  # sends nothing: it only chooses our address
            yield str(probe.getsockname()[0])


def make_certificate(names: Iterable[str], expires: datetime) -> tuple[bytes, bytes, bytes]:
    """Return an authority, a certificate by it for these names, and its key, all as PEM."""
    alternatives = [_to_general_name(name) for name in names]
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    whose = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"agentd on {_get_host()}"[:64])])
    begins = datetime.now(UTC) - timedelta(hours=1)

    def start(subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(whose)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(expires)
        )

    authority = (
        start(whose, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_make_key_usage(signs=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        start(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agentd")]), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(_make_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    above = authority.public_bytes(pem)
    return above, server.public_bytes(pem) + above, private


def _make_key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _to_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        if not _is_usable(name):
            raise BadRequest(f"{name[:100]!r} is not a host name or an address") from None
        return x509.DNSName(name)


def _is_usable(name: str) -> bool:
    labels = name.removeprefix("*.").split(".")
    return 0 < len(name) <= 253 and all(
        label.isascii() and 0 < len(label) <= 63 and label.replace("-", "").isalnum()
        for label in labels
    )


def _get_host() -> str:
    host = socket.gethostname()
    return host if _is_usable(host) else "this machine"
