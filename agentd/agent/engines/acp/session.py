"""A session of an ACP agent: its saved state, its prompt and its options."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import TypeAlias

import msgspec
from msgspec import Struct

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.acp.launch import PROVIDER
from agentd.agent.engines.external.common import (
    build_first_prompt,
    build_resume_prompt,
    digest_instructions,
)
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.text import sanitize
from agentd.llm.conversation import ImagePart
from agentd.models.program_state import MOST_MODES, ProgramMode

LOST = "The earlier session is gone. A new one was started with the latest messages of this chat."

LONGEST_MODE_NAME, LONGEST_MODE_TEXT = 100, 300
"""Characters of a mode's id and name, and of its description."""


SettingRequest: TypeAlias = tuple[str, Mapping[str, str]]
"""A method of the protocol that sets something of a session, and its parameters."""


class AcpState(Struct, frozen=True):
    """The state saved between the turns of a chat."""

    session: str = ""
    cost: Decimal = Decimal(0)
    """The session's cost at the agent's last report."""
    instructions: str = ""
    """A digest of the instructions that the session has read."""
    usual_mode: str = ""
    """The mode in which the session began, once a chat has chosen another; else empty."""


def parse_state(memory: str) -> AcpState:
    """Parse the state that an earlier turn saved; an empty one if it is not ours."""
    try:
        kept = msgspec.json.decode(memory or "{}", type=AcpState)
    except ValueError:
        return AcpState()
    return kept if kept.cost.is_finite() and kept.cost >= 0 else AcpState(kept.session)


def render_state(session: str, cost: Decimal, instructions: str, usual_mode: str = "") -> str:
    """Return the state of a session as text."""
    state = AcpState(session, cost, digest_instructions(instructions), usual_mode)
    return msgspec.json.encode(state).decode()


def build_prompt(assignment: TurnRequest, memory: AcpState, *, fresh: bool) -> str:
    """Return the prompt for the session; a ``fresh`` one gets instructions and history too."""
    if fresh:
        return build_first_prompt(assignment.prompt, assignment.history, assignment.instructions)
    return build_resume_prompt(assignment, memory.instructions)


def render_blocks(
    words: str, images: Sequence[ImagePart], agent: object
) -> list[Mapping[str, str]]:
    """Return a prompt's blocks, with images where the agent (its ``initialize``) takes them."""
    able = get_path(agent, "agentCapabilities", "promptCapabilities", "image") is True
    shown = [
        {"type": "image", "mimeType": one.media_type, "data": one.data}
        for one in (images if able else ())
    ]
    return [{"type": "text", "text": words}, *shown]


def read_modes(session: object) -> tuple[str, tuple[ProgramMode, ...]]:
    """Return the id of a session's mode, and all modes that it offers.

    They are one of its options, or listed beside them.
    """
    if option := _find_mode_option(session):
        return get_text(option, "currentValue"), _make_modes(_iter_choices(option), "value")
    listed = _make_modes(iter_list(session, "modes", "availableModes"), "id")
    return get_text(session, "modes", "currentModeId"), listed


def _make_modes(offered: Iterable[object], key: str) -> tuple[ProgramMode, ...]:
    modes = (
        ProgramMode(
            get_text(one, key),
            sanitize(get_text(one, "name") or get_text(one, key))[:LONGEST_MODE_NAME],
            sanitize(get_text(one, "description"))[:LONGEST_MODE_TEXT],
        )
        for one in islice(offered, MOST_MODES)
    )
    return tuple(one for one in modes if 0 < len(one.id) <= LONGEST_MODE_NAME)


def plan_settings(
    session: object, assignment: TurnRequest, usual_mode: str
) -> list[SettingRequest]:
    """Return the requests that give a session its model, its effort and its mode.

    Raises ``LookupError`` with a sentence when the session does not offer the model or the mode.
    """
    options = list(_choose_options(session, assignment))
    requests = [_set_option(*one) for one in options]
    if model := "" if options else _choose_model(session, assignment):
        requests.append(("session/set_model", {"modelId": model}))
    current, offered = read_modes(session)
    mode, known = assignment.mode or usual_mode, [one.id for one in offered]
    if assignment.mode and mode not in known:
        near = ", ".join(known[:10]) or "none"
        raise LookupError(f"The agent has no mode {mode[:100]!r}; it offers {near}.")
    if mode in known and mode != current:
        option = get_text(_find_mode_option(session), "id")
        request = ("session/set_mode", {"modeId": mode})
        requests.append(_set_option(option, mode) if option else request)
    return requests


def _set_option(option: str, value: str) -> SettingRequest:
    return "session/set_config_option", {"configId": option, "value": value}


def _find_mode_option(session: object) -> object:
    options = iter_list(session, "configOptions")
    return next((one for one in options if "mode" in _list_option_names(one)), None)


def _list_option_names(option: object) -> tuple[str, str]:
    return get_text(option, "category"), get_text(option, "id")


def _choose_options(session: object, assignment: TurnRequest) -> Iterator[tuple[str, str]]:
    """Yield the options to set: the model and the effort, where the session offers them.

    Raises ``LookupError`` with a sentence when the session offers models, but not this one: the
    person did not choose to pay for another.
    """
    for category, wanted in (
        ("model", _list_model_names(assignment)),
        ("thought_level", (assignment.effort,)),
    ):
        if not wanted[-1]:
            continue
        for option in iter_list(session, "configOptions"):
            if category not in _list_option_names(option):
                continue
            offered = [get_text(one, "value") for one in _iter_choices(option)]
            found = next((name for name in wanted if name in offered), "")
            if found and found != get_text(option, "currentValue"):
                yield get_text(option, "id"), found
            elif not found and category == "model":
                raise _make_unknown_model_error(assignment, offered)
            break


def _choose_model(session: object, assignment: TurnRequest) -> str:
    """Return the id for ``session/set_model``; empty when there is nothing to set.

    Agents without session options may list models beside them. Raises ``LookupError`` as
    ``_choose_options`` does.
    """
    offered = [get_text(one, "modelId") for one in iter_list(session, "models", "availableModels")]
    if not assignment.model or not offered:
        return ""
    found = next((name for name in _list_model_names(assignment) if name in offered), "")
    if not found:
        raise _make_unknown_model_error(assignment, offered)
    return "" if found == get_text(session, "models", "currentModelId") else found


def list_offered_models(session: object) -> list[str]:
    """Return the models that a new session offers, as options or beside them."""
    options = [
        get_text(choice, "value")
        for option in iter_list(session, "configOptions")
        if "model" in (get_text(option, "category"), get_text(option, "id"))
        for choice in _iter_choices(option)
    ]
    beside = [get_text(one, "modelId") for one in iter_list(session, "models", "availableModels")]
    return options or beside


def _list_model_names(assignment: TurnRequest) -> tuple[str, ...]:
    """Return the names that an agent may use for the model, its plain name last."""
    model = assignment.model
    return (f"{PROVIDER}/{model}", f"{assignment.supplier}/{model}", model)


def _make_unknown_model_error(assignment: TurnRequest, offered: Sequence[str]) -> LookupError:
    near = ", ".join(offered[:10])
    return LookupError(f"The agent has no model {assignment.model!r}; it offers {near}.")


def _iter_choices(option: object) -> Iterator[object]:
    for choice in iter_list(option, "options"):
        grouped = list(iter_list(choice, "options"))
        yield from grouped or [choice]
