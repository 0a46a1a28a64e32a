"""Tool definitions for the model, parsing of its calls, and results as text."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.agent.mcp_servers.messages import RemoteResult
from agentd.agent.mcp_servers.turn_tools import McpTools, McpToolUse
from agentd.agent.text import sanitize
from agentd.agent.tools.model import (
    MAX_ARGUMENT_LENGTH,
    TOOLS,
    ApplyPatch,
    FetchPage,
    Reading,
    RunTask,
    ToolUse,
    describe_arguments,
)
from agentd.agent.tools.patch import parse_patch
from agentd.agent.tools.results import (
    BackgroundOutput,
    CommandResult,
    Commits,
    Counts,
    Diff,
    DirListing,
    FileText,
    Outline,
    PatchedFiles,
    PersonAnswer,
    RepositoryStatus,
    SearchHit,
    SearchHits,
    TodoList,
    ToolResult,
    ViewedFile,
    ViewedPart,
    WebPage,
    WrittenFile,
)
from agentd.core.errors import BadRequest, suggest_name
from agentd.llm.conversation import (
    PDF,
    ContentPart,
    DocumentPart,
    ImagePart,
    TextPart,
    ToolCall,
    ToolDefinition,
)

LONGEST_RESULT = 64 * 1024
"""Characters of a tool's result that the model gets."""

LONGEST_OUTCOME = 1500
"""Characters of a command's output that the history keeps."""


AnyUse: TypeAlias = "ToolUse | McpToolUse | InvalidToolCall"
"""What a model asked for."""


class InvalidToolCall(Struct, frozen=True):
    """A call of an unknown tool or with invalid arguments; ``why`` is for the model."""

    name: str
    input: str
    why: str


def build_tool_definitions(
    offered: Mapping[str, type[ToolUse]] = TOOLS,
) -> tuple[ToolDefinition, ...]:
    """Return the definitions of tools, taken from their input types."""
    tools = []
    for name, tool in offered.items():
        found = msgspec.json.schema(tool)
        schema = _inline(found["$defs"][tool.__name__], found["$defs"])
        inputs = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
        tools.append(ToolDefinition(name, schema["description"], inputs))
    return tuple(tools)


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema without references, which not every supplier takes."""
    if isinstance(schema, list):
        return [_inline(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {key: _inline(value, definitions) for key, value in schema.items() if key != "title"}


def parse_call(
    call: ToolCall, offered: Mapping[str, type[ToolUse]] = TOOLS
) -> ToolUse | InvalidToolCall:
    """Parse a tool call of the model, which was offered these tools."""
    tool = offered.get(call.name)
    given = sanitize(call.arguments[:MAX_ARGUMENT_LENGTH])
    name = sanitize(call.name[:100]) or "unnamed"
    if tool is None:
        near = suggest_name(call.name, offered)
        return InvalidToolCall(name, given, f"There is no tool named {name}{near}")
    try:
        return msgspec.json.decode(call.arguments.strip() or "{}", type=tool, strict=False)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        why = sanitize(str(error))[:300]
        return InvalidToolCall(
            name, given, f"The arguments of {name} are wrong: {why}. Nothing was done."
        )


def parse_mcp_call(call: ToolCall) -> McpToolUse | InvalidToolCall:
    """Parse a call of an MCP server's tool."""
    try:
        return McpToolUse(
            call.name, msgspec.json.decode(call.arguments.strip() or "{}", type=dict[str, object])
        )
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        why = f"The arguments of {call.name} are wrong: {sanitize(str(error))[:300]}."
        return InvalidToolCall(call.name, sanitize(call.arguments[:MAX_ARGUMENT_LENGTH]), why)


def is_parallel(use: AnyUse, mcp: McpTools) -> bool:
    """Return whether it may run in parallel: it changes nothing, or is work of its own."""
    if isinstance(use, McpToolUse):
        return mcp.reads_unasked(use.name)
    return isinstance(use, Reading | FetchPage | RunTask | InvalidToolCall)


def describe_input(use: AnyUse) -> str:
    """Return the input of a tool use, for the history."""
    if isinstance(use, McpToolUse):
        more = "…" if len(use.shown) > MAX_ARGUMENT_LENGTH else ""
        return f"{use.shown[:MAX_ARGUMENT_LENGTH]}{more}"
    return use.input if isinstance(use, InvalidToolCall) else sanitize(describe_arguments(use))


def list_paths(use: ToolUse) -> tuple[str, ...]:
    """Return the paths that a tool use has to do with, as they were given."""
    if isinstance(use, ApplyPatch):
        with suppress(BadRequest):
            return tuple(file.path for file in parse_patch(use.patch))
    return (path,) if (path := getattr(use, "path", "")) else ()


