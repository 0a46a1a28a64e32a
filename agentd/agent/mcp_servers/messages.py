"""Messages of the Model Context Protocol as a client reads and writes them. Pure.

What a server sends is foreign: every list is bounded, every text is cut, and what has the wrong
shape counts as absent.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct

from agentd import __version__
from agentd.agent.mcp_servers.tool_schemas import fit_schema, rename_properties
from agentd.agent.text import sanitize
from agentd.agent.tools.viewing import read_picture
from agentd.llm.dialects.half_characters import HalfCharacterDecoder
from agentd.llm.dialects.value_count import check_value_count

JsonMap: TypeAlias = dict[str, object]
RpcId: TypeAlias = int | str

REVISION = "2025-11-25"
"""The newest revision with ``initialize``, which every server of today answers."""
KNOWN_REVISIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

METHOD_UNKNOWN = -32601

MOST_TOOLS = 128
"""Tools of one server; models choose worse among more."""
MOST_TOOLS_OF_ALL = 256
MOST_PAGES = 20
MOST_RESOURCES = 200
MOST_PROMPTS = 200
MOST_ARGUMENTS = 20
LONGEST_DESCRIPTION = 2_000
LONGEST_TOOL_NAME = 64
"""Characters that suppliers accept."""
LONGEST_TEXT = 64 * 1024
MOST_IMAGES = 4
MOST_CONTENTS = 1_000
"""Parts of one result that are read; each takes time, and a result may have a million."""
_MOST_DIGITS = 15
_PROMPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


class RemoteTool(Struct, frozen=True):
    """A tool of a server."""

    name: str
    """As the server calls it."""
    description: str
    schema: JsonMap
    reads: bool
    """The server says that it only reads (``readOnlyHint``)."""
    renamed: Mapping[str, str] = {}
    """The server's names of arguments, by those that the schema has for them."""

    def restore_names(self, arguments: JsonMap) -> JsonMap:
        """Return the arguments of a call by the server's names."""
        return {self.renamed.get(name, name): value for name, value in arguments.items()}


class ServerResource(Struct, frozen=True):
    """A resource of a server."""

    uri: str
    name: str
    description: str
    media_type: str


class PromptArgument(Struct, frozen=True):
    """An argument of a server's prompt."""

    name: str
    required: bool


class ServerPrompt(Struct, frozen=True):
    """A prompt of a server, which a person calls by ``/server:name``."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...]

    @property
    def hint(self) -> str:
        """The names of its arguments, those that are optional in brackets."""
        return " ".join(one.name if one.required else f"[{one.name}]" for one in self.arguments)


class RemoteImage(Struct, frozen=True):
    """An image, as Base64."""

    media_type: str
    data: str


class RemoteResult(Struct, frozen=True):
    """What a call brought: text for the model, images, and whether the tool failed."""

    text: str
    images: tuple[RemoteImage, ...] = ()
    failed: bool = False


def encode_request(number: int, method: str, params: Mapping[str, object]) -> bytes:
    """Return a request as JSON."""
    return _encode(id=number, method=method, params=params)


def encode_notification(method: str, params: Mapping[str, object] | None = None) -> bytes:
    """Return a notification as JSON."""
    return _encode(method=method, **({"params": params} if params else {}))


def encode_result(number: RpcId, result: Mapping[str, object]) -> bytes:
    """Return the answer to a server's request as JSON."""
    return _encode(id=number, result=result)


def encode_failure(number: RpcId, message: str, code: int = METHOD_UNKNOWN) -> bytes:
    """Return the error that answers a server's request as JSON."""
    return _encode(id=number, error={"code": code, "message": message})


