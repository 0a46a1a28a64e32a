"""Parsing of callers' requests that all dialects share.

Whatever a body holds, only ``BadRequest`` is raised. What is checked is what is sent: no top-level
field may stand twice, because parsers differ in which one they use.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    PDF,
    DocumentPart,
    ImagePart,
    MessagePart,
    ModelMessage,
    Role,
    ToolDefinition,
)
from agentd.llm.dialects.caller import UnsupportedRequest
from agentd.llm.dialects.ignored_fields import drop_ignored_fields

MAX_DEPTH = 64
"""The maximum nesting depth of a request's JSON."""

MAX_TOKENS = 100_000_000
"""The most tokens of a reply."""

_MAX_COMPLAINT = 300
"""The maximum characters of a decoder's error that are forwarded."""

Ignored: TypeAlias = Any
"""The type of a field that other suppliers need not know; each use has its reason."""

ModelName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
"""A model's."""

Verbosity: TypeAlias = Literal["low", "medium", "high"]

TokenCount: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


class StrictPart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a request that forbids unknown fields."""


class ModelField(Struct):
    """The requested model and nothing else."""

    model: ModelName


class FieldRules(Struct, frozen=True):
    """The treatment of request fields that a ``Conversation`` has no place for.

    All other unknown fields are refused.
    """

    ignored: Mapping[str, str] = {}
    """Another supplier need not know of them, and why."""
    neutral: Mapping[str, tuple[object, ...]] = {}
    """The values with which the fields have no effect."""
    refused: Mapping[str, str] = {}
    """The advice for each refused field."""
    facts: Mapping[str, Mapping[str, object]] = {}
    """Error fields that clients react to, by refused field; see ``caller.UnsupportedRequest``.
    OpenAI's clients send the whole conversation when the previous response is unknown."""


