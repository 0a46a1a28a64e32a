"""Shapes of pages that tell more than their items, and what may be asked of them."""

from typing import Any, TypeVar

from msgspec import defstruct

from agentd.errors import BadRequest
from agentd.web.call import Call

T = TypeVar("T", bound=str)


def page_of(name: str, view: Any, **more: Any) -> Any:
    """The struct of a page: ``more`` fields by their types, the ``items``, and where to go on."""
    fields = [*more.items(), ("items", list[view]), ("next", str)]
    return defstruct(name, fields, rename="camel", frozen=True, kw_only=True, module=__name__)


def one_of(call: Call, name: str, known: tuple[T, ...], usual: T) -> T:
    """A query parameter that is one of few words; ``usual`` when absent. ``BadRequest``."""
    value = call.query(name)
    if value is None:
        return usual
    for one in known:
        if one == value:
            return one
    raise BadRequest(f"'{name}' is {value[:40]!r}", f"Known are: {', '.join(known)}.")
