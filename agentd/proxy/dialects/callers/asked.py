"""What reading a caller's request has in common in all dialects.

Whatever a body holds, nothing but ``BadRequest`` comes of it. What is checked is what is sent: no
name stands twice at the top, because readers differ in which one they take.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.callers.silent import without_silent_fields
from agentd.proxy.dialects.conversation import PDF, Document, Image, Message, Part, Role

DEPTH = 64
"""How deep a request's JSON may be nested."""

MOST_TOKENS = 100_000_000
"""No reply is longer."""

_TOLD = 300
"""Characters of a decoder's complaint that are told on."""

Ignored: TypeAlias = Any
"""Of a field that another supplier need not know of; the reason stands where it is declared."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
"""A model's."""

Verbosity: TypeAlias = Literal["low", "medium", "high"]

Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a request in which nothing may stand that is not known."""


class Named(Struct):
    """Which model is asked for, and nothing beside it."""

    model: Name


class Rules(Struct, frozen=True):
    """What becomes of fields of a request that a ``Conversation`` has no place for.

    All that is not named here is refused.
    """

    ignored: Mapping[str, str] = {}
    """Another supplier need not know of them, and why."""
    neutral: Mapping[str, tuple[object, ...]] = {}
    """They say nothing with these values."""
    refused: Mapping[str, str] = {}
    """What to do instead."""


class _Named:
    """A field's name. No two are equal, so that a dict of them keeps a second field of a name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def _named(kind: type, name: str) -> _Named:
    return _Named(name)


_VALUES = msgspec.json.Decoder(dict[_Named, Any], dec_hook=_named)
_PIECES = msgspec.json.Decoder(dict[_Named, Raw], dec_hook=_named)


def opened(body: bytes) -> dict[str, object]:
    """All fields of a request, decoded.

    Raises ``BadRequest`` for what is no JSON object in UTF-8, is nested deeper than ``DEPTH``, or
    has a field twice.
    """
    fields = _fields(_VALUES, body)
    if body.count(b"{") + body.count(b"[") > DEPTH:  # with fewer it cannot be so deep
        _check_depth(fields)
    return fields


def pieces(body: bytes) -> dict[str, Raw]:
    """The fields of a request as they are written; ``BadRequest`` as ``opened``, but any depth."""
    return _fields(_PIECES, body)


def assembled(body: bytes, fields: Mapping[str, Raw], changes: Mapping[str, object]) -> bytes:
    """The body that these are the fields of, some of them changed; itself if none is."""
    return msgspec.json.encode({**fields, **changes}) if changes else body


def for_model(body: bytes, model: str) -> bytes:
    """The body with another model named; all else stays as it was written."""
    fields = pieces(body)
    named = some(fields, Named).model
    return assembled(body, fields, {} if named == model else {"model": model})


def glanced(body: bytes, shape: type[S]) -> S:
    """What ``shape`` asks for of a request; ``BadRequest`` as ``opened``, and for wrong types."""
    fields = opened(body)
    try:
        return msgspec.convert(fields, shape)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The request is wrong: {_complaint(error)}") from None


