"""Which questions of an engine a person must decide, and which a rule decides. Pure.

In this order: the first rule of the settings that matches; what a person allowed for the whole
chat; then the mode. Reading and writing inside the workspace need nobody's leave unless a rule
says otherwise; for all else ``ask`` asks, ``auto`` allows and ``deny`` denies.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentd.agent.engine import Question
from agentd.chats.approval import Approval, Kind, Mode

Decision: TypeAlias = Literal["allow", "deny", "ask"]

HARMLESS: frozenset[Kind] = frozenset(("read", "write"))
"""``write`` is inside the workspace, which is the agent's to work in."""

_PLAIN_COMMAND = re.compile(r"[A-Za-z0-9_./@:=,+%-]+(?: +[A-Za-z0-9_./@:=,+%'\"-]+)*")
"""One program with its arguments: nothing that a shell would understand otherwise."""


class Rule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One rule of the settings; what is left out matches everything. ``*`` and ``?`` are any."""

    decision: Annotated[Decision, Meta(description="allow, deny or ask.")]
    kind: Annotated[
        Kind | None, Meta(description="read, write, outside, shell, network or other.")
    ] = None
    tool: Annotated[str, Meta(description="The tool's name, such as shell.")] = "*"
    subject: Annotated[
        str, Meta(description="The whole command, path or address, such as git status*.")
    ] = "*"

    def matches(self, question: Question) -> bool:
        """Whether this rule decides that question."""
        return (
            (self.kind is None or self.kind == question.kind)
            and fnmatchcase(question.tool, self.tool)
            and self._covers(question)
        )

    def _covers(self, question: Question) -> bool:
        """A pattern that allows a command never covers a second one behind ``;`` or ``&&``."""
        if self.subject == "*":
            return True
        chained = question.kind == "shell" and not _PLAIN_COMMAND.fullmatch(question.subject)
        if chained and self.decision == "allow":
            return question.subject == self.subject
        return fnmatchcase(question.subject, self.subject)


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
    for rule in policy.rules:
        if rule.matches(question):
            return rule.decision
    if any(likeness(one.kind, one.tool, one.subject) == _of(question) for one in granted):
        return "allow"
    if question.kind in HARMLESS:
        return "allow"
    match mode or policy.mode:
        case "auto":
            return "allow"
        case "deny":
            return "deny"
        case _:
            return "ask"


def likeness(kind: Kind, tool: str, subject: str) -> tuple[str, ...]:
    """What two questions share when leave for one is leave for the other.

    For a plain command the program and its first word (``git push``), for one that a shell would
    take apart the whole line; for all else the kind and the tool.
    """
    if kind != "shell":
        return kind, tool
    if not _PLAIN_COMMAND.fullmatch(subject):
        return kind, tool, subject
    return kind, tool, *subject.split()[:2]


def _of(question: Question) -> tuple[str, ...]:
    return likeness(question.kind, question.tool, question.subject)
