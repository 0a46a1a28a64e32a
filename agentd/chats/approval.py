"""The things that stop a queue: a question, a hold, a wait.

Pure values; when a question is asked and who may answer it is ruled by ``agent.approval_rules``.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp

LONGEST_NOTE = 1000
"""Characters of the note of an answer."""

ApprovalKind: TypeAlias = Literal[
    "read", "write", "outside", "shell", "network", "other", "question", "budget"
]
"""The kind of an action: ``write`` changes files of the workspace, ``outside`` files elsewhere.

``question``: the agent asks the person something; the note is the answer.
``budget`` is asked by the dispatcher itself: whether the chat may spend more.
"""

ApprovalState: TypeAlias = Literal["open", "allowed", "denied", "expired", "withdrawn"]
"""``expired``: nobody answered in time, which counts as denied. ``withdrawn``: the turn ended
before an answer, or a person withdrew a decision for the whole chat."""

ApprovalMode: TypeAlias = Literal["ask", "auto", "deny"]
"""The treatment of a question that no rule decides."""


class Approval(Struct, frozen=True, omit_defaults=True):
    """A question of the agent, and its outcome."""

    id: int
    """The id, also of the message that shows it in the history."""
    kind: ApprovalKind
    tool: str
    subject: str
    """The whole action: the command, the path, the address."""
    at: Timestamp
    deadline: Timestamp = ""
    """When it counts as denied; empty: never, since nothing hangs on it."""
    reason: str = ""
    """Why it is wanted, if that was said."""
    state: ApprovalState = "open"
    session: bool = False
    """The answer, yes or no, holds for the same question in this chat; of addresses, for the same
    host."""
    note: str = ""
    """The note of the person who decided."""
    answered_by: str = ""
    answered_at: Timestamp = ""
    diff: str = ""
    """The change in files, as a unified diff, while the question is open."""
    choices: tuple[str, ...] = ()
    """The answers that a question of the agent offers; others are possible."""
    workspace: str = ""
    """The workspace in which a ``session`` answer holds: ``./lint.sh`` of another may do more."""


class ApprovalDecision(Struct, frozen=True, omit_defaults=True):
    """What was decided about an action, as a message of the history keeps it."""

    state: ApprovalState
    by: str
    """Who decided: ``user:anna``, ``key:laptop``, ``bot:team``; ``rule``: the settings,
    ``deadline``: nobody answered in time, ``agent``: it needed no answer any more."""
    note: str = ""
    """Why, in the words of who decided, or which rule it was."""
    question: int = 0
    """The message of the question; 0: nobody was asked, as after a denial for the whole chat."""
    session: bool = False
    """The answer holds for the same question in this chat."""


_AUTHORS = {"key": "the API key ", "bot": "the bot ", "user": ""}


def describe_author(by: str) -> str:
    """Return the author of a record for a reader: ``anna``, ``the API key laptop``."""
    kind, found, name = by.partition(":")
    return f"{_AUTHORS.get(kind, f'{kind} ')}{name}" if found else by


def render_decision(
    decided: ApprovalDecision, kind: ApprovalKind = "other", action: str = ""
) -> str:
    """Render a decision for the history; ``action`` is what nobody was asked about."""
    head = _render_outcome(decided, describe_author(decided.by), kind)
    head += " This holds for the same question in this chat." if decided.session else ""
    return "\n\n".join(part for part in (head, decided.note, action) if part)


def _render_outcome(decided: ApprovalDecision, who: str, kind: ApprovalKind) -> str:
    match decided.state:
        case "expired":
            return "Denied: nobody answered in time."
        case "withdrawn" if decided.by == "agent":
            return "Withdrawn: no answer is needed any more."
        case "withdrawn":
            return f"Withdrawn by {who}: it no longer holds for the whole chat."
        case _ if decided.by == "rule":
            return "Denied by the settings."
        case "allowed":
            return f"{'Answered' if kind == 'question' else 'Allowed'} by {who}."
        case _:
            return f"{'Left unanswered' if kind == 'question' else 'Denied'} by {who}."


class Hold(Struct, frozen=True):
    """The whole queue is paused until it is released.

    ``stopped``: a person stopped the turn and wants quiet; the next prompt releases it, unless it
    is paused or sent by autofix. ``budget``: the chat or the day spent what it may. ``hand``:
    somebody held it.
    """

    kind: Literal["stopped", "budget", "hand"]
    reason: str
    by: str
    at: Timestamp


class QueueWait(Struct, frozen=True):
    """The queue continues at ``until``: a supplier's limit is reached, or several turns failed."""

    until: Timestamp
    reason: str
