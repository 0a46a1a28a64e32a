"""Tool namespaces, which only the Responses API has: elsewhere they are part of the tool's name."""

_BETWEEN = "__"
_LONGEST = 200
"""Characters of a name in which the end of its group is searched; vendors allow 64 or 128."""


def qualify_name(group: str, tool: str) -> str:
    """Return the name of a namespaced tool for dialects without namespaces."""
    return f"{group}{_BETWEEN}{tool}" if group else tool


def split_name(name: str, groups: frozenset[str]) -> tuple[str, str]:
    """Split a name into the longest of these namespaces, empty if none, and the tool's name.

    Time does not grow with the number of namespaces, of which a request may have very many.
    """
    at = name.rfind(_BETWEEN, 0, _LONGEST)
    while at >= 0:
        if name[:at] in groups:
            return name[:at], name[at + len(_BETWEEN) :]
        at = name.rfind(_BETWEEN, 0, at + len(_BETWEEN) - 1)
    return "", name
