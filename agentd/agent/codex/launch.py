"""How Codex is started."""

import json
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from agentd.agent.conversation import Launch
from agentd.agent.engine import Assignment
from agentd.agent.foreign import KEY_VARIABLE, Endpoint

_PROVIDER = "agentd"


class Memory(Struct, frozen=True):
    """What is kept of a chat's thread between turns."""

    thread: str = ""
    instructions: str = ""
    """A digest of the instructions that the thread has read."""

    @classmethod
    def read(cls, kept: str) -> "Memory":
        """Return the memory as it was kept; what is no JSON is the id of a thread alone."""
        try:
            return msgspec.json.decode(kept, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            return cls(kept)

    def __str__(self) -> str:
        """As it is kept."""
        return msgspec.json.encode(self).decode()


def launch(assignment: Assignment, command: tuple[str, ...], endpoint: Endpoint | None) -> Launch:
    """How Codex is started for a turn; with ``endpoint`` its model is reached there.

    The key is in the environment of Codex alone: not in its arguments, which everybody on the
    host can read, and not in the environment of the commands that it runs.
    """
    given = [*(assignment.command or command), "app-server"]
    if endpoint is None:
        return Launch(tuple(given))
    provider = f"model_providers.{_PROVIDER}"
    settings: dict[str, str | bool] = {
        "model_provider": _PROVIDER,
        f"{provider}.name": assignment.supplier or _PROVIDER,
        f"{provider}.base_url": endpoint.base,
        f"{provider}.wire_api": "responses",
    }
    environment: Mapping[str, str] = {}
    if endpoint.key:
        settings[f"{provider}.env_key"] = KEY_VARIABLE
        settings["shell_environment_policy.ignore_default_excludes"] = False  # those with KEY in it
        environment = {KEY_VARIABLE: endpoint.key}
    for name, value in settings.items():  # a JSON string is a TOML string
        given += ["-c", f"{name}={json.dumps(value)}"]
    return Launch(tuple(given), environment)