def summarize_result(brought: ToolResult) -> str:
    """Return a short outcome for the history; for a command with its output."""
    if isinstance(brought, TodoList):
        return f"{brought}\n\n{sanitize(brought.markdown)}"
    if not isinstance(brought, CommandResult | BackgroundOutput) or not brought.output:
        return sanitize(str(brought))
    text = sanitize(brought.output.strip("\n"))
    if len(text) > LONGEST_OUTCOME:
        half = LONGEST_OUTCOME // 2
        text = f"{text[:half]}\n…\n{text[-half:]}"
    return f"{brought}\n{text}"


def summarize_mcp_result(brought: RemoteResult) -> str:
    """Return a short outcome of an MCP server's tool, for the history."""
    text = sanitize(brought.text.strip())
    if len(text) > LONGEST_OUTCOME:
        half = LONGEST_OUTCOME // 2
        text = f"{text[:half]}\n…\n{text[-half:]}"
    images = f"[{len(brought.images)} images]" if brought.images else ""
    return "\n".join(filter(None, ("failed:" if brought.failed else "", text, images))) or "done"


def render_mcp_result(brought: RemoteResult) -> tuple[ContentPart, ...]:
    """Render the result of an MCP server's tool for the model."""
    images = (ImagePart(one.media_type, one.data) for one in brought.images)
    return (TextPart(brought.text or "There is no text in the result."), *images)


def render_result(brought: ToolResult) -> tuple[ContentPart, ...]:
    """Render a tool's result for the model; a long text is cut with a note."""
    text = "\n".join(_iter_lines(brought))
    if len(text) > LONGEST_RESULT:
        text = f"{text[:LONGEST_RESULT]}\n… cut: {len(text) - LONGEST_RESULT:,} more characters"
    if isinstance(brought, ViewedFile):
        return (TextPart(text), *(_attach(one, brought) for one in brought.attachments))
    return (TextPart(text),)


def _iter_lines(brought: ToolResult) -> Iterator[str]:  # noqa: PLR0912 - one for each kind
    match brought:
        case DirListing():
            yield f"{brought.path}: {brought}"
            for entry in brought.entries:
                size = f"  {entry.size:,} bytes" if entry.kind == "file" else ""
                yield f"{entry.path}{'/' if entry.kind == 'folder' else ''}{size}"
        case FileText():
            yield f"{brought.path}: {brought}, each after its number and a tab"
            for number, line in enumerate(brought.lines, brought.first):
                yield f"{number}\t{line}"
        case SearchHits():
            yield str(brought)
            for hit in brought.hits:
                yield from _iter_hit_lines(hit)
        case Counts():
            yield str(brought)
            for tally in brought.tallies:
                kind = tally.suffix or "(no suffix)"
                yield f"{kind}: {tally.files} files, {tally.lines} lines, {tally.words} words"
        case Outline():
            yield f"{brought.path}: {brought}"
            for item in brought.definitions:
                doc = f"  # {item.doc}" if item.doc else ""
                indent = "  " * item.depth
                yield f"{item.line}\t{indent}{item.kind} {item.name}({item.arguments}){doc}"
        case RepositoryStatus():
            yield str(brought)
            yield from (f"{change.code} {change.path}" for change in brought.changes)
        case Commits():
            yield str(brought)
            for commit in brought.commits:
                yield f"{commit.id} {commit.at} {commit.author}: {commit.subject}"
        case Diff():
            yield brought.text or "no difference"
        case WrittenFile() | ViewedFile():
            yield f"{brought.path}: {brought}"
            if isinstance(brought, ViewedFile) and brought.text:
                yield brought.text
        case PatchedFiles():
            yield f"{brought}: {', '.join(brought.paths)}"
        case BackgroundOutput() | TodoList() | PersonAnswer():
            yield str(brought)
            if isinstance(brought, BackgroundOutput) and brought.output:
                yield brought.output
        case WebPage():
            more = "; this is only the beginning" if brought.truncated else ""
            yield f"{brought.url}: {brought}, {brought.media_type}{more}\n\n{brought.text}"
        case CommandResult():
            end = "it took too long and was ended" if brought.late else f"exit code {brought.code}"
            yield f"{end}\n{brought.output}" if brought.output else f"{end}, no output"


def _iter_hit_lines(hit: SearchHit) -> Iterator[str]:
    """Yield a hit as ``grep`` shows it: with ``-`` instead of ``:`` in the lines around it."""
    for number, line in enumerate(hit.before, hit.line - len(hit.before)):
        yield f"{hit.path}-{number}- {line}"
    yield f"{hit.path}:{hit.line}: {hit.text}"
    for number, line in enumerate(hit.after, hit.line + 1):
        yield f"{hit.path}-{number}- {line}"
    if hit.before or hit.after:
        yield "--"


def _attach(attachment: ViewedPart, shown: ViewedFile) -> ContentPart:
    if attachment.media_type == PDF:
        return DocumentPart(data=attachment.data, name=shown.path.rpartition("/")[2])
    return ImagePart(attachment.media_type, attachment.data)
