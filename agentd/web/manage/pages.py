"""Shapes of pages that tell more than their items, and what may be asked of them."""

from typing import Any, TypeVar

from msgspec import Struct, defstruct

from agentd.errors import BadRequest
from agentd.web.call import Call
from agentd.web.meanings import derived

T = TypeVar("T", bound=str)


class Paged(Struct):
    """What every page has."""

    items: list[Any]
    """Those of this page."""
    next: str
    """The ``cursor`` of the next page; empty: this is the last one."""


def page_of(name: str, view: Any, **more: Any) -> Any:
    """The struct of a page: ``more`` fields by their types, the ``items``, and where to go on."""
    fields = [*more.items(), ("items", list[view]), ("next", str)]
    made = defstruct(name, fields, rename="camel", frozen=True, kw_only=True, module=__name__)
    derived(made, Paged)
    return made


def one_of(call: Call, name: str, known: tuple[T, ...], usual: T) -> T:
    """A query parameter that is one of few words; ``usual`` when absent. ``BadRequest``."""
    value = call.query(name)
    if value is None:
        return usual
    for one in known:
        if one == value:
            return one
    raise BadRequest(f"'{name}' is {value[:40]!r}", f"Known are: {', '.join(known)}.")
