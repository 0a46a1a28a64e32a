"""The fallbacks of all gateway models together: each names a model, and none leads in a circle."""

from collections.abc import Iterator, Mapping, Sequence

from agentd.core.errors import suggest_name
from agentd.models.gateway_model import GatewayModel

_LISTS = ("fallbacks", "context_fallbacks", "content_fallbacks")


def validate_fallbacks(
    models: Sequence[GatewayModel],
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each problem: its place below the list of models, and why.

    Only a cycle of one kind of fallbacks is a problem: a small model may overflow to a large one
    that falls back to the small one when it is overloaded. No request tries a model twice.
    """
    names = [model.name for model in models]
    known = frozenset(names)
    for number, model in enumerate(models):
        for field in _LISTS:
            named: tuple[str, ...] = getattr(model, field)
            for which, name in enumerate(named):
                place = (number, field, which)
                if name not in known:
                    near = suggest_name(name, names)
                    yield place, f'"{name}" is none of the models that callers can name{near}'
                elif named.index(name) != which:
                    yield place, f'"{name}" is listed twice; remove one'
    for field in _LISTS:
        named_by: dict[str, tuple[str, ...]] = {}
        for model in models:
            named_by.setdefault(model.name, getattr(model, field))
        if cycle := find_cycle(named_by):
            number = names.index(cycle[0])
            which = named_by[cycle[0]].index(cycle[1])
            yield (number, field, which), f"leads in a circle: {' → '.join(cycle)}"


def find_cycle(named_by: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names on the first cycle, from one back to the same; empty if there is none."""
    finished: set[str] = set()
    for start in named_by:
        path: list[str] = []
        branches = [iter((start,))]
        while branches:
            name = next(branches[-1], None)
            if name is None:
                branches.pop()
                if path:
                    finished.add(path.pop())
            elif name in path:
                return [*path[path.index(name) :], name]
            elif name not in finished:
                path.append(name)
                branches.append(iter(named_by.get(name, ())))
    return []
