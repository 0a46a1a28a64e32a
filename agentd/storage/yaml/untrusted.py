"""Read YAML from untrusted sources: plain values only, of limited size and depth."""

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import AliasEvent, MappingStartEvent, NodeEvent, SequenceStartEvent

from agentd.core.errors import BadRequest

MAX_TEXT_SIZE = 2 * 2**20
"""Characters."""
MAX_NODES = 400_000
"""Values, each counted as often as it is referred to."""
MAX_ALIASES = 1_000
MAX_DEPTH = 32


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """A safe loader, in C where available: without it 2 MiB take seconds."""


def parse_untrusted_yaml(text: str) -> object:
    """Return the document's plain value. Raises ``BadRequest`` for anything that is not one.

    Blocking: a large document takes a second.
    """
    return parse_untrusted_yaml_with_lines(text)[0]


def parse_untrusted_yaml_with_lines(
    text: str,
) -> tuple[object, dict[tuple[str | int, ...], int]]:
    """Return the document's value as ``parse_untrusted_yaml`` does, and the lines of its parts.

    A part is named by the entries and items on the way to it; its line is counted from 1.
    """
    if len(text) > MAX_TEXT_SIZE:
        raise BadRequest(f"The YAML is larger than {MAX_TEXT_SIZE} characters")
    try:
        _check_size(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
        return value, dict(_list_lines(node, ()))
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError, TypeError) as error:
        where = getattr(getattr(error, "problem_mark", None), "line", None)
        line = "" if where is None else f" (line {where + 1})"
        raise BadRequest(f"The YAML cannot be read{line}") from error


def _list_lines(
    node: Any, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the place and line of each part below a node, whose merges are resolved."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            yield below, key.start_mark.line + 1
            yield from _list_lines(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield (*path, number), item.start_mark.line + 1
            yield from _list_lines(item, (*path, number))


def _check_size(text: str) -> None:
    """Check the limits on the stream of events, before any value is made."""
    weights: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    nodes = aliases = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, AliasEvent):
            aliases += 1
            if event.anchor not in weights:
                raise BadRequest("The YAML has an alias without an anchor, or of itself")
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
        if nodes > MAX_NODES or aliases > MAX_ALIASES or len(open_) > MAX_DEPTH:
            raise BadRequest("The YAML has too many values or nests too deep")
