"""The rules that decide questions of an engine in place of a person. Pure.

In this order: what nobody may allow; the first rule of the settings that matches; what the
settings of an MCP server allow; what a person allowed for the whole chat; then the mode. Reading
and writing inside the workspace need no approval unless a rule says otherwise; for everything else
``ask`` asks, ``auto`` allows and ``deny`` denies. Protected paths (``system.protected_paths``) are
asked about in ``auto``, too.

A rule that denies or asks is matched against each command of a line. It sees only the text, not
what a script, an alias, ``make``, an interpreter or another machine (``ssh``) does. Where the text
does not show whether such a rule applies, only a person can allow the line.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from glob import escape
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from agentd.agent.engine import Question
from agentd.agent.shell_parser import ShellCommand, is_unknown, iter_spellings, parse_command_line
from agentd.chats.approval import Approval, ApprovalKind, ApprovalMode
from agentd.core.errors import BadRequest

Decision: TypeAlias = Literal["allow", "deny", "ask"]
RuleKind: TypeAlias = Literal["read", "write", "outside", "shell", "network", "other", "protected"]
"""``protected``: access of any kind to a protected path."""
Match: TypeAlias = Literal["yes", "no", "unknown"]

BY_SETTINGS = "The settings do not allow it."

ALWAYS_ALLOWED: frozenset[ApprovalKind] = frozenset(("read", "write"))
"""``write`` means inside the workspace, where the agent works."""

MCP_TOOL = "mcp__"
"""How the names of MCP servers' tools begin."""

_PLAIN_COMMAND = re.compile(r"[A-Za-z0-9_./@:=,+%-]+(?: +[A-Za-z0-9_./@:=,+%'\"-]+)*")
"""A program with its arguments, without anything that a shell would expand."""


