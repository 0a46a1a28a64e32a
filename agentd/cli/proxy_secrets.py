"""``agentd proxy test-secrets``: what would be hidden in a text, and where; never what it is."""

import argparse
import json
import os
import sys
from typing import IO

from agentd import ids
from agentd.cli.options import Subcommands, layout
from agentd.disk import secret_rules
from agentd.disk.layout import Layout
from agentd.errors import BadRequest, Misconfigured, Unavailable
from agentd.proxy.secrets.hiding import Finding, Hiding
from agentd.proxy.secrets.rules import Rules

LIMIT = 64 * 1024 * 1024
"""Bytes of a text: as many as a request has at most."""

EXAMPLES = """\
examples:
  agentd proxy test-secrets notes.md         each secret: its line, its rule, and what becomes of it
  git diff | agentd proxy test-secrets       before a model sees it
  agentd proxy test-secrets --json .env | jq -r '.[].rule'

The rules are the built-in ones and those of secret-rules.yml. Nothing of the text is sent, kept or
shown. Exit codes: 0 nothing was found, 1 something was.
"""


def add_parser(parts: Subcommands) -> None:
    """Tell argparse about the command."""
    parser = parts.add_parser(
        "test-secrets",
        help="what would be hidden in a text",
        description="Look through a text as if it were sent to a model.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="else, or by -, standard input"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tell what is found; 1 when anything is."""
    found = Hiding(_rules(layout(args)), ids.new_seed()).sample(_text(args.file))
    if args.json:
        print(json.dumps([_told(one) for one in found]))
    for one in () if args.json else found:
        print(f"{args.file}:{one.line}: {one.rule}, {one.length} characters ({one.mode})")
    if not args.json:
        print(f"{len(found)} secret(s)" if found else "no secrets", file=sys.stderr)
    return 1 if found else 0


def _told(one: Finding) -> dict[str, object]:
    place = {"line": one.line, "offset": one.offset, "length": one.length}
    return {"rule": one.rule, "mode": one.mode, **place}


def _rules(where: Layout) -> Rules:
    """Those that hold; without the values of variables that only the daemon has."""
    try:
        return secret_rules.load(where, os.environ)
    except Misconfigured as error:
        rules = secret_rules.load(where, None)
        print(f"{error}\nthese values are left out", file=sys.stderr)
        return rules


def _text(name: str) -> str:
    try:
        if name == "-":
            data = _read(sys.stdin.buffer)
        else:
            with open(name, "rb") as file:
                data = _read(file)
    except OSError as error:
        raise Unavailable(f"cannot read {name}: {os.strerror(error.errno or 0)}") from error
    return data.decode("utf-8", "replace")


def _read(file: IO[bytes]) -> bytes:
    data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise BadRequest(f"the text is larger than {LIMIT} bytes")
    return data
