"""The secrets in the address or the command line of an MCP server: masked, and put back. Pure.

Many servers take their token in the path or query of their address, and some programs as an
argument. Where it is, is a guess by names and forms; variables and headers are masked in any case.
"""

import re
from collections.abc import Iterator, Sequence

from agentd.agent.mcp_servers.model import find_key_like_parts, mask_value
from agentd.core.redaction import scrub
from agentd.core.secret_text import MASK

_CONFIDENTIAL = r"(?:key|token|secret|password|passwd|pwd|auth|signature|sig)"
_OPTION = re.compile(rf"--?(?:[\w.-]*[_.-])?{_CONFIDENTIAL}", re.IGNORECASE)
"""An option whose value follows as an argument of its own."""
_ASSIGNMENT = re.compile(rf"((?:[\w.-]*[_.-])?{_CONFIDENTIAL}=)(.+)", re.IGNORECASE | re.DOTALL)
"""An option or a variable with its value."""
_HEADER = re.compile(
    rf"((?:[\w-]*-)?(?:{_CONFIDENTIAL}|authorization|cookie):\s*(?:\w+\s+)?)(\S+)", re.IGNORECASE
)
_PARAMETER = re.compile(rf"([?&;](?:[\w.-]*[_.-])?{_CONFIDENTIAL}=)([^&;#]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(.*?://)(?:([^/?@\s]*)@)?([^/?]*)(.*)", re.DOTALL)
"""An address, perhaps after the name of an option."""


def mask_address(address: str) -> str:
    """Return an address as it may be shown: without a password or what looks like a key."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        return address
    begin, person, host, place = found.groups()
    place = _PARAMETER.sub(lambda one: one[1] + mask_value(one[2]), place)
    for part in find_key_like_parts(place):
        if MASK not in part:
            place = place.replace(part, mask_value(part))
    return f"{begin}{'' if person is None else f'{MASK}@'}{host}{place}"


def mask_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return a program with its arguments as they may be shown."""
    return tuple(_mask_arguments(command))


def _mask_arguments(command: Sequence[str]) -> Iterator[str]:
    before = ""
    for argument in command:
        if _OPTION.fullmatch(before) and not argument.startswith("-"):
            yield mask_value(argument)
        else:
            yield _mask_argument(argument)
        before = argument


def _mask_argument(argument: str) -> str:
    for pattern in (_ASSIGNMENT, _HEADER):
        name = pattern.fullmatch(argument)
        if name:
            return name[1] + mask_value(name[2])
    if "://" in argument:
        return mask_address(argument)
    return mask_value(argument) if scrub(argument) != argument else argument


def restore_address(shown: str, stored: str) -> str:
    """Return the stored address for its mask; ``ValueError`` for a mask of another one."""
    if shown == mask_address(stored):
        return stored
    if MASK in shown:
        raise ValueError("url: a part of it is masked; send the whole address")
    return shown


def restore_command(shown: Sequence[str], stored: Sequence[str]) -> tuple[str, ...]:
    """Return a command line with the stored arguments for their masks.

    Raises ``ValueError`` for a mask of none of them, or of several.
    """
    masked = mask_command(stored)
    if tuple(shown) == masked:
        return tuple(stored)
    known: dict[str, set[str]] = {}
    for mask, argument in zip(masked, stored, strict=True):
        known.setdefault(mask, set()).add(argument)
    restored: list[str] = []
    for argument in shown:
        meant = known.get(argument, set()) if MASK in argument else {argument}
        if len(meant) != 1:
            raise ValueError(f"command: {argument[:80]} is masked; send the argument itself")
        restored += meant
    return tuple(restored)
