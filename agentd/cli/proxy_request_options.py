"""Options of channels and models that change what is sent to suppliers."""

import argparse
import json
from typing import Any

import msgspec

from agentd.cli.options import Parser, parse_pairs
from agentd.core.errors import BadRequest
from agentd.llm.parameters import ParameterChanges

_EXPECTED = "Expected an object with set, default or remove."


def add_request_options(parser: Parser) -> None:
    """Add ``--header`` and ``--parameters``."""
    parser.add_argument(
        "--header",
        action="append",
        metavar="NAME:VALUE",
        help="sent with every request; repeatable; these replace all others; none for none",
    )
    parser.add_argument(
        "--parameters",
        metavar="JSON",
        help="changes of the parameters of requests, such as"
        ' \'{"set": {"temperature": 0.2}, "default": {}, "remove": ["user"]}\'; none for none',
    )


def parse_request_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields that the options name. Raises ``BadRequest``."""
    found: dict[str, Any] = {}
    if args.header is not None:
        given = [] if args.header == ["none"] else args.header
        found["headers"] = parse_pairs("--header", given, ":", case_matters=False)
    if args.parameters is not None:
        is_none = args.parameters == "none"
        found["parameters"] = None if is_none else _parse_parameters(args.parameters)
    return found


def _parse_parameters(text: str) -> ParameterChanges:
    try:
        given = json.loads(text)
        if isinstance(given, dict) and (unknown := given.keys() - {"set", "default", "remove"}):
            raise BadRequest(f"--parameters: {min(unknown)[:40]!r} is not known", _EXPECTED)
        return msgspec.convert(given, ParameterChanges)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"--parameters: {error}", _EXPECTED) from error
