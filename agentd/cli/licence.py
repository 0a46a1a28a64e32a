"""``agentd licence``: make an issuer, issue, install and show licences of the model gateway."""

import argparse
import json
import sys

import msgspec

from agentd.cli.options import Subcommands, layout
from agentd.clock import SystemClock
from agentd.disk.licence import SELF_DAYS, LicenceFile
from agentd.errors import BadRequest
from agentd.proxy.licence import LONGEST, lasting, signed, verify

EXAMPLES = """\
examples:
  agentd licence show
  agentd licence self                        one for this workstation, by an issuer of its own
  agentd licence issuer                      make an issuer; licence-issuer.key is its secret
  agentd licence issue "ann@example.org" --edition team --days 365 > ann.licence
  agentd licence install ann.licence         or from standard input: -

Model requests are carried only with a licence; everything else works without one. A licence holds
where its issuer's public key stands in licence-issuer.pub of the config folder.
"""


def add_parser(commands: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = commands.add_parser(
        "licence",
        help="issue, install and show the licence of the model gateway",
        description="Licences of the model gateway, whether or not the daemon runs.",
        epilog=EXAMPLES,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb, told in {
        "show": "tell the licence that is installed, and whether it is valid",
        "self": "give this workstation a licence of its own",
        "issuer": "make an issuer, whose licences then hold here",
        "issue": "print a licence of this place's issuer",
        "install": "keep a licence",
    }.items():
        one = verbs.add_parser(verb, help=told, description=told)
        if verb == "issue":
            one.add_argument("holder", metavar="HOLDER", help="whose it is")
            one.add_argument("--edition", default="standard", help="default: standard")
            one.add_argument(
                "--days", type=int, default=365, help="how long it lasts; default: 365"
            )
        if verb == "install":
            one.add_argument("file", metavar="FILE", help="of the licence; - is standard input")
        one.add_argument("--json", action="store_true", help="answer in JSON")
        one.set_defaults(run=run, verb=verb)


def run(args: argparse.Namespace) -> int:
    """Do one verb; ``show`` fails when there is no valid licence."""
    file, now = LicenceFile(layout(args)), SystemClock().now()
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
    """The token goes to standard output, alone."""
    if not 0 < args.days <= 10 * SELF_DAYS:
        raise BadRequest(f"--days: {args.days} is no time; expected 1 to {10 * SELF_DAYS}")
    made = lasting(args.holder, args.edition, now, args.days)
    token = signed(made, file.private_key())
    verify(token, file.issuers())
    if args.json:
        print(json.dumps({"token": token, "licence": msgspec.to_builtins(made)}))
    else:
        print(token)


def _show(file: LicenceFile, now: str, *, as_json: bool) -> int:
    status = file.status(now)
    if as_json:
        print(json.dumps(msgspec.to_builtins(status)))
    elif status.licence:
        told = status.licence
        print(f"{status.state}: {told.holder}, {told.edition}, until {told.expires}")
    if status.state != "valid" and not as_json:
        print(status.reason, file=sys.stderr)
    return 0 if status.state == "valid" else 1


def _read(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LONGEST + 3)
        else:
            with open(path, "rb") as source:
                data = source.read(LONGEST + 3)
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror}") from error
    return data.decode("ascii", "replace").strip()
