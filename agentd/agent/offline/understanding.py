"""From what a person wrote to what is asked: ``/commands`` and plain words.

Nothing here fails and nothing guesses: what fits no phrase is ``Unknown``.
"""

import difflib
import re

from msgspec import Struct

from agentd.agent.offline.phrases import PHRASES
from agentd.agent.offline.requests import Help, Refused, Request, Unknown
from agentd.agent.tools import RunCommand

LONGEST_LINE = 400
"""Characters; a longer line is none of our phrases."""
MOST_LINES = 20
"""So many requests are taken from one prompt."""


class Command(Struct, frozen=True):
    """A ``/command``: its name starts a phrase, so ``/list src`` means ``list src``."""

    name: str
    usage: str
    does: str
    phrase: str = ""
    """What it stands for, where that is not its own name."""
    aliases: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """How the phrase begins."""
        return self.phrase or self.name


COMMANDS = (
    Command("about", "[FOLDER]", "what this project is", aliases=("summary", "describe")),
    Command("list", "[FOLDER]", "the files in a folder", aliases=("ls",)),
    Command("tree", "[FOLDER]", "the same, three levels deep"),
    Command("read", "FILE [FIRST-LAST]", "a file, or some of its lines", aliases=("cat", "show")),
    Command("search", "TEXT [in PLACE]", "lines that hold a text", aliases=("grep",)),
    Command("find", "NAME", "files by name, such as `*.toml`", "find file"),
    Command("define", "WORD", "where a function or class is defined", aliases=("def", "where")),
    Command("count", "[PLACE]", "files, lines and words by kind", aliases=("wc",)),
    Command("outline", "FILE", "the classes and functions of a Python file"),
    Command("status", "", "the git branch and the changed files"),
    Command("log", "[NUMBER] [PLACE]", "the latest commits"),
    Command("diff", "[PLACE]", "what is not committed yet"),
    Command("run", "COMMAND", "what a command line says, run by `/bin/sh` in this folder"),
    Command("commit", "COMMIT", "what one commit changed", "git show"),
    Command("help", "", "this list", aliases=("commands", "?")),
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

_RUN = re.compile(r"(?P<sign>/?run\b|[$!](?= ))[ \t]*(?P<command>.*)", re.IGNORECASE | re.DOTALL)
_ENGLISH = re.compile(
    r"(?:the|a|an|all|any|my|our|your|this|that|these|those|it|some|every|each|tests?|again)\b(?!\S)",
    re.IGNORECASE,
)
"""How what people want to have run begins, where it is no command line."""


def requests_in(prompt: str) -> list[Request]:
    """What a prompt asks, in its order, one request for each line.

    A longer text of which most is not understood (a pasted log, say) is one ``Unknown``.
    """
    lines = [line for line in prompt.splitlines() if line.strip()][: MOST_LINES + 1]
    requests = [understand(line) for line in lines] or [Help()]
    unknown = sum(isinstance(request, Unknown) for request in requests)
    if len(requests) > 1 and (unknown * 2 > len(requests) or len(requests) > MOST_LINES):
        return [Unknown(lines[0].strip()[:LONGEST_LINE])]
    return requests


def understand(line: str) -> Request:
    """What one line asks; ``Help`` when it asks nothing."""
    text = line.strip()
    run = _RUN.match(text) or _RUN.match(_unceremoniously(text[:LONGEST_LINE]))
    if run:
        return _run(run)
    if len(text) > LONGEST_LINE:
        return Unknown(text[:LONGEST_LINE] + "…")
    if re.match(r"/[A-Za-z?]+(?:\s|$)", text):
        return _command(text)
    text = _plainly(text)
    if not text:
        return Help()
    return _phrase(text) or Unknown(line.strip())


def _command(text: str) -> Request:
    name, _, rest = text[1:].partition(" ")
    command = _BY_NAME.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), _BY_NAME, 1)
        return Unknown(text, f"/{_BY_NAME[near[0]].name}" if near else "")
    usage = f"/{command.name} {command.usage}".strip()
    return _phrase(f"{command.words} {rest.strip()}".strip()) or Unknown(text, usage)


def _run(found: re.Match[str]) -> Request:
    """A command line, whole; what follows ``run`` may also be English, which no shell knows."""
    command = found["command"].strip()
    if found["sign"].lower() == "run" and (not command or _ENGLISH.match(command)):
        return Refused("run", found[0].strip())
    if not command:
        return Unknown(found[0].strip(), "/run COMMAND")
    quoted = len(command) > 2 and command[0] == command[-1] == "`" and "`" not in command[1:-1]
    return RunCommand(command[1:-1] if quoted else command)


def _unceremoniously(text: str) -> str:
    """Without what is only polite before it."""
    while (found := _BEFORE.match(text)) and found.end() < len(text):
        text = text[found.end() :]
    return text


def _plainly(text: str) -> str:
    """Without what is only polite, before and after."""
    text = _unceremoniously(text)
    while found := re.search(rf"{_AFTER.pattern}$", text, re.IGNORECASE):
        text = text[: found.start()].rstrip()
    return text


def _phrase(text: str) -> Request | None:
    for pattern, meaning in PHRASES:
        # Compiled when first tried, then kept by re: all at once takes as long as a start.
        found = re.fullmatch(pattern, text, re.IGNORECASE)
        request = found and meaning(found.groupdict(default=""))
        if request:
            return request
    return None
