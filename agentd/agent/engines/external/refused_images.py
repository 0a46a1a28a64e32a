"""Sessions with images that the supplier of their model refuses. Pure.

The program sends them again with each later prompt, so that none in such a session would ever be
answered. The turn is run in a new session without them; where the model has done something before,
as with an image that a tool has read, the next turn begins a new one.
"""

import re
from collections.abc import Iterator

from msgspec import structs

from agentd.agent.engine import (
    EngineEvent,
    EngineStateSaved,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    TurnRequest,
)

LEFT_OUT = (
    "The model's supplier refused an image. A new session was started without images, with the"
    " latest messages of this chat."
)
FORGOTTEN = (
    "The session has an image that the model's supplier refuses. The next prompt begins a new one"
    " with the latest messages of this chat."
)
NOTE = "[Images are left out here: the supplier of this model refused them.]"
"""The end of the prompt, for the model."""

_REFUSAL = re.compile(r"\bimages?\b|image_url|input_image|\bvision\b|multi-?modal|modalit", re.I)


def refuses_images(failed: TurnFailed) -> bool:
    """Return whether a turn failed since the model's supplier takes no images.

    The last words of a program that crashed are no message of a supplier.
    """
    return bool(_REFUSAL.search(failed.reason.partition("\n\n")[0]))


def has_worked(event: EngineEvent) -> bool:
    """Return whether the model has answered something or used a tool."""
    if isinstance(event, ToolUsed):
        return event.ok
    return isinstance(event, ReplyDelta | ReplyCompleted | ToolStarted)


def leave_out_images(assignment: TurnRequest) -> TurnRequest:
    """Return the request for a new session without images; its model is told."""
    return structs.replace(
        assignment,
        prompt=f"{assignment.prompt}\n\n{NOTE}",
        engine_state="",
        is_retry=False,
        shows_images=False,
    )


def make_forgetting(refusal: TurnFailed) -> Iterator[EngineEvent]:
    """Return the events that end a turn whose session cannot be continued."""
    yield EngineStateSaved("")
    yield TurnFailed(f"{refusal.reason}\n\n{FORGOTTEN}")
