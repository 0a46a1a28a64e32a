"""Structs of pages with more fields than their items, and parsing of choices."""

from typing import Any

from msgspec import Struct, defstruct

from agentd.http.field_docs import inherit_field_docs


class PageFields(Struct):
    """Fields of every page."""

    items: list[Any]
    """The items of this page."""
    next: str
    """The ``cursor`` of the next page; empty if this is the last page."""


def define_page_with(name: str, view: Any, **more: Any) -> Any:
    """Define the struct of a page: ``more`` fields by type, ``items`` and ``next``."""
    fields = [*more.items(), ("items", list[view]), ("next", str)]
    made = defstruct(name, fields, rename="camel", frozen=True, kw_only=True, module=__name__)
    inherit_field_docs(made, PageFields)
    return made
