"""The nouns of what keeps a queue from going on by itself: a question, a hold, a wait.

Pure values; when a question is asked and who may answer it is ruled by ``agent.approval``.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.clock import Timestamp

Kind: TypeAlias = Literal["read", "write", "outside", "shell", "network", "other", "budget"]
"""What a tool would do: ``write`` changes files of the workspace, ``outside`` files elsewhere.

``budget`` is asked by the dispatcher itself: whether the chat may spend more.
"""

State: TypeAlias = Literal["open", "allowed", "denied", "expired", "withdrawn"]
"""``expired``: nobody answered in time, which counts as denied."""

Mode: TypeAlias = Literal["ask", "auto", "deny"]
"""What becomes of a question that no rule decides."""


class Approval(Struct, frozen=True, omit_defaults=True):
    """A question to the person, and what became of it."""

    id: int
    """Also the id of the message that shows it in the history."""
    kind: Kind
    tool: str
    subject: str
    """What would be done, whole: the command, the path, the address."""
    at: Timestamp
    deadline: Timestamp = ""
    """When it counts as denied; empty: never, since nothing hangs on it."""
    reason: str = ""
    """Why it is wanted, if that was said."""
    state: State = "open"
    session: bool = False
    """The answer holds for the same question in this chat; of addresses, for the same host."""
    note: str = ""
    """What the one who answered said."""
    answered_by: str = ""
    answered_at: Timestamp = ""


class Hold(Struct, frozen=True):
    """The whole queue stands still until it is released.

    ``stopped``: a person stopped the turn and wants quiet; the next prompt releases it.
    ``budget``: the chat or the day spent what it may. ``hand``: somebody held it.
    """

    kind: Literal["stopped", "budget", "hand"]
    reason: str
    by: str
    at: Timestamp


class Wait(Struct, frozen=True):
    """The supplier's limit is reached: the queue goes on by itself at ``until``."""

    until: Timestamp
    reason: str
