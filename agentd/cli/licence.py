"""``agentd licence``: issue, install and show licences of the model gateway."""

import argparse
import json
import sys

import msgspec

from agentd.cli.options import Subcommands, add_json_option, resolve_layout, to_sentence
from agentd.core.clock import SystemClock
from agentd.core.errors import BadRequest
from agentd.gateway.licence.licence import MAX_CHARS, create_licence, sign, verify
from agentd.gateway.licence.store import SELF_DAYS, LicenceFile

EXAMPLES = """\
examples:
  agentd licence show
  agentd licence self                        make and install a licence for this workstation
  agentd licence issuer                      make an issuer; licence-issuer.key is its private key
  agentd licence issue "ann@example.org" --edition team --days 365 > ann.licence
  agentd licence install ann.licence         - reads standard input

The model gateway needs a licence; everything else works without one. A licence is valid where
licence-issuer.pub in the config folder has its issuer's public key.
"""


def add_parser(commands: Subcommands) -> None:
    """Register the command with argparse."""
    parser = commands.add_parser(
        "licence",
        help="issue, install and show the licence of the model gateway",
        description="Manage licences of the model gateway, whether or not the daemon runs.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, description in {
        "show": "show the installed licence and whether it is valid",
        "self": "make and install a licence for this workstation",
        "issuer": "create an issuer; its licences are valid here",
        "issue": "print a licence signed by the issuer of this config folder",
        "install": "install a licence",
    }.items():
        one = verbs.add_parser(verb, help=description, description=to_sentence(description))
        if verb == "issue":
            one.add_argument(
                "holder", metavar="HOLDER", help="the person or organisation that it is for"
            )
            one.add_argument("--edition", default="standard", help="default: standard")
            one.add_argument(
                "--days", type=int, default=365, help="days for which it is valid; default: 365"
            )
        if verb == "install":
            one.add_argument(
                "file", metavar="FILE", help="file with the licence, or - for standard input"
            )
        add_json_option(one)
        one.set_defaults(run=run, verb=verb)


def run(args: argparse.Namespace) -> int:
    """Run one verb; ``show`` returns 1 when there is no valid licence."""
    file, now = LicenceFile(resolve_layout(args)), SystemClock().now()
    match args.verb:
        case "issuer":
            public = file.make_issuer()
            print(json.dumps({"issuer": public}) if args.json else public)
            return 0
        case "issue":
            _issue(file, args, now)
            return 0
        case "self":
            file.install_own(now)
        case "install":
            file.install(_read(args.file))
    return _show(file, now, as_json=args.json)


def _issue(file: LicenceFile, args: argparse.Namespace, now: str) -> None:
    """Print a licence, alone on standard output."""
    if not 0 < args.days <= 10 * SELF_DAYS:
        raise BadRequest(f"--days: expected 1 to {10 * SELF_DAYS}, not {args.days}")
    licence = create_licence(args.holder, args.edition, now, args.days)
    token = sign(licence, file.read_private_key())
    verify(token, file.read_issuers())
    if args.json:
        print(json.dumps({"token": token, "licence": msgspec.to_builtins(licence)}))
    else:
        print(token)


def _show(file: LicenceFile, now: str, *, as_json: bool) -> int:
    status = file.read_status(now)
    if as_json:
        print(json.dumps(msgspec.to_builtins(status)))
    elif status.licence:
        licence = status.licence
        print(f"{status.state}: {licence.holder}, {licence.edition}, until {licence.expires}")
    if status.state != "valid" and not as_json:
        print(status.reason, file=sys.stderr)
    return 0 if status.state == "valid" else 1


def _read(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_CHARS + 3)
        else:
            with open(path, "rb") as source:
                data = source.read(MAX_CHARS + 3)
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from error
    return data.decode("ascii", "replace").strip()
