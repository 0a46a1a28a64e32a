"""Parses the text after the name of a server's prompt into the arguments it declares. Pure."""

import re

from agentd.agent.custom_commands.model import split_words
from agentd.agent.mcp_servers.messages import ServerPrompt
from agentd.core.errors import BadRequest

_NAMED = re.compile(r"([^\s=]+)=(.*)", re.DOTALL)


def fill_arguments(server: str, prompt: ServerPrompt, typed: str) -> dict[str, str]:
    """Return the arguments by name: in their order, or as ``name=value``.

    Of words that are too many the last argument has all. Raises ``BadRequest`` with what is to be
    typed if a required one is missing, or if there are none.
    """
    names = [one.name for one in prompt.arguments]
    filled: dict[str, str] = {}
    rest: list[str] = []
    for word in split_words(typed):
        named = _NAMED.fullmatch(word)
        if named and named[1] in names:
            filled[named[1]] = named[2]
        else:
            rest.append(word)
    free = [name for name in names if name not in filled]
    if len(rest) > len(free) and free:
        rest = [*rest[: len(free) - 1], " ".join(rest[len(free) - 1 :])]
    filled |= dict(zip(free, rest, strict=False))
    missing = [one.name for one in prompt.arguments if one.required and one.name not in filled]
    if missing or len(rest) > len(free):
        usage = f"/{server}:{prompt.name} {prompt.hint}".rstrip()
        what = f"{', '.join(missing)} is missing" if missing else "it takes no arguments like these"
        raise BadRequest(f"The prompt {prompt.name} of {server}: {what}", f"Write {usage}")
    return filled