class _FieldKey:
    """A field name that equals no other, so that a dict keeps repeated fields."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _make_key(kind: type, name: str) -> _FieldKey:
    return _FieldKey(name)


_VALUES = msgspec.json.Decoder(dict[_FieldKey, Any], dec_hook=_make_key)
_PIECES = msgspec.json.Decoder(dict[_FieldKey, Raw], dec_hook=_make_key)


def decode_fields(body: bytes) -> dict[str, object]:
    """Decode all fields of a request.

    Raises ``BadRequest`` if the body is not a JSON object in UTF-8, is nested deeper than
    ``MAX_DEPTH``, or has a field twice.
    """
    fields = _decode(_VALUES, body)
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:  # with fewer it cannot be so deep
        _check_depth(fields)
    return fields


def decode_raw_fields(body: bytes | Raw) -> dict[str, Raw]:
    """Return the fields as raw JSON; ``BadRequest`` as ``decode_fields``, but at any depth."""
    return _decode(_PIECES, body)


def encode_with(body: bytes, fields: Mapping[str, Raw], changes: Mapping[str, object]) -> bytes:
    """Encode the fields of a body with these changes; without any return ``body`` itself."""
    return msgspec.json.encode({**fields, **changes}) if changes else body


def replace_model(body: bytes, model: str) -> bytes:
    """Return the body with another model name; all else stays unchanged."""
    fields = decode_raw_fields(body)
    named = decode_subset(fields, ModelField).model
    return encode_with(body, fields, {} if named == model else {"model": model})


def decode_as(body: bytes, shape: type[S]) -> S:
    """Decode the fields of ``shape``.

    Raises ``BadRequest`` as ``decode_fields``, and for wrong types.
    """
    fields = decode_fields(body)
    try:
        return msgspec.convert(fields, shape)
    except msgspec.ValidationError as error:
        raise BadRequest(f"Invalid request: {_describe_error(error)}") from None


def decode_subset(fields: Mapping[str, Raw], shape: type[S]) -> S:
    """Decode the fields of ``shape`` from raw fields; all others are ignored."""
    found = {name: fields[name] for name in shape.__struct_encode_fields__ if name in fields}
    try:
        return msgspec.json.decode(msgspec.json.encode(found), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"Invalid request: {_describe_error(error)}") from None


def decode_strict(body: bytes, shape: type[S], rules: FieldRules) -> S:
    """Decode a whole request that is to be translated to another dialect.

    Raises ``BadRequest`` as ``decode_fields``, and for any field that neither ``shape`` nor
    ``rules`` know.
    """
    known = shape.__struct_encode_fields__
    for name, value in decode_fields(body).items():
        if name not in known and value is not None:
            _check_field(name, value, rules)
    return decode_part(body, shape)


def decode_part(data: bytes | Raw, shape: type[T], where: str = "") -> T:
    """Decode a part of a request that is translated; ``BadRequest`` says what is wrong and where.

    Fields without meaning are dropped; see ``ignored_fields``.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # as it mostly is; only what is not needs a second look
    try:
        return msgspec.json.decode(drop_ignored_fields(bytes(data), shape), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = _describe_error(error)
        if where:
            what = what.replace("`$", f"`{where}") if "`$" in what else f"{what} - at `{where}`"
        raise BadRequest(
            "The model's supplier speaks another dialect, into which the request cannot be "
            f"translated: {what}"
        ) from None


def merge_adjacent(messages: Iterable[ModelMessage]) -> tuple[ModelMessage, ...]:
    """Merge adjacent messages of one role, and drop empty ones."""
    found: list[tuple[Role, list[MessagePart]]] = []
    for message in messages:
        if found and found[-1][0] == message.role:
            found[-1][1].extend(message.parts)
        elif message.parts:
            found.append((message.role, list(message.parts)))
    return tuple(ModelMessage(role, tuple(parts)) for role, parts in found)


def join_paragraphs(texts: Iterable[str]) -> str:
    """Join instructions that came in several pieces."""
    return "\n\n".join(filter(None, texts))


def select_tools(
    tools: Iterable[ToolDefinition], names: Collection[str] | None
) -> tuple[ToolDefinition, ...]:
    """Return the tools of these names, in the order in which they were declared; all if None.

    No other dialect can allow a subset of the tools. Raises ``BadRequest`` for an unknown name, and
    where no tool is left.
    """
    declared = tuple(tools)
    if names is None:
        return declared
    wanted = set(names)
    if unknown := wanted - {tool.name for tool in declared}:
        raise BadRequest(f'"tool_choice" allows {min(unknown)[:100]!r}, which is not in "tools"')
    if not wanted:
        raise BadRequest('"tool_choice" allows no tool; use "none" instead')
    return tuple(tool for tool in declared if tool.name in wanted)


def normalize_verbosity(given: Verbosity | None) -> Literal["", "low", "high"]:
    """Return the verbosity; empty for the usual one."""
    return "" if given is None or given == "medium" else given


def parse_image_url(url: str) -> ImagePart:
    """Return an image by its URL, which may hold its bytes (``data:image/png;base64,…``).

    Raises ``BadRequest`` for any URL other than these and ``http(s)``, and for other media types.
    """
    if url.startswith(("https://", "http://")):
        return ImagePart(url=url)
    head, comma, data = url.partition(",")
    kind, *parameters = head[:100].removeprefix("data:").lower().split(";")
    if not (head.startswith("data:") and comma and data and parameters[-1:] == ["base64"]):
        raise BadRequest("An image must be an http(s) URL, or data:image/…;base64,… with its bytes")
    if not kind.startswith("image/"):
        raise BadRequest(f"Only images can be translated for the model's supplier, not {kind}")
    return ImagePart(correct_image_type(kind), data)


def correct_image_type(kind: str) -> str:
    """Return an image's media type, of which one has a wrong name that only OpenAI accepts."""
    return "image/jpeg" if kind == "image/jpg" else kind


def parse_document_url(url: str, name: str = "") -> DocumentPart:
    """Return a PDF by its URL, which may hold its bytes (``data:application/pdf;base64,…``).

    Raises ``BadRequest`` for any other URL, and for other file types, which not all suppliers
    accept.
    """
    if url.startswith(("https://", "http://")):
        return DocumentPart(url=url, name=name)
    head, comma, data = url.partition(",")
    if not (head.lower() == f"data:{PDF};base64" and comma and data):
        raise BadRequest(
            f"Only PDF files can be translated for the model's supplier: data:{PDF};base64,…"
        )
    return DocumentPart(data, name=name)


def _decode(decoder: "msgspec.json.Decoder[dict[_FieldKey, T]]", body: bytes) -> dict[str, T]:
    if not body:
        raise BadRequest("The body is empty; a JSON object is expected")
    try:
        found = decoder.decode(body)
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # msgspec reports bytes that are not UTF-8 with the one or the other, by its version.
        what = _describe_error(error) if _is_utf8(bytes(body)) else "it is not UTF-8"
        raise BadRequest(f"The body is not a JSON object: {what}") from None
    fields = {key.name: value for key, value in found.items()}
    if len(fields) < len(found):
        twice = _find_first_repeated(key.name for key in found)
        raise BadRequest(f"The field {twice[:100]!r} is repeated in the request")
    return fields


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _find_first_repeated(names: Iterable[str]) -> str:
    """Return the first repeated name, in linear time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


_SAYS_NOTHING: tuple[object, ...] = ([], "")
"""An unknown field with one of these values has no effect on any supplier."""

_TOO_DEEP = f"The body is nested deeper than {MAX_DEPTH} levels"


def _check_depth(fields: Mapping[str, object]) -> None:
    """Check level by level: one call per value would cost more than decoding the JSON did."""
    level: list[Any] = [fields]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list) and inner
        ]
        if not level:
            return
    raise BadRequest(_TOO_DEEP)


_ELSEWHERE = {
    "messages": "/v1/chat/completions and /v1/messages",
    "input": "/v1/responses and /v1/embeddings",
    "contents": "/v1beta/models/NAME:generateContent",
}
"""The fields of other dialects by name, to recognize requests sent to the wrong address."""


def _check_field(name: str, value: object, rules: FieldRules) -> None:
    if name in rules.ignored or value in rules.neutral.get(name, ()):
        return
    if name in rules.refused:
        text = f'The model\'s supplier does not support "{name}": {rules.refused[name]}'
        raise UnsupportedRequest(text, rules.facts.get(name, {}))
    if name in _ELSEWHERE:
        raise BadRequest(
            f'"{name}" is not a field of this endpoint; it belongs to {_ELSEWHERE[name]}'
        )
    if value in _SAYS_NOTHING:
        return
    allowed = " or ".join(msgspec.json.encode(one).decode() for one in rules.neutral.get(name, ()))
    raise BadRequest(
        f'"{name[:100]}" has no equivalent in the dialect of the model\'s supplier; '
        + (f"it may be {allowed}" if allowed else "leave it out")
    )


def _describe_error(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _MAX_COMPLAINT else f"{text[:_MAX_COMPLAINT]}…"