class ApprovalRule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A rule of the settings; absent fields match everything. ``*`` and ``?`` are wildcards."""

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
        """Return whether this rule decides the question, as far as its text shows."""
        if not fnmatchcase(question.tool, self.tool):
            return "no"
        if self.kind not in (None, question.kind):
            if self.kind != "protected" or not question.protected:
                return "no"
        elif question.protected and self.decision == "allow" and not self._names(question):
            return "no"  # a protected path is allowed by kind or by its exact name only
        if self.decision == "allow":
            return "yes" if self._allows(question) else "no"
        return self._match_restriction(question)

    def _allows(self, question: Question) -> bool:
        """Return whether the pattern allows it; a second command after ``;`` is never covered."""
        if self.subject == "*" or self._names(question):
            return True
        if question.kind == "shell" and not _PLAIN_COMMAND.fullmatch(question.subject):
            return False
        return all(fnmatchcase(one, self.subject) for one in _split_subjects(question))

    def _names(self, question: Question) -> bool:
        """Return whether it names this action and no other, wildcards in it escaped or not."""
        return self.subject in (question.subject, escape(question.subject))

    def _match_restriction(self, question: Question) -> Match:
        """Match a restricting pattern against each command or file of the question."""
        if any(
            fnmatchcase(one, self.subject) for one in (question.subject, *_split_subjects(question))
        ):
            return "yes"
        if question.kind != "shell":
            return "no"
        line = parse_command_line(question.subject)
        found = [self._match_restricted_command(command) for command in line.commands]
        if "yes" in found:
            return "yes"
        return "unknown" if "unknown" in found or not line.certain else "no"

    def _match_restricted_command(self, command: ShellCommand) -> Match:
        unknown = any(map(is_unknown, command.words))
        program = self.subject.split(" ")[0]
        for text in iter_spellings(command):
            if fnmatchcase(text, self.subject) or fnmatchcase(f"{text} ", self.subject):
                return "yes"
            if unknown and fnmatchcase(text.split(" ")[0], program):
                return "unknown"
        return "no"


class ApprovalPolicy(Struct, frozen=True):
    """The settings for approvals."""

    mode: ApprovalMode = "ask"
    rules: tuple[ApprovalRule, ...] = ()
    seconds: float = 600.0
    """The seconds a person has to answer; after that the question is denied."""


def decide(
    question: Question,
    policy: ApprovalPolicy,
    mode: ApprovalMode | str,
    standing: Iterable[Approval],
) -> Decision:
    """Decide by rules (``allow``, ``deny``), or leave it to a person (``ask``).

    ``mode`` is the chat's own, empty when it has none; ``standing`` is what a person decided for
    the whole chat.
    """
    decided = mode or policy.mode
    if question.refusal:
        return "deny"
    if question.kind == "question":  # only a person can answer it
        return "deny" if decided == "deny" else "ask"
    return _decide_action(question, policy, decided, find_standing(question, standing))


def find_standing(question: Question, standing: Iterable[Approval]) -> Approval | None:
    """Return what a person decided last about the same question for the whole chat."""
    key = make_question_key(question)
    same = [one for one in standing if make_question_key(one) == key]
    return same[-1] if same else None


def find_standing_denial(
    question: Question, policy: ApprovalPolicy, standing: Iterable[Approval]
) -> Approval | None:
    """Return the decision for the whole chat by which ``decide`` denied a question."""
    if question.refusal or question.kind == "question":
        return None
    found = find_standing(question, standing)
    if found is None or found.state != "denied" or _apply_rules(question, policy.rules) == "deny":
        return None
    return found


def explain_denial(question: Question, policy: ApprovalPolicy) -> str:
    """Explain why ``decide`` denied a question by the settings: for the person and the model."""
    if question.refusal:
        return question.refusal
    rule = next((rule for rule in policy.rules if rule.match(question) == "yes"), None)
    if rule is None or rule.decision != "deny" or question.kind == "question":
        return f"{BY_SETTINGS} What no rule allows is denied without asking."
    wanted = {"kind": rule.kind or "*", "tool": rule.tool, "subject": rule.subject}
    values = ", ".join(f"{name}: {value}" for name, value in wanted.items() if value != "*")
    return f"{BY_SETTINGS} The rule is: {values or 'deny everything'}."


def find_place(rule: ApprovalRule, question: Question, rules: Sequence[ApprovalRule]) -> int | None:
    """Return the place among ``rules`` from which a new rule decides this question.

    That is before the first that decides it now, else the end: the rules above stay in force. None:
    it stands there already. Raises ``BadRequest`` when it does not decide the question.
    """
    if question.kind == "question":
        raise BadRequest("No rule answers what the agent asks a person")
    if rule in rules and _apply_rules(question, rules) == rule.decision:
        return None
    matching = (index for index, one in enumerate(rules) if one.match(question) == "yes")
    place = next(matching, len(rules))
    if _apply_rules(question, (*rules[:place], rule)) != rule.decision:
        raise BadRequest(
            "The rule does not decide this question",
            "Its kind, tool and subject have to match it. A pattern allows one plain command, and"
            " no protected place; nor can a rule allow a command to which one that denies or asks"
            " may apply.",
        )
    return place


def _decide_action(
    question: Question, policy: ApprovalPolicy, decided: str, standing: Approval | None
) -> Decision:
    ruled = _apply_rules(question, policy.rules)
    if ruled in ("allow", "deny", "ask"):
        return ruled
    if standing and standing.state == "denied":
        return "deny"
    if standing or (question.granted and not question.protected):
        return "allow"
    if question.kind in ALWAYS_ALLOWED and not question.protected:
        return "allow"
    if decided == "auto":
        return "ask" if ruled == "unknown" or question.protected else "allow"
    return "deny" if decided == "deny" else "ask"


def _apply_rules(
    question: Question, rules: Iterable[ApprovalRule]
) -> Literal["allow", "deny", "ask", "unknown", "none"]:
    """Return the first matching rule's decision; ``unknown``: one may match, none surely does."""
    ruled: Literal["unknown", "none"] = "none"
    for rule in rules:
        match rule.match(question):
            case "yes":
                return "ask" if ruled == "unknown" and rule.decision == "allow" else rule.decision
            case "unknown":
                ruled = "unknown"
    return ruled


def make_question_key(asked: Question | Approval) -> tuple[str, ...]:
    """Return what makes questions the same for a decision that holds for the whole chat.

    It is the exact command line, path or request; for an address its host, and for a tool of an MCP
    server the tool, whatever its arguments.
    """
    if asked.kind == "other" and asked.tool.startswith(MCP_TOOL):
        return asked.kind, asked.tool
    host = _parse_host(asked.subject) if asked.kind == "network" else ""
    return asked.kind, asked.tool, f"//{host}" if host else asked.subject


def _parse_host(address: str) -> str:
    try:
        return urlsplit(address).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _split_subjects(question: Question) -> list[str]:
    """Split a subject of several paths, one per line; return any other subject as it is."""
    several = question.kind in ("read", "write", "outside")
    return question.subject.split("\n") if several else [question.subject]
