"""Reads YAML that comes from strangers: plain values only, and never much of anything."""

import yaml
from yaml.events import AliasEvent, MappingStartEvent, NodeEvent, SequenceStartEvent

from agentd.errors import BadRequest

TEXT_LIMIT = 2 * 2**20
"""Letters."""
MOST_NODES = 400_000
"""Values, each counted as often as it is referred to."""
MOST_ALIASES = 1_000
DEPTH = 32


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Safe, and made in C where that is there: 2 MiB are read in seconds otherwise."""


def read(text: str) -> object:
    """The document's plain value. Raises ``BadRequest`` for anything that is not one.

    Blocking: a large document takes a second.
    """
    if len(text) > TEXT_LIMIT:
        raise BadRequest(f"The YAML is larger than {TEXT_LIMIT} letters")
    try:
        _weigh(text)
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError, TypeError) as error:
        where = getattr(getattr(error, "problem_mark", None), "line", None)
        line = "" if where is None else f" (line {where + 1})"
        raise BadRequest(f"The YAML cannot be read{line}") from error


def _weigh(text: str) -> None:
    """Go through it once without making anything of it."""
    weights: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    nodes = aliases = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, AliasEvent):
            aliases += 1
            if event.anchor not in weights:
                raise BadRequest("The YAML refers to what is not there, or to itself")
            nodes += weights[event.anchor]
        elif isinstance(event, NodeEvent):
            nodes += 1
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                open_.append((event.anchor, nodes))
            elif event.anchor:
                weights[event.anchor] = 1
        elif open_ and isinstance(event, yaml.events.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                weights[anchor] = nodes - before + 1
        if nodes > MOST_NODES or aliases > MOST_ALIASES or len(open_) > DEPTH:
            raise BadRequest("The YAML is absurdly large or deep")
