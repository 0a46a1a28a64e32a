"""Builds the command line and environment of Codex."""

import json
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from agentd.agent.engine import TurnRequest
from agentd.agent.engines.external.common import KEY_VARIABLE, ModelEndpoint
from agentd.agent.engines.external.conversation import ProgramLaunch

_PROVIDER = "agentd"
_ASKS = ("-c", "features.default_mode_request_user_input=true")
"""Lets the model ask the person something: by default it can only where it plans."""
_NO_GOALS = ("-c", "features.goals=false")
"""Takes away the model's goals: Codex would go on with one unasked, before it is given a prompt."""


class CodexState(Struct, frozen=True):
    """The state of a chat's thread, saved between turns."""

    thread: str = ""
    instructions: str = ""
    """A digest of the instructions that the thread has read."""
    booked: Mapping[str, int] | None = None
    """The recorded usage of the thread, by Codex's names; None: unknown."""
    mode: str = ""
    """The collaboration mode that the thread is in; empty: Codex's usual one."""

    @classmethod
    def parse(cls, kept: str) -> "CodexState":
        """Parse the saved state; text that is not JSON is a thread's id."""
        try:
            return msgspec.json.decode(kept, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            return cls(kept)

    def __str__(self) -> str:
        """Return the saved form."""
        return msgspec.json.encode(self).decode()


def build_launch(
    assignment: TurnRequest, command: tuple[str, ...], endpoint: ModelEndpoint | None
) -> ProgramLaunch:
    """Return the command for a turn of Codex; ``endpoint`` is where it reaches its model.

    Only the environment of Codex has the key: not its arguments, which everybody on the host can
    read, and not the environment of the commands that it runs.
    """
    given = [*(assignment.command or command), "app-server", *_ASKS, *_NO_GOALS]
    if endpoint is None:
        return ProgramLaunch(tuple(given))
    provider = f"model_providers.{_PROVIDER}"
    settings: dict[str, str | bool | int] = {
        "model_provider": _PROVIDER,
        f"{provider}.name": assignment.supplier or _PROVIDER,
        f"{provider}.base_url": endpoint.base_url,
        f"{provider}.wire_api": "responses",
        # What is refused is then tried again as a broken stream is, and told each time: else Codex
        # would wait in silence for as long as a supplier at its limit says.
        f"{provider}.request_max_retries": 0,
    }
    environment: Mapping[str, str] = {}
    if endpoint.key:
        settings[f"{provider}.env_key"] = KEY_VARIABLE
        settings["shell_environment_policy.ignore_default_excludes"] = False  # those with KEY in it
        environment = {KEY_VARIABLE: endpoint.key}
    for name, value in settings.items():  # a JSON string is a TOML string
        given += ["-c", f"{name}={json.dumps(value)}"]
    return ProgramLaunch(tuple(given), environment)
