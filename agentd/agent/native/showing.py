"""The tools as a model is shown them, what it asks of them, and what they brought, as text."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from agentd.agent.results import (
    Commits,
    Counts,
    Diff,
    FileText,
    Hits,
    Listing,
    Outline,
    Ran,
    Status,
    ToolResult,
    Written,
)
from agentd.agent.text import plain
from agentd.agent.tools import LONGEST_TOLD, TOOLS, Reading, ToolUse, told
from agentd.errors import nearest
from agentd.proxy.dialects.conversation import Tool, ToolCall

LONGEST_RESULT = 64 * 1024
"""Characters of what a tool brought that a model is shown."""

LONGEST_OUTCOME = 1500
"""Characters of what a command said that the history keeps."""


class Misuse(Struct, frozen=True):
    """A call that is none: no such tool, or arguments that do not fit; ``why`` is for the model."""

    name: str
    input: str
    why: str


def offered() -> tuple[Tool, ...]:
    """Every tool, in the words of its own type."""
    tools = []
    for name, tool in TOOLS.items():
        schema = msgspec.json.schema(tool)["$defs"][tool.__name__]
        inputs = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
        tools.append(Tool(name, schema["description"], inputs))
    return tuple(tools)


def understood(call: ToolCall) -> ToolUse | Misuse:
    """What a model asks for."""
    tool = TOOLS.get(call.name)
    given = plain(call.arguments[:LONGEST_TOLD])
    name = plain(call.name[:100]) or "unnamed"
    if tool is None:
        near = nearest(call.name, TOOLS)
        return Misuse(name, given, f"There is no tool named {name}{near}")
    try:
        return msgspec.json.decode(call.arguments.strip() or "{}", type=tool, strict=False)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        why = plain(str(error))[:300]
        return Misuse(name, given, f"The arguments of {name} are wrong: {why}. Nothing was done.")


def is_reading(use: ToolUse | Misuse) -> bool:
    """Whether nothing is changed by it, so that it may be done beside others."""
    return isinstance(use, Reading | Misuse)


def input_of(use: ToolUse | Misuse) -> str:
    """What it was given, for a reader of the history."""
    return use.input if isinstance(use, Misuse) else plain(told(use))


def outcome(brought: ToolResult) -> str:
    """What a tool brought, in short for a reader of the history; of a command also what it said."""
    if not isinstance(brought, Ran) or not brought.output:
        return plain(str(brought))
    said = plain(brought.output.strip("\n"))
    if len(said) > LONGEST_OUTCOME:
        half = LONGEST_OUTCOME // 2
        said = f"{said[:half]}\n…\n{said[-half:]}"
    return f"{brought}\n{said}"


def shown(brought: ToolResult) -> str:
    """What a tool brought, for a model; what is too long is cut, and says so."""
    text = "\n".join(_lines(brought))
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n… cut: {len(text) - LONGEST_RESULT:,} more characters"


def _lines(brought: ToolResult) -> Iterator[str]:  # noqa: PLR0912 - one for each kind
    match brought:
        case Listing():
            yield f"{brought.path}: {brought}"
            for entry in brought.entries:
                size = f"  {entry.size:,} bytes" if entry.kind == "file" else ""
                yield f"{entry.path}{'/' if entry.kind == 'folder' else ''}{size}"
        case FileText():
            yield f"{brought.path}: {brought}, each after its number and a tab"
            for number, line in enumerate(brought.lines, brought.first):
                yield f"{number}\t{line}"
        case Hits():
            yield str(brought)
            yield from (f"{hit.path}:{hit.line}: {hit.text}" for hit in brought.hits)
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
        case Status():
            yield str(brought)
            yield from (f"{change.code} {change.path}" for change in brought.changes)
        case Commits():
            yield str(brought)
            for commit in brought.commits:
                yield f"{commit.id} {commit.at} {commit.author}: {commit.subject}"
        case Diff():
            yield brought.text or "no difference"
        case Written():
            yield f"{brought.path}: {brought}"
        case Ran():
            end = "it took too long and was ended" if brought.late else f"exit code {brought.code}"
            yield f"{end}\n{brought.output}" if brought.output else f"{end}, no output"