def some(fields: Mapping[str, Raw], shape: type[S]) -> S:
    """The same, of fields as they are written; what else stands in them is not looked at."""
    found = {name: fields[name] for name in shape.__struct_encode_fields__ if name in fields}
    try:
        return msgspec.json.decode(msgspec.json.encode(found), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The request is wrong: {_complaint(error)}") from None


def translated(body: bytes, shape: type[S], rules: Rules) -> S:
    """All of a request that is to be said in another dialect.

    Raises ``BadRequest`` as ``opened``, and for whatever neither ``shape`` nor ``rules`` know.
    """
    known = shape.__struct_encode_fields__
    for name, value in opened(body).items():
        if name not in known and value is not None:
            _check(name, value, rules)
    return part(body, shape)


def part(data: bytes | Raw, shape: type[T], where: str = "") -> T:
    """A part of a request that is translated; ``BadRequest`` tells what cannot be, and where.

    Fields that say nothing are passed over; see ``silent``.
    """
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # as it mostly is; only what is not needs a second look
    try:
        return msgspec.json.decode(without_silent_fields(bytes(data), shape), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = _complaint(error)
        if where:
            what = what.replace("`$", f"`{where}") if "`$" in what else f"{what} - at `{where}`"
        raise BadRequest(
            "The model's supplier speaks another dialect, into which the request cannot be "
            f"translated: {what}"
        ) from None


def joined(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The same messages; neighbours of one role are one, and empty ones are gone."""
    found: list[tuple[Role, list[Part]]] = []
    for message in messages:
        if found and found[-1][0] == message.role:
            found[-1][1].extend(message.parts)
        elif message.parts:
            found.append((message.role, list(message.parts)))
    return tuple(Message(role, tuple(parts)) for role, parts in found)


def paragraphs(texts: Iterable[str]) -> str:
    """Instructions that were given in pieces, as one text."""
    return "\n\n".join(filter(None, texts))


def verbosity(given: Verbosity | None) -> Literal["", "low", "high"]:
    """How much is to be said; what is usual need not be told."""
    return "" if given is None or given == "medium" else given


def picture(url: str) -> Image:
    """An image by its address, which may hold its bytes (``data:image/png;base64,…``).

    Raises ``BadRequest`` for any other than these and ``http``, and for what is no picture.
    """
    if url.startswith(("https://", "http://")):
        return Image(url=url)
    head, comma, data = url.partition(",")
    kind, *parameters = head[:100].removeprefix("data:").lower().split(";")
    if not (head.startswith("data:") and comma and data and parameters[-1:] == ["base64"]):
        raise BadRequest("A picture is an http(s) address, or data:image/…;base64,… with its bytes")
    if not kind.startswith("image/"):
        raise BadRequest(f"Only pictures can be translated for the model's supplier, no {kind}")
    return Image(kind, data)


def document(url: str, name: str = "") -> Document:
    """A PDF by its address, which may hold its bytes (``data:application/pdf;base64,…``).

    Raises ``BadRequest`` for any other, and for files of another type, which not all suppliers
    take.
    """
    if url.startswith(("https://", "http://")):
        return Document(url=url, name=name)
    head, comma, data = url.partition(",")
    if not (head.lower() == f"data:{PDF};base64" and comma and data):
        raise BadRequest(
            f"Of files only PDFs can be translated for the model's supplier: data:{PDF};base64,…"
        )
    return Document(data, name=name)


def _fields(decoder: "msgspec.json.Decoder[dict[_Named, T]]", body: bytes) -> dict[str, T]:
    if not body:
        raise BadRequest("The body is empty; a JSON object is expected")
    try:
        found = decoder.decode(body)
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    except UnicodeDecodeError:
        raise BadRequest("The body is no JSON object: it is not in UTF-8") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"The body is no JSON object: {_complaint(error)}") from None
    fields = {key.name: value for key, value in found.items()}
    if len(fields) < len(found):
        twice = _first_repeated(key.name for key in found)
        raise BadRequest(f"The field {twice[:100]!r} stands twice in the request")
    return fields


def _first_repeated(names: Iterable[str]) -> str:
    """Return the first name that came before; time is linear in how many there are."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


_SAYS_NOTHING: tuple[object, ...] = ([], "")
"""A field that nobody knows, with one of these values, would tell no supplier anything."""

_TOO_DEEP = f"The body is nested deeper than {DEPTH} levels"


def _check_depth(fields: Mapping[str, object]) -> None:
    """Level by level: a call for each value would cost more than reading the JSON did."""
    level: list[Any] = [fields]
    for _ in range(DEPTH):
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
"""Where what a request says stands in which field: who has the wrong one has the wrong address."""


def _check(name: str, value: object, rules: Rules) -> None:
    if name in rules.ignored or value in rules.neutral.get(name, ()):
        return
    if name in rules.refused:
        raise BadRequest(f'The model\'s supplier cannot be told "{name}": {rules.refused[name]}')
    if name in _ELSEWHERE:
        raise BadRequest(
            f'"{name}" is not of this address\'s dialect; it is taken by {_ELSEWHERE[name]}'
        )
    if value in _SAYS_NOTHING:
        return
    allowed = " or ".join(msgspec.json.encode(one).decode() for one in rules.neutral.get(name, ()))
    raise BadRequest(
        f'"{name[:100]}" cannot be said to the model\'s supplier, which speaks another dialect; '
        + (f"it may be {allowed}" if allowed else "leave it out")
    )


def _complaint(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _TOLD else f"{text[:_TOLD]}…"
