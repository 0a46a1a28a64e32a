"""Tools in groups, which only the Responses API has: elsewhere the group is part of the name."""

from collections.abc import Iterable

_BETWEEN = "__"


def grouped(group: str, tool: str) -> str:
    """The name of a group's tool where there are no groups."""
    return f"{group}{_BETWEEN}{tool}" if group else tool


def parted(name: str, groups: Iterable[str]) -> tuple[str, str]:
    """The group of these, empty if it is none of them, and the tool that ``name`` means."""
    for group in sorted(groups, key=len, reverse=True):
        if name.startswith(group + _BETWEEN):
            return group, name.removeprefix(group + _BETWEEN)
    return "", name
