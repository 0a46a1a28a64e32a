"""JSON bodies: strict on the way in, exact on the way out."""

import json
from typing import Any, TypeVar

import msgspec

from agentd.errors import BadRequest
from agentd.web.misshapen import explained

T = TypeVar("T")

_encoder = msgspec.json.Encoder(decimal_format="number")


def refuse_body(body: bytes) -> None:
    """Raise ``BadRequest`` for a body where none is taken; an empty object says nothing.

    It may have been meant to say something, such as ``dry_run``, which goes into the address.
    """
    if body.strip() not in (b"", b"{}"):
        raise BadRequest(
            "This address takes no body",
            "Options such as dry_run are parameters of the address: ?dry_run=true.",
        )


def encoded(value: object) -> bytes:
    """The JSON of an answer; money is a number, written exactly."""
    return _encoder.encode(value)


def decoded(data: bytes, kind: type[T]) -> T:
    """The typed value of a JSON body.

    Raises ``BadRequest`` for anything that is not JSON in UTF-8, for a repeated key, for nesting
    too deep to follow, and for a wrong type, naming its path such as ``$.prompts[2].prompt``.
    """
    if not data:
        raise BadRequest("The body is empty", "JSON is expected; {} where nothing is to be said.")
    try:
        text = data.decode()
        json.loads(text, object_pairs_hook=_no_repeats, parse_int=_short, parse_constant=_short)
        value = msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError as error:
        raise BadRequest("The body is not UTF-8", f"at byte {error.start}") from error
    except msgspec.ValidationError as error:
        told = explained(str(error), kind)
        raise BadRequest("The body has another form than expected", told) from error
    except ValueError as error:
        raise BadRequest("The body is not JSON", str(error)) from error
    except RecursionError as error:
        raise BadRequest("The body is nested too deeply") from error
    return value


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:80]!r} is there twice")
        found[name] = value
    return found


def _short(number: str) -> int:
    """Python refuses very long integers, and JSON knows no NaN."""
    if len(number) > 400 or not number.lstrip("-").isdigit():
        raise ValueError(f"{number[:40]} is no number that can be taken")
    return int(number)
