"""The secrets in the address or the command line of an MCP server: masked, and put back. Pure.

Many servers take their token in the path or query of their address, and some programs as an
argument. Where it is, is a guess by names and forms; variables and headers are masked in any case.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from agentd.core.redaction import scrub
from agentd.core.secret_text import MASK, is_reference

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_PART = re.compile(r"[^/?&=;]{16,}")
"""A part of an address that is long enough for a key."""
_SHOWN_END = 4
_SHORTEST_SHOWN = 16
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


def find_key_like_parts(place: str) -> list[str]:
    """Return the parts of an address's path and query that look like keys."""
    return [part for part in _PART.findall(place) if any(map(str.isdigit, part))]


def mask_value(value: str) -> str:
    """Return a variable or header as it may be shown: a reference, or its last characters."""
    if is_reference(value) or not value:
        return value
    if "${" in value and not VARIABLE.sub("", value).strip().removeprefix("Bearer"):
        return value
    shown = value.strip()  # so that a form of single lines can send it back
    return MASK + (shown[-_SHOWN_END:] if len(shown) >= _SHORTEST_SHOWN else "")


def mask_address(address: str, mask: Callable[[str], str] = mask_value) -> str:
    """Return an address as it may be shown: without a password or what looks like a key."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        return address
    begin, person, host, place = found.groups()
    place = _PARAMETER.sub(lambda one: one[1] + mask(one[2]), place)
    for part in find_key_like_parts(place):
        if MASK not in part:
            place = place.replace(part, mask(part))
    if person is not None:
        mask(person.partition(":")[2] or person)
        host = f"{MASK}@{host}"
    return f"{begin}{host}{place}"


def mask_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return a program with its arguments as they may be shown."""
    return tuple(_mask_arguments(command, mask_value))


def find_secret_arguments(command: Sequence[str]) -> list[str]:
    """Return what is masked in a command line."""
    found: list[str] = []

    def note(secret: str) -> str:
        found.append(secret)
        return MASK

    list(_mask_arguments(command, note))
    return found


def _mask_arguments(command: Sequence[str], mask: Callable[[str], str]) -> Iterator[str]:
    before = ""
    for argument in command:
        if _OPTION.fullmatch(before) and not argument.startswith("-"):
            yield mask(argument)
        else:
            yield _mask_argument(argument, mask)
        before = argument


def _mask_argument(argument: str, mask: Callable[[str], str]) -> str:
    for pattern in (_ASSIGNMENT, _HEADER):
        name = pattern.fullmatch(argument)
        if name:
            return name[1] + mask(name[2])
    if "://" in argument:
        return mask_address(argument, mask)
    return mask(argument) if scrub(argument) != argument else argument


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
