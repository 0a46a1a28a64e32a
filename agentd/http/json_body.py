"""JSON bodies: strict decoding of requests, exact encoding of responses."""

import json
from typing import Any, TypeVar

import msgspec

from agentd.core.errors import BadRequest
from agentd.http.validation_errors import explain_validation_error

T = TypeVar("T")

_encoder = msgspec.json.Encoder(decimal_format="number")

_LONE_SURROGATE = "A text has half of a character (a lone surrogate, such as \\ud83d)."


def refuse_body(body: bytes) -> None:
    """Raise ``BadRequest`` for a body on a route that takes none; ``{}`` is accepted.

    The caller may have meant an option such as ``dry_run``, which must not be ignored.
    """
    if body.strip() not in (b"", b"{}"):
        raise BadRequest(
            "This route takes no body",
            "Options such as dry_run are query parameters: ?dry_run=true.",
        )


def encode_json(value: object) -> bytes:
    """Return a value as JSON; decimals become numbers with all their digits."""
    return _encoder.encode(value)


def decode_json(data: bytes, kind: type[T]) -> T:
    """Return the typed value of a JSON body.

    Raises ``BadRequest`` for anything that is not JSON in UTF-8, for a repeated key, for nesting
    that is too deep, and for a wrong type, with its path such as ``$.prompts[2].prompt``.
    """
    if not data:
        raise BadRequest("The body is empty", "Send JSON; {} if there is nothing to set.")
    try:
        text = data.decode()
        # msgspec accepts repeated keys and numbers of any length, so json checks those first.
        _strict_decoder.decode(text)
        value = msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError as error:
        raise BadRequest("The body is not UTF-8", f"at byte {error.start}") from error
    except msgspec.ValidationError as error:
        details = explain_validation_error(str(error), kind)
        raise BadRequest("The body is not valid", details) from error
    except msgspec.DecodeError as error:  # json allows it, and all else was read by it
        raise BadRequest("The body is not JSON", _LONE_SURROGATE) from error
    except ValueError as error:
        raise BadRequest("The body is not JSON", str(error)) from error
    except RecursionError as error:
        raise BadRequest("The body is nested too deeply") from error
    return value


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:80]!r} occurs twice")
        found[name] = value
    return found


def _parse_number(number: str) -> int:
    """Refuse very long integers, which Python cannot convert, and NaN, which JSON does not have."""
    if len(number) > 400 or not number.lstrip("-").isdigit():
        raise ValueError(f"{number[:40]} is not a valid number")
    return int(number)


_strict_decoder = json.JSONDecoder(
    object_pairs_hook=_refuse_repeated_keys,
    parse_int=_parse_number,
    parse_constant=_parse_number,
)
"""Made once: making one costs as much as decoding a small body."""
