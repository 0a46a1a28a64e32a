"""The things that stop a queue: a question, a hold, a wait.

Pure values; when a question is asked and who may answer it is ruled by ``agent.approval_rules``.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp

ApprovalKind: TypeAlias = Literal[
    "read", "write", "outside", "shell", "network", "other", "question", "budget"
]
"""The kind of an action: ``write`` changes files of the workspace, ``outside`` files elsewhere.

``question``: the agent asks the person something; the note is the answer.
``budget`` is asked by the dispatcher itself: whether the chat may spend more.
"""

ApprovalState: TypeAlias = Literal["open", "allowed", "denied", "expired", "withdrawn"]
"""``expired``: nobody answered in time, which counts as denied."""

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
    """The answer holds for the same question in this chat; of addresses, for the same host."""
    note: str = ""
    """The note of the person who decided."""
    answered_by: str = ""
    answered_at: Timestamp = ""
    diff: str = ""
    """The change in files, as a unified diff, while the question is open."""
    choices: tuple[str, ...] = ()
    """The answers that a question of the agent offers; others are possible."""


class Hold(Struct, frozen=True):
    """The whole queue is paused until it is released.

    ``stopped``: a person stopped the turn and wants quiet; the next prompt releases it.
    ``budget``: the chat or the day spent what it may. ``hand``: somebody held it.
    """

    kind: Literal["stopped", "budget", "hand"]
    reason: str
    by: str
    at: Timestamp


class LimitWait(Struct, frozen=True):
    """The supplier's limit is reached: the queue continues at ``until``."""

    until: Timestamp
    reason: str
