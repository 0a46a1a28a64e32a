"""``agentd proxy test-secrets``: report the secrets in a text, without their values."""

import argparse
import json
import os
import sys
from typing import IO

from agentd.cli.options import Subcommands, add_json_option, resolve_layout
from agentd.core import ids
from agentd.core.errors import BadRequest, ConfigError, Unavailable
from agentd.gateway.secrets import rule_file as secrets_rule_file
from agentd.gateway.secrets.masker import Finding, SecretMasker
from agentd.gateway.secrets.rules import SecretRules
from agentd.storage.layout import Layout

MAX_BYTES = 64 * 1024 * 1024
"""The most bytes of a text: as many as a request may have."""

EXAMPLES = """\
examples:
  agentd proxy test-secrets notes.md         each secret: its line, rule and mode
  git diff | agentd proxy test-secrets       before a model sees it
  agentd proxy test-secrets --json .env | jq -r '.[].rule'

The rules are the built-in ones and those of secret-rules.yml. The text is not sent, stored or
shown. Exit codes: 0 no secrets found, 1 secrets found.
"""


def add_parser(parts: Subcommands) -> None:
    """Register the command with argparse."""
    parser = parts.add_parser(
        "test-secrets",
        help="report the secrets that would be masked in a text",
        description="Search a text for secrets, as if it were sent to a model.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="file to search; default, or -: standard input",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Report the findings; return 1 when there are any."""
    masker = SecretMasker(_load_rules(resolve_layout(args)), ids.generate_signing_seed())
    findings = masker.find_in_sample(_read_text(args.file))
    if args.json:
        print(json.dumps([_to_json(finding) for finding in findings]))
        return 1 if findings else 0
    for one in findings:
        print(f"{args.file}:{one.line}: {one.rule}, {one.length} characters ({one.mode})")
    print(f"secrets: {len(findings)}" if findings else "no secrets", file=sys.stderr)
    return 1 if findings else 0


def _to_json(finding: Finding) -> dict[str, object]:
    place = {"line": finding.line, "offset": finding.offset, "length": finding.length}
    return {"rule": finding.rule, "mode": finding.mode, **place}


def _load_rules(layout: Layout) -> SecretRules:
    """Return the rules, without values from variables that only the daemon's environment has."""
    try:
        return secrets_rule_file.load_rules(layout, os.environ)
    except ConfigError as error:
        rules = secrets_rule_file.load_rules(layout, None)
        print(f"{error}\nthese values are ignored", file=sys.stderr)
        return rules


def _read_text(name: str) -> str:
    try:
        if name == "-":
            data = _read_limited(sys.stdin.buffer)
        else:
            with open(name, "rb") as file:
                data = _read_limited(file)
    except OSError as error:
        raise Unavailable(f"cannot read {name}: {os.strerror(error.errno or 0)}") from error
    return data.decode("utf-8", "replace")


def _read_limited(file: IO[bytes]) -> bytes:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadRequest(f"the text is larger than {MAX_BYTES} bytes")
    return data
