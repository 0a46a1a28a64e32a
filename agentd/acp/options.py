"""What an editor can choose for a session: the approval mode, the model and the skill. Pure.

The mode is both a session mode and a configuration option, as the protocol asks of agents until
all editors know the latter. Source: https://agentclientprotocol.com/protocol/session-config-options.
"""

from typing import Any

from msgspec import Struct

from agentd.acp.messages import AcpInvalidParams, AcpJson

MODE, MODEL, SKILL = "mode", "model", "skill"
"""The ids of the options."""
STANDARD = "-"
"""The value for what the daemon's settings say; no model or skill can have this name."""
_MODES = {
    "ask": ("Ask", "A person decides about shell commands and changes outside the workspace."),
    "auto": ("Auto", "The agent may do everything but touch protected files."),
    "deny": ("Deny", "What needs an approval is denied."),
}


class Choices(Struct, frozen=True):
    """What there is to choose from, and what a chat has; empty: the daemon's settings decide."""

    models: tuple[str, ...]
    default_model: str
    skills: tuple[tuple[str, str], ...]
    """Names and descriptions."""
    default_mode: str
    mode: str
    model: str
    skill: str


def read_choices(settings: AcpJson, models: AcpJson, skills: AcpJson, default_mode: str) -> Choices:
    """Return the choices from the answers of the API."""
    return Choices(
        models=tuple(one["name"] for one in models["models"]),
        default_model=models["default"],
        skills=tuple((one["name"], one["description"]) for one in skills["skills"]),
        default_mode=default_mode,
        mode=settings["approvals"],
        model=settings["model"],
        skill=settings["skill"],
    )


def make_modes(choices: Choices) -> dict[str, Any]:
    """Return the session modes."""
    return {
        "currentModeId": choices.mode or STANDARD,
        "availableModes": [
            {"id": one["value"], "name": one["name"], "description": one["description"]}
            for one in _list_modes(choices)
        ],
    }


def make_options(choices: Choices) -> list[dict[str, Any]]:
    """Return the configuration options, the most important first."""
    models = [_make_standard(choices.default_model)]
    models += [{"value": name, "name": name} for name in choices.models]
    skills = [{"value": STANDARD, "name": "None"}]
    skills += [
        {"value": name, "name": name, "description": description[:500]}
        for name, description in choices.skills
        if name != "none"
    ]
    skill = "" if choices.skill == "none" else choices.skill
    made = [
        _make_option(MODE, "Approvals", "mode", choices.mode, _list_modes(choices)),
        _make_option(MODEL, "Model", "model", choices.model, models),
    ]
    return made + ([_make_option(SKILL, "Skill", "_skill", skill, skills)] if skills[1:] else [])


def make_change(choices: Choices, option: str, value: object) -> dict[str, str]:
    """Return the change of the chat's settings. Raises ``AcpInvalidParams`` for what is unknown."""
    offered = {
        MODE: tuple(_MODES),
        MODEL: choices.models,
        SKILL: tuple(name for name, _ in choices.skills),
    }
    if option not in offered:
        raise AcpInvalidParams(f"No option has the id {option[:100]!r}")
    if value != STANDARD and value not in offered[option]:
        raise AcpInvalidParams(f"The option {option} has no value {str(value)[:100]!r}")
    names = {MODE: "approvals", MODEL: "model", SKILL: "skill"}
    return {names[option]: "" if value == STANDARD else str(value)}


def _list_modes(choices: Choices) -> list[dict[str, str]]:
    standard = _make_standard(choices.default_mode) | {
        "description": "As the daemon's settings say."
    }
    return [
        standard,
        *(
            {"value": mode, "name": name, "description": description}
            for mode, (name, description) in _MODES.items()
        ),
    ]


def _make_standard(name: str) -> dict[str, str]:
    return {"value": STANDARD, "name": f"Default ({name})" if name else "Default"}


def _make_option(
    option: str, name: str, category: str, value: str, offered: list[dict[str, str]]
) -> dict[str, Any]:
    if value and all(one["value"] != value for one in offered):
        offered = [*offered, {"value": value, "name": f"{value} (not found)"}]
    return {
        "id": option,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": value or STANDARD,
        "options": offered,
    }
