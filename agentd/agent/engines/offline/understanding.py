"""Parses prompts: ``/commands`` and plain words.

Nothing here fails or guesses: what matches no phrase is ``NotUnderstood``.
"""

import difflib
import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.engines.offline.grammar import PATH, resolve_place
from agentd.agent.engines.offline.phrases import PHRASES
from agentd.agent.engines.offline.requests import (
    Count,
    DeclinedRequest,
    Help,
    NotUnderstood,
    Request,
)
from agentd.agent.tools.model import ReadFile, RunCommand

LONGEST_LINE = 400
"""Characters; no phrase is longer."""
MOST_LINES = 20
"""Requests taken from one prompt."""


class SlashCommand(Struct, frozen=True):
    """A ``/command``: its name starts a phrase, so ``/list src`` means ``list src``."""

    name: str
    usage: str
    does: str
    phrase: str = ""
    """The phrase that it replaces, if that is not its own name."""
    aliases: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The beginning of the phrase."""
        return self.phrase or self.name


COMMANDS = (
    SlashCommand("about", "[FOLDER]", "what this project is", aliases=("summary", "describe")),
    SlashCommand("list", "[FOLDER]", "the files in a folder", aliases=("ls",)),
    SlashCommand("tree", "[FOLDER]", "the same, three levels deep"),
    SlashCommand(
        "read", "FILE [FIRST-LAST]", "a file, or some of its lines", aliases=("cat", "show")
    ),
    SlashCommand("search", "TEXT [in PLACE]", "lines that contain a text", aliases=("grep",)),
    SlashCommand("find", "NAME", "files by name, such as `*.toml`", "find file"),
    SlashCommand(
        "define", "WORD", "where a function or class is defined", aliases=("def", "where")
    ),
    SlashCommand("count", "[PLACE]", "files, lines and words by kind", aliases=("wc",)),
    SlashCommand("outline", "FILE", "the classes and functions of a Python file"),
    SlashCommand("status", "", "the git branch and the changed files"),
    SlashCommand("log", "[NUMBER] [PLACE]", "the latest commits"),
    SlashCommand("diff", "[PLACE]", "what is not committed yet"),
    SlashCommand("run", "COMMAND", "the output of a command line, run by `/bin/sh` in this folder"),
    SlashCommand("commit", "COMMIT", "what one commit changed", "git show"),
    SlashCommand("help", "", "this list", aliases=("commands", "?")),
)
"""Every command, in the order of the help."""

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}

_BEFORE = re.compile(
    r"(?:(?:please|pls|hey|hi|hello|ok|okay|so|now|then|and|also|agentd|just|well)\b[,!]?\s+"
    r"|(?:can|could|would|will) you\s+|i(?: would|'d)? (?:want|like|need)(?: you)? to(?: know)?\s+"
    r"|let(?:'s| me| us)\s+|(?:do|could) you know\s+|tell me\s+(?!about)|i wonder\s+|[-*•]\s+"
    r"|[0-9]{1,2}[.)]\s+)",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?:,?\s+(?:please|pls|thanks|thank you|for me|now|again)|(?<=[\w\"'`)\]*/])[.?!:]{1,3})",
    re.IGNORECASE,
)

_ELSEWHERE = re.compile(
    rf"(?:(?:what|how) +about +(?:in +)?|(?:in|under|inside|within|of|for) +){PATH}", re.IGNORECASE
)
"""Another place for the request before."""

_RUN = re.compile(r"(?P<sign>/?run\b|[$!](?= ))[ \t]*(?P<command>.*)", re.IGNORECASE | re.DOTALL)
_ENGLISH = re.compile(
    r"(?:the|a|an|all|any|my|our|your|this|that|these|those|it|some|every|each|tests?|again)\b(?!\S)",
    re.IGNORECASE,
)
"""The beginning of prose after ``run``, as opposed to a command line."""


def parse_prompt(prompt: str, earlier: Iterable[str] = ()) -> list[Request]:
    """Parse a prompt into one request for each line.

    A line such as ``and in src?`` repeats the request before it in another place; ``earlier`` are
    the prompts before this one, the oldest first. A longer text that is mostly not understood (such
    as a pasted log) is one ``NotUnderstood``.
    """
    before: Request | None = None
    for text in earlier:
        for request in _parse_lines(_split_lines(text), before):
            before = before if isinstance(request, NotUnderstood) else request
    lines = _split_lines(prompt)
    requests = _parse_lines(lines, before) or [Help()]
    unknown = sum(isinstance(request, NotUnderstood) for request in requests)
    if len(requests) > 1 and (unknown * 2 > len(requests) or len(requests) > MOST_LINES):
        return [NotUnderstood(lines[0].strip()[:LONGEST_LINE])]
    return requests


def _split_lines(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line.strip()][: MOST_LINES + 1]


def _parse_lines(lines: list[str], before: Request | None) -> list[Request]:
    """Parse lines that follow the request ``before``."""
    requests: list[Request] = []
    for line in lines:
        request = parse_line(line)
        if isinstance(request, NotUnderstood) and before:
            request = _repeat_elsewhere(line, before) or request
        before = before if isinstance(request, NotUnderstood) else request
        requests.append(request)
    return requests


def _repeat_elsewhere(line: str, before: Request) -> Request | None:
    """Return the request again with the place that a line names; None if it names none."""
    if len(line) > LONGEST_LINE:
        return None
    found = _ELSEWHERE.fullmatch(_strip_politeness(line.strip()))
    if found is None:
        return None
    place = resolve_place(found["path"])
    match before:
        case Count():
            return replace(before, files=replace(before.files, path=place))
        case ReadFile():
            return ReadFile(place)
        case _:
            return replace(before, path=place) if hasattr(before, "path") else None


def parse_line(line: str) -> Request:
    """Parse one line; return ``Help`` if it is no request."""
    text = line.strip()
    run = _RUN.match(text) or _RUN.match(_strip_politeness_before(text[:LONGEST_LINE]))
    if run:
        return _parse_run(run)
    if len(text) > LONGEST_LINE:
        return NotUnderstood(text[:LONGEST_LINE] + "…")
    if re.match(r"/[A-Za-z?]+(?:\s|$)", text):
        return _parse_command(text)
    text = _strip_politeness(text)
    if not text:
        return Help()
    return _match_phrase(text) or NotUnderstood(line.strip())


def _parse_command(text: str) -> Request:
    name, _, rest = text[1:].partition(" ")
    command = _BY_NAME.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), _BY_NAME, 1)
        return NotUnderstood(text, f"/{_BY_NAME[near[0]].name}" if near else "")
    usage = f"/{command.name} {command.usage}".strip()
    return _match_phrase(f"{command.words} {rest.strip()}".strip()) or NotUnderstood(text, usage)


def _parse_run(found: re.Match[str]) -> Request:
    """Return a command line; after ``run`` may also follow English, which is declined."""
    command = found["command"].strip()
    if found["sign"].lower() == "run" and (not command or _ENGLISH.match(command)):
        return DeclinedRequest("run", found[0].strip())
    if not command:
        return NotUnderstood(found[0].strip(), "/run COMMAND")
    quoted = len(command) > 2 and command[0] == command[-1] == "`" and "`" not in command[1:-1]
    return RunCommand(command[1:-1] if quoted else command)


def _strip_politeness_before(text: str) -> str:
    """Remove polite phrases at the start."""
    while (found := _BEFORE.match(text)) and found.end() < len(text):
        text = text[found.end() :]
    return text


def _strip_politeness(text: str) -> str:
    """Remove polite phrases at the start and the end."""
    text = _strip_politeness_before(text)
    while found := re.search(rf"{_AFTER.pattern}$", text, re.IGNORECASE):
        text = text[: found.start()].rstrip()
    return text


def _match_phrase(text: str) -> Request | None:
    for pattern, meaning in PHRASES:
        # Compiled on first use and cached by re: compiling all at once would double the start-up.
        found = re.fullmatch(pattern, text, re.IGNORECASE)
        request = found and meaning(found.groupdict(default=""))
        if request:
            return request
    return None
