"""JSON Schemas that a prompt demands of its reply: which are taken, and what fits them.

The check needs the library ``jsonschema`` (the extra ``schema``), which is loaded with the first
schema. A schema refers to nothing outside of itself: nothing is fetched.
"""

import re
from importlib import import_module
from typing import Any

import msgspec

from agentd.core.errors import BadRequest
from agentd.system.installed import get_install_command

LARGEST_SCHEMA = 64 * 1024
"""Bytes of JSON."""
_LONGEST_REASON = 500
_NO_LIBRARY = "This daemon cannot check replies: its library jsonschema is missing."


def parse_output_schema(schema: dict[str, object], where: str = "outputSchema") -> str:
    """Return a schema as JSON; ``BadRequest`` if it is none, or too large.

    So it is without the library.
    """
    data = msgspec.json.encode(schema)
    if len(data) > LARGEST_SCHEMA:
        raise BadRequest(f"{where} is larger than {LARGEST_SCHEMA:,} bytes")
    if schema.get("type") != "object":
        raise BadRequest(
            f"{where} must describe an object", 'It begins with {"type": "object"}, and so on.'
        )
    library = _load("jsonschema")
    try:
        library.Draft202012Validator.check_schema(schema)
    except (library.SchemaError, RecursionError) as error:
        raise BadRequest(f"{where} is no JSON Schema: {shorten_reason(error)}") from None
    return data.decode()


def explain_not_json(reply: str) -> str:
    """Explain why a reply is no JSON; empty if it is."""
    try:
        msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"The reply is not JSON: {shorten_reason(error)}"
    return ""


def find_mismatch(schema: bytes, reply: bytes) -> str:
    """Explain why a reply, which is JSON, does not fit a schema; empty if it does.

    It may take for ever: see ``output_schema_check``.
    """
    checker = _load("jsonschema").Draft202012Validator
    registry = _load("referencing").Registry()
    unresolvable = _load("referencing.exceptions").Unresolvable
    value = msgspec.json.decode(reply)
    try:
        errors = checker(msgspec.json.decode(schema), registry=registry).iter_errors(value)
        found = next(errors, None)
    except (unresolvable, re.error, RecursionError, TypeError, ValueError) as error:
        return f"The schema cannot be applied: {shorten_reason(error)}"
    if found is None:
        return ""
    place = "/".join(map(str, found.absolute_path))
    return shorten_reason(f"{place}: {found.message}" if place else found.message)


def shorten_reason(problem: object) -> str:
    """Return the first line of a problem, as much of it as is shown."""
    first = str(getattr(problem, "message", problem)).strip().split("\n", 1)[0]
    return first if len(first) <= _LONGEST_REASON else f"{first[:_LONGEST_REASON]}…"


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise BadRequest(_NO_LIBRARY, f"Install it: {get_install_command('schema')}") from None
