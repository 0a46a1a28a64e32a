"""A session of an ACP agent: what is kept of it between turns, and how a turn in it begins."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec
from msgspec import Struct

from agentd.agent.acp.launch import PROVIDER
from agentd.agent.engine import Assignment
from agentd.agent.foreign import instructions_digest, prompted, resumed_prompt
from agentd.agent.json_rpc import each, text

LOST = "The earlier session is gone. A new one was begun, with the latest messages of this chat."


class Memory(Struct, frozen=True):
    """What is kept between the turns of a chat."""

    session: str = ""
    cost: Decimal = Decimal(0)
    """What the session had cost, as the agent told it last."""
    instructions: str = ""
    """A sum of the instructions that the session has read."""


def remembered(memory: str) -> Memory:
    """What an earlier turn kept; nothing when it is not ours."""
    try:
        kept = msgspec.json.decode(memory or "{}", type=Memory)
    except ValueError:
        return Memory()
    return kept if kept.cost.is_finite() and kept.cost >= 0 else Memory(kept.session)


def kept(session: str, cost: Decimal, instructions: str) -> str:
    """The memory of a session, as text."""
    return msgspec.json.encode(Memory(session, cost, instructions_digest(instructions))).decode()


def opening(assignment: Assignment, memory: Memory, *, fresh: bool) -> str:
    """The prompt as the session is given it; a ``fresh`` one knows nothing yet."""
    if fresh:
        return prompted(assignment.prompt, assignment.history, assignment.instructions)
    heeded = instructions_digest(assignment.instructions) == memory.instructions
    return resumed_prompt(assignment, "" if heeded else assignment.instructions)


def options(session: object, assignment: Assignment) -> Iterator[tuple[str, str]]:
    """The options to set: the model and the effort, where the session offers them.

    ``LookupError`` with a sentence when models are on offer, but not the wanted one: another
    one is not what the person chose to pay.
    """
    for category, wanted in (
        ("model", _names(assignment)),
        ("thought_level", (assignment.effort,)),
    ):
        if not wanted[-1]:
            continue
        for option in each(session, "configOptions"):
            if category not in (text(option, "category"), text(option, "id")):
                continue
            offered = [text(one, "value") for one in _choices(option)]
            found = next((name for name in wanted if name in offered), "")
            if found and found != text(option, "currentValue"):
                yield text(option, "id"), found
            elif not found and category == "model":
                raise _no_such_model(assignment, offered)
            break


def model_to_set(session: object, assignment: Assignment) -> str:
    """Return the id for ``session/set_model``; empty when there is nothing to set.

    Agents that have no options of a session may list its models beside it. ``LookupError`` as
    for ``options``.
    """
    offered = [text(one, "modelId") for one in each(session, "models", "availableModels")]
    if not assignment.model or not offered:
        return ""
    found = next((name for name in _names(assignment) if name in offered), "")
    if not found:
        raise _no_such_model(assignment, offered)
    return "" if found == text(session, "models", "currentModelId") else found


def _names(assignment: Assignment) -> tuple[str, ...]:
    """Return what an agent may call the model, the model's plain name last."""
    model = assignment.model
    return (f"{PROVIDER}/{model}", f"{assignment.supplier}/{model}", model)


def _no_such_model(assignment: Assignment, offered: Sequence[str]) -> LookupError:
    near = ", ".join(offered[:10])
    return LookupError(f"The agent has no model {assignment.model!r}; it offers {near}.")


def _choices(option: object) -> Iterator[object]:
    for choice in each(option, "options"):
        grouped = list(each(choice, "options"))
        yield from grouped or [choice]