def _encode(**members: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


def decode_messages(data: bytes | str) -> tuple[JsonMap, ...]:
    """Return the messages of a line or body (several: a batch); none if it is not JSON.

    A text that was cut within a character does not make a message unreadable, nor does a ``NaN``.
    Raises ``TooLarge`` for so many values that all else would wait while they are decoded.
    """
    check_value_count(data.encode(errors="replace") if isinstance(data, str) else data)
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        text = data if isinstance(data, str) else data.decode(errors="replace")
        try:
            found = HalfCharacterDecoder().decode(text)
        except (ValueError, RecursionError):
            return ()
    listed = found if isinstance(found, list) else [found]
    return tuple(one for one in listed if isinstance(one, dict))


def get_map(value: Mapping[str, object], name: str) -> JsonMap:
    """Return the object that a member is; empty if it is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def get_string(value: Mapping[str, object], name: str, most: int = 1_000) -> str:
    """Return the text that a member is, sanitized and cut; empty if it is none."""
    found = value.get(name)
    return sanitize(found[:most]) if isinstance(found, str) else ""


def iter_maps(value: Mapping[str, object], name: str) -> Iterator[JsonMap]:
    """Yield the objects of the list that a member is."""
    found = value.get(name)
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def build_initialize() -> JsonMap:
    """Return the parameters that open a conversation with a server."""
    return {
        "protocolVersion": REVISION,
        "capabilities": {"roots": {"listChanged": False}, "elicitation": {}},
        "clientInfo": {"name": "agentd", "version": __version__},
    }


def read_own_id(value: object) -> int | None:
    """Return the id or token of one of our requests; None if it is none.

    They are numbers, which some servers send back as text, or with a decimal point.
    """
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) <= _MOST_DIGITS else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def explain_error(error: Mapping[str, object], hide_secrets: Callable[[str], str]) -> str:
    """Return what an error of the protocol says, without secrets."""
    said = error.get("message")
    if isinstance(said, str):  # hidden before it is cut, perhaps within one
        error = {**error, "message": hide_secrets(said[:LONGEST_TEXT])}
    message = get_string(error, "message") or "no reason is given"
    code = error.get("code")
    return f"{message} (error {code})" if isinstance(code, int) else message


def read_tool(given: Mapping[str, object]) -> RemoteTool | None:
    """Return a tool of a list; None if it cannot be offered to a model."""
    name = given.get("name")
    if not isinstance(name, str) or not name or len(name) > 256:
        return None
    described = get_string(given, "description", LONGEST_DESCRIPTION)
    title = get_string(given, "title", 200)
    reads = get_map(given, "annotations").get("readOnlyHint") is True
    schema, renamed = rename_properties(fit_schema(get_map(given, "inputSchema")))
    return RemoteTool(name, described or title or name, schema, reads, renamed)


def read_resource(given: Mapping[str, object]) -> ServerResource | None:
    """Return a resource of a list; None if it has no address."""
    uri = given.get("uri", given.get("uriTemplate"))
    if not isinstance(uri, str) or not uri or len(uri) > 2_000:
        return None
    return ServerResource(
        sanitize(uri),
        get_string(given, "name", 200),
        get_string(given, "description", 500),
        get_string(given, "mimeType", 100),
    )


def read_prompt(given: Mapping[str, object]) -> ServerPrompt | None:
    """Return a prompt of a list; None if it has no name that can be typed."""
    name = given.get("name")
    if not isinstance(name, str) or not _PROMPT_NAME.fullmatch(name):
        return None
    arguments = tuple(
        PromptArgument(argument, one.get("required") is True)
        for one in iter_maps(given, "arguments")
        if (argument := get_string(one, "name", 100))
    )
    described = get_string(given, "description", LONGEST_DESCRIPTION)
    title = get_string(given, "title", 200)
    return ServerPrompt(name, described or title or name, arguments[:MOST_ARGUMENTS])


def name_tools(
    server: str, tools: Iterable[RemoteTool], others: Collection[str] = ()
) -> dict[str, RemoteTool]:
    """Return the tools by the names that a model gets: ``mcp__server__tool``.

    Characters that suppliers refuse are replaced; a name that is too long or taken, also by one of
    ``others``, gets a digest.
    """
    named: dict[str, RemoteTool] = {}
    for tool in tools:
        name = name_tool(server, tool.name)
        if name in named or name in others:
            name = _add_digest(name, tool.name)
        if name not in named and name not in others:
            named[name] = tool
    return named


def name_tool(server: str, tool: str) -> str:
    """Return the name that a model and the rules for approvals have for a server's tool."""
    name = f"mcp__{server}__{_ODD.sub('_', tool)}"
    return _add_digest(name, tool) if len(name) > LONGEST_TOOL_NAME else name


def _add_digest(name: str, tool: str) -> str:
    digest = sha256(tool.encode(errors="replace")).hexdigest()[:8]
    return f"{name[: LONGEST_TOOL_NAME - 9]}_{digest}"


def read_call_result(result: Mapping[str, object]) -> RemoteResult:
    """Return the result of ``tools/call``."""
    texts, images = _read_contents(tuple(iter_maps(result, "content")))
    structured = result.get("structuredContent")
    if structured is not None and not texts:
        try:
            texts = [msgspec.json.encode(structured).decode()]
        except RecursionError:
            texts = ["[structured content: nested too deep to be shown]"]
    return RemoteResult(_join(texts), tuple(images), result.get("isError") is True)


def read_resource_result(result: Mapping[str, object]) -> RemoteResult:
    """Return the result of ``resources/read``."""
    contents = [{"type": "resource", "resource": one} for one in iter_maps(result, "contents")]
    texts, images = _read_contents(contents)
    return RemoteResult(_join(texts), tuple(images))


def read_prompt_result(result: Mapping[str, object]) -> str:
    """Return the texts of the messages that ``prompts/get`` brought."""
    contents = [get_map(one, "content") for one in iter_maps(result, "messages")]
    return _join(_read_contents(contents)[0])


def _read_contents(contents: Sequence[Mapping[str, object]]) -> tuple[list[str], list[RemoteImage]]:
    texts: list[str] = []
    images: list[RemoteImage] = []
    for content in contents[:MOST_CONTENTS]:
        one = content
        if content.get("type") == "resource":
            one = _unpack_resource(content)
            texts.append(f"{get_string(one, 'uri', 2_000)}:")
        kind = one.get("type")
        if kind == "text":
            text = one.get("text")
            texts.append(text[: LONGEST_TEXT + 1] if isinstance(text, str) else "")
        elif kind == "resource_link":
            link = read_resource(one)
            texts.append(f"Resource {link.uri}: {link.name} {link.description}" if link else "")
        elif (image := _read_image(one)) and len(images) < MOST_IMAGES:
            images.append(image)
        else:
            texts.append(f"[{get_string(one, 'mimeType', 100) or kind}: cannot be shown here]")
    if len(contents) > MOST_CONTENTS:
        texts.append(f"[{len(contents) - MOST_CONTENTS:,} more parts: cannot be shown here]")
    return [text for text in texts if text], images


def _unpack_resource(content: Mapping[str, object]) -> JsonMap:
    """Return an embedded resource as the text or image that it holds."""
    held = get_map(content, "resource")
    kind = "text" if isinstance(held.get("text"), str) else "image"
    return {**held, "type": kind, "data": held.get("blob")}


def _read_image(one: Mapping[str, object]) -> RemoteImage | None:
    data = one.get("data")
    if not get_string(one, "mimeType").startswith("image/") or not isinstance(data, str):
        return None
    picture = read_picture(data)
    return RemoteImage(picture.media_type, picture.data) if picture else None


def _join(texts: Iterable[str]) -> str:
    text = "\n".join(texts)
    if len(text) > LONGEST_TEXT:
        return f"{text[:LONGEST_TEXT]}\n… cut: {len(text) - LONGEST_TEXT:,} more characters"
    return text
