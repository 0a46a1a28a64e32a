"""Shapes of pages that tell more than their items."""

from typing import Any

from msgspec import defstruct


def page_of(name: str, view: Any, **more: Any) -> Any:
    """The struct of a page: ``more`` fields by their types, the ``items``, and where to go on."""
    fields = [*more.items(), ("items", list[view]), ("next", str)]
    return defstruct(name, fields, rename="camel", frozen=True, kw_only=True, module=__name__)
