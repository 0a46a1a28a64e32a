"""Which questions of an engine a person must decide, and which a rule decides. Pure.

In this order: what nobody may allow; the first rule of the settings that matches; what a person
allowed for the whole chat; then the mode. Reading and writing inside the workspace need nobody's
leave unless a rule says otherwise; for all else ``ask`` asks, ``auto`` allows and ``deny``
denies. What is protected (``agent.protected``) is asked for in the mode ``auto``, too.

A rule that denies or asks looks at each command of a line. It sees no more than the text does:
what a script, an alias, ``make`` or an interpreter does is beyond it. Where the text does not
tell whether such a rule applies, nothing but a person allows the line.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from agentd.agent.engine import Question
from agentd.agent.shell_line import Command, is_unknown, parse, spellings
from agentd.chats.approval import Approval, Kind, Mode

Decision: TypeAlias = Literal["allow", "deny", "ask"]
RuleKind: TypeAlias = Literal["read", "write", "outside", "shell", "network", "other", "protected"]
"""``protected``: whatever touches a protected place, of any kind."""
Match: TypeAlias = Literal["yes", "no", "unknown"]

HARMLESS: frozenset[Kind] = frozenset(("read", "write"))
"""``write`` is inside the workspace, which is the agent's to work in."""

_PLAIN_COMMAND = re.compile(r"[A-Za-z0-9_./@:=,+%-]+(?: +[A-Za-z0-9_./@:=,+%'\"-]+)*")
"""One program with its arguments: nothing that a shell would understand otherwise."""


class Rule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One rule of the settings; what is left out matches everything. ``*`` and ``?`` are any."""

    decision: Annotated[Decision, Meta(description="allow, deny or ask.")]
    kind: Annotated[
        RuleKind | None,
        Meta(description="read, write, outside, shell, network, other or protected."),
    ] = None
    tool: Annotated[str, Meta(description="The tool's name, such as shell.")] = "*"
    subject: Annotated[
        str, Meta(description="The whole command, path or address, such as git status*.")
    ] = "*"

    def match(self, question: Question) -> Match:
        """Tell whether this rule decides that question, as far as the question's text tells."""
        if not fnmatchcase(question.tool, self.tool):
            return "no"
        if self.kind not in (None, question.kind):
            if self.kind != "protected" or not question.protected:
                return "no"
        elif question.protected and self.decision == "allow" and self.subject != question.subject:
            return "no"  # what is protected is allowed by its kind, or by its very name
        if self.decision == "allow":
            return "yes" if self._allows(question) else "no"
        return self._restricts(question)

    def _allows(self, question: Question) -> bool:
        """A pattern that allows a command never covers a second one behind ``;`` or ``&&``."""
        if self.subject in ("*", question.subject):
            return True
        if question.kind == "shell" and not _PLAIN_COMMAND.fullmatch(question.subject):
            return False
        return all(fnmatchcase(one, self.subject) for one in _subjects(question))

    def _restricts(self, question: Question) -> Match:
        """A pattern that denies a command or a file covers it among others, too."""
        if any(fnmatchcase(one, self.subject) for one in (question.subject, *_subjects(question))):
            return "yes"
        if question.kind != "shell":
            return "no"
        line = parse(question.subject)
        found = [self._restricts_command(command) for command in line.commands]
        if "yes" in found:
            return "yes"
        return "unknown" if "unknown" in found or not line.certain else "no"

    def _restricts_command(self, command: Command) -> Match:
        unknown = any(map(is_unknown, command.words))
        program = self.subject.split(" ")[0]
        for text in spellings(command):
            if fnmatchcase(text, self.subject) or fnmatchcase(f"{text} ", self.subject):
                return "yes"
            if unknown and fnmatchcase(text.split(" ")[0], program):
                return "unknown"
        return "no"


class Policy(Struct, frozen=True):
    """What the settings say about questions."""

    mode: Mode = "ask"
    rules: tuple[Rule, ...] = ()
    seconds: float = 600.0
    """How long a person may take; then it is denied."""


def decide(
    question: Question, policy: Policy, mode: Mode | str, granted: Iterable[Approval]
) -> Decision:
    """Who decides: a rule (``allow``, ``deny``) or a person (``ask``).

    ``mode`` is the chat's own, empty when it has none; ``granted`` is what a person allowed for
    the whole chat.
    """
    if question.refusal:
        return "deny"
    ruled = _by_rule(question, policy.rules)
    if ruled in ("allow", "deny", "ask"):
        return ruled
    if any(likeness(one.kind, one.tool, one.subject) == _of(question) for one in granted):
        return "allow"
    if question.kind in HARMLESS and not question.protected:
        return "allow"
    decided = mode or policy.mode
    if decided == "auto":
        return "ask" if ruled == "unknown" or question.protected else "allow"
    return "deny" if decided == "deny" else "ask"


def _by_rule(
    question: Question, rules: Iterable[Rule]
) -> Literal["allow", "deny", "ask", "unknown", "none"]:
    """The decision of the first rule that matches; ``unknown``: one may match, and none does."""
    ruled: Literal["unknown", "none"] = "none"
    for rule in rules:
        match rule.match(question):
            case "yes":
                return "ask" if ruled == "unknown" and rule.decision == "allow" else rule.decision
            case "unknown":
                ruled = "unknown"
    return ruled


def likeness(kind: Kind, tool: str, subject: str) -> tuple[str, ...]:
    """Return what two questions share when leave for one is leave for the other.

    That is the very command line, path or request; of an address the host.
    """
    host = _host(subject) if kind == "network" else ""
    return kind, tool, f"//{host}" if host else subject


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _subjects(question: Question) -> list[str]:
    """The paths of a question about several, one in a line; else what it is about, as it is."""
    several = question.kind in ("read", "write", "outside")
    return question.subject.split("\n") if several else [question.subject]


def _of(question: Question) -> tuple[str, ...]:
    return likeness(question.kind, question.tool, question.subject)
