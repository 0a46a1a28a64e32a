"""Changes that an operator makes to the parameters of requests: set, default, remove. Pure.

Parameters are named as in the supplier's dialect, those within objects by a path such as
``generationConfig.temperature``. What agentd itself decides, counts or reads cannot be changed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct, structs

from agentd.core.errors import BadRequest
from agentd.llm.conversation import Conversation
from agentd.llm.dialects.request_parsing import decode_raw_fields

ParameterName: TypeAlias = Annotated[str, Meta(max_length=200)]

MAX_CHANGES = 100
"""The number of parameters that one list of changes may name."""
MAX_NAME_CHARS = 200
"""The length of a name within a parameter's value."""
MAX_VALUE_BYTES = 10_000
"""The size of a parameter's value as JSON."""

_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,4}")
_CAPITAL = re.compile("(?<=[a-z0-9])([A-Z])")

_COUNTED = "agentd reserves and counts what a request can cost by it"
_OWN = "agentd sets it"
_CONTENT = "it is the caller's content, in which secrets are masked and tokens counted"
_PROTECTED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of"),
            *("service_tier", "speed", "inference_geo", "modalities", "audio", "prediction"),
            *("generation_config.max_output_tokens", "generation_config.candidate_count"),
            "generation_config.response_modalities",
        ),
        _COUNTED,
    ),
    **dict.fromkeys(("model", "stream", "stream_options", "background", "store"), _OWN),
    **dict.fromkeys(
        (
            *("messages", "input", "contents", "prompt", "system", "instructions", "conversation"),
            *("system_instruction", "tools", "functions", "previous_response_id"),
            "cached_content",
        ),
        _CONTENT,
    ),
}
"""Why parameters cannot be changed, by their names with underscores."""

_SAMPLING = ("temperature", "top_p", "top_k", "seed", "stop_sequences")
_TRANSLATED: Mapping[str, str] = {
    **{name: name for name in _SAMPLING},
    **{f"generation_config.{name}": name for name in _SAMPLING},
    "stop": "stop_sequences",
    "verbosity": "verbosity",
    "text.verbosity": "verbosity",
}
"""The fields of a conversation, by the names that suppliers have for them, with underscores."""


