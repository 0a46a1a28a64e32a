"""Tools in groups, which only the Responses API has: elsewhere the group is part of the name."""

_BETWEEN = "__"
_LONGEST = 200
"""Characters of a name in which the end of its group is looked for; vendors allow 64 or 128."""


def grouped(group: str, tool: str) -> str:
    """The name of a group's tool where there are no groups."""
    return f"{group}{_BETWEEN}{tool}" if group else tool


def parted(name: str, groups: frozenset[str]) -> tuple[str, str]:
    """The longest group of these that ``name`` begins with, empty if none, and the tool it means.

    Time does not grow with the number of groups, of which a request may have very many.
    """
    at = name.rfind(_BETWEEN, 0, _LONGEST)
    while at >= 0:
        if name[:at] in groups:
            return name[:at], name[at + len(_BETWEEN) :]
        at = name.rfind(_BETWEEN, 0, at + len(_BETWEEN) - 1)
    return "", name