class ParameterChanges(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes of the parameters of requests, by their names in the supplier's dialect.

    Raises ``ValueError`` for values that have no form in a file of settings.
    """

    set: dict[str, Any] = {}
    """Values that replace the caller's, such as ``temperature: 0.2``."""
    default: dict[str, Any] = {}
    """Values that are sent if the caller gives none."""
    remove: tuple[ParameterName, ...] = ()
    """Parameters that are not sent."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is changed."""
        return not (self.set or self.default or self.remove)

    def __post_init__(self) -> None:
        for field, values in (("set", self.set), ("default", self.default)):
            for name, value in values.items():
                if wrong := _explain_unstorable(value):
                    raise ValueError(f"{field}.{name[:100]}: {wrong}")


def apply_parameters(body: bytes, changes: Iterable[ParameterChanges]) -> bytes:
    """Return a request with its parameters changed; later changes win.

    Raises ``BadRequest`` if a parameter is to be put into something that is not an object.
    """
    fields: dict[str, Any] = dict(decode_raw_fields(body))
    for one in changes:
        for name in one.remove:
            _remove(fields, name.split("."))
        for name, value in one.default.items():
            _put(fields, name.split("."), value, replace=False)
        for name, value in one.set.items():
            _put(fields, name.split("."), value, replace=True)
    return msgspec.json.encode(fields)


def leave_out_changed(
    conversation: Conversation, changes: Iterable[ParameterChanges]
) -> Conversation:
    """Return a conversation without the caller's values of parameters that are removed or set.

    So the supplier's dialect need not be able to express them: it may have no ``top_k``, or no
    temperature beside thinking. To be called before a request is translated.
    """
    names = {_write_plain(name) for one in changes for name in (*one.remove, *one.set)}
    fields = {_TRANSLATED[name] for name in names & _TRANSLATED.keys()}
    if not fields:
        return conversation
    usual = Conversation(messages=())
    return structs.replace(conversation, **{name: getattr(usual, name) for name in fields})


def validate_parameters(changes: ParameterChanges) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the problems of changes of parameters, each with its place."""
    if len(changes.set) + len(changes.default) + len(changes.remove) > MAX_CHANGES:
        yield (), f"names more than {MAX_CHANGES} parameters"
    for number, name in enumerate(changes.remove):
        if wrong := _explain_refused_name(name):
            yield ("remove", number), wrong
    for field in ("set", "default"):
        values: dict[str, Any] = getattr(changes, field)
        for name, value in values.items():
            if wrong := _explain_refused_name(name) or _explain_refused_value(value):
                yield (field, name), wrong
            elif name in changes.remove or (field == "default" and name in changes.set):
                yield (
                    (field, name),
                    "is named twice; a parameter is set, has a default or is removed",
                )


def _explain_refused_name(name: str) -> str:
    if not _PATH.fullmatch(name):
        return "is not a parameter; expected a name such as temperature or reasoning.effort"
    plain = _write_plain(name)
    if plain == "generation_config":
        return "is not a parameter; name one within it, such as generationConfig.temperature"
    place = plain if plain in _PROTECTED else plain.partition(".")[0]
    return f"cannot be changed: {_PROTECTED[place]}" if place in _PROTECTED else ""


def _explain_refused_value(value: object) -> str:
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return "is not a value of JSON"
    return f"is larger than {MAX_VALUE_BYTES} bytes" if size > MAX_VALUE_BYTES else ""


def _explain_unstorable(value: object) -> str:
    """Return why a value, or one within it, has no form in a file of settings."""
    inner: Iterable[object] = ()
    wrong = ""
    match value:
        case None | []:
            wrong = "null and empty lists cannot be sent; list the parameter in remove instead"
        case bool() | str():
            pass
        case int():
            wrong = "" if -(2**63) <= value < 2**63 else "is too large a number"
        case float():
            wrong = "" if isfinite(value) else "is too large a number"
        case dict():
            inner = value.values()
            if any(len(str(name)) > MAX_NAME_CHARS for name in value):
                wrong = f"has a name of more than {MAX_NAME_CHARS} characters"
        case list():
            inner = value
    return wrong or next(filter(None, map(_explain_unstorable, inner)), "")


def _remove(fields: dict[str, Any], path: list[str]) -> None:
    name = _find_name(fields, path[0])
    if len(path) == 1:
        fields.pop(name, None)
    elif (inner := _decode_object(fields.get(name))) is not None:
        _remove(inner, path[1:])
        fields[name] = inner


def _put(fields: dict[str, Any], path: list[str], value: object, *, replace: bool) -> None:
    name = _find_name(fields, path[0])
    is_given = name in fields and fields[name] != Raw(b"null")
    if len(path) == 1:
        if replace or not is_given:
            fields[name] = value
        return
    inner = _decode_object(fields[name]) if is_given else {}
    if inner is None:
        raise BadRequest(f'"{name}" is not an object, as the settings of this model expect')
    _put(inner, path[1:], value, replace=replace)
    fields[name] = inner


def _find_name(fields: Mapping[str, Any], name: str) -> str:
    """Return the spelling that the request has: Gemini takes both ``topP`` and ``top_p``."""
    if name in fields:
        return name
    plain = _write_plain(name)
    first, *rest = plain.split("_")
    camel = first + "".join(map(str.capitalize, rest))
    return next((one for one in (plain, camel) if one in fields), name)


def _write_plain(name: str) -> str:
    """Return a name with underscores: ``generation_config.top_k`` for Gemini's spelling."""
    return _CAPITAL.sub(r"_\1", name).lower()


def _decode_object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Raw):
        try:
            return dict(msgspec.json.decode(value, type=dict[str, Raw]))
        except msgspec.DecodeError:
            return None
    return dict(value) if isinstance(value, dict) else None
