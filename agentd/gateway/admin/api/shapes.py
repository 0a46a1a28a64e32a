"""Request and response structs derived from the models of the gateway's files.

A model such as ``channels.model.Channel`` is the schema of its file. In JSON the same fields are
in camel case: a view has all of them, a new one has the model's defaults, and in a patch each may
be absent (unchanged) or null (reset to the default). So a field added to a model is shown and can
be changed without further code.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, defstruct, field, structs

from agentd.core.errors import BadRequest
from agentd.gateway.admin.api.pages import define_page_with
from agentd.http.field_docs import inherit_field_docs
from agentd.http.validation_errors import prepend_to_path, spell_path

S = TypeVar("S", bound=Struct)

_READ_ONLY: Any = Annotated[Any, Meta(description="Read-only: ignored in requests.")]

Spelling: TypeAlias = Literal["camel"] | None


@cache
def define_view(kind: type[Struct], *without: str, called: str = "", **more: Any) -> Any:
    """Define the view of a model; ``more`` are further fields, by type."""
    fields = [(one.name, _map_type(one.type, define_view)) for one in _list_fields(kind, without)]
    return _define(called or f"{kind.__name__}View", [*fields, *more.items()], kind)


@cache
def define_page(view: Any) -> Any:
    """Define the struct of a page: ``items`` and ``next`` (empty on the last page)."""
    return define_page_with(view.__name__.removesuffix("View") + "Page", view)


@cache
def define_new(kind: type[Struct], *without: str, spelling: Spelling = "camel") -> Any:
    """Define the request to create one; without a ``spelling``, names are as in the file."""
    within = partial(define_new, spelling=spelling)
    fields = [
        (one.name, _map_type(one.type, within), *_get_default(one, within))
        for one in _list_fields(kind, without)
    ]
    ending = "" if spelling else "Setting"  # two spellings are two schemas, with a name each
    return _define(f"New{kind.__name__}{ending}", fields, kind, strict=True, spelling=spelling)


@cache
def define_patch(
    kind: type[Struct], *without: str, spelling: Spelling = "camel", readonly: tuple[str, ...] = ()
) -> Any:
    """Define the request to change one: nested structs and maps are patched, not replaced.

    ``readonly`` fields are accepted and ignored, so that a view can be sent back.
    """
    fields: list[Any] = [
        (one.name, reduce(or_, (_map_patch_type(one.type, spelling), None, UnsetType)), UNSET)
        for one in _list_fields(kind, without)
    ]
    fields += [(name, _READ_ONLY, UNSET) for name in readonly]
    return _define(f"{kind.__name__}Patch", fields, kind, strict=True, spelling=spelling)


def to_view(noun: Struct, view: Any, **more: object) -> Any:
    """Convert a model to a ``view`` of ``define_view``; ``more`` are further fields."""
    values = {name: getattr(noun, name) for name in noun.__struct_fields__} | more
    names = zip(view.__struct_fields__, view.__struct_encode_fields__, strict=True)
    return msgspec.convert({wire: values[name] for name, wire in names}, view, from_attributes=True)


def from_request(request: Struct, kind: type[S], **more: object) -> S:
    """Convert a request to a new model. ``BadRequest`` if it is invalid."""
    values = {name: getattr(request, name) for name in request.__struct_fields__} | more
    with _convert_value_errors(type(request)):
        return msgspec.convert(values, kind, from_attributes=True)


def apply_patch(noun: S, changes: Struct) -> S:
    """Return the model with a patch applied. ``BadRequest`` if it is invalid."""
    with _convert_value_errors(type(changes)):
        return _apply_fields(noun, changes)


def _apply_fields(noun: S, changes: Struct) -> S:
    values: dict[str, object] = {}
    readonly = {one.name for one in structs.fields(changes) if one.type == _READ_ONLY}
    for one in structs.fields(noun):
        given = getattr(changes, one.name, UNSET)
        if given is not UNSET and one.name not in readonly:
            try:
                values[one.name] = _apply_field(one, getattr(noun, one.name), given)
            except ValueError as error:
                raise ValueError(prepend_to_path(str(error), one.name)) from error
    return structs.replace(noun, **values)


def _apply_field(one: structs.FieldInfo, before: object, given: Any) -> object:
    if given is None:
        if one.required:
            raise ValueError("null is not possible: there is no default")
        return one.default if one.default_factory is NODEFAULT else one.default_factory()
    if isinstance(before, dict):
        merged = {name: value for name, value in {**before, **given}.items() if value is not None}
        return msgspec.convert(merged, one.type, from_attributes=True)
    if isinstance(before, Struct) and type(given).__name__ == f"{type(before).__name__}Patch":
        return _apply_fields(before, given)
    return msgspec.convert(given, one.type, from_attributes=True)


def _list_fields(kind: type[Struct], without: tuple[str, ...]) -> list[structs.FieldInfo]:
    return [one for one in structs.fields(kind) if one.name not in without]


def _define(
    name: str,
    fields: list[Any],
    noun: type[Struct],
    *,
    strict: bool = False,
    spelling: Spelling = "camel",
) -> Any:
    defined = defstruct(
        name,
        fields,
        rename=spelling,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=strict,
        module=__name__,
    )
    inherit_field_docs(defined, noun)
    return defined


def _map_type(kind: Any, make: Callable[[Any], Any]) -> Any:
    """Map a field's type, replacing every struct in it by ``make``."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return make(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(_map_type(inner[0], make), *inner[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, (_map_type(one, make) for one in inner))
    if origin in (tuple, list, dict):
        return origin[tuple(_map_type(one, make) for one in inner)]
    return kind


def _map_patch_type(kind: Any, spelling: Spelling) -> Any:
    """Map a field's type for a patch."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return define_patch(kind, spelling=spelling)
    if get_origin(kind) is Annotated:
        return Annotated[(_map_patch_type(get_args(kind)[0], spelling), *get_args(kind)[1:])]
    if get_origin(kind) is dict:
        name, value = get_args(kind)
        value = _map_type(value, partial(define_new, spelling=spelling))
        return dict[name, value | None]  # type: ignore[valid-type]
    return _map_type(kind, partial(define_new, spelling=spelling))


def _get_default(one: structs.FieldInfo, new_: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return a field's default as ``defstruct`` takes it; empty if it is required."""
    if one.required:
        return ()
    if isinstance(one.default, Struct):
        return (field(default_factory=new_(type(one.default))),)
    if one.default_factory is not NODEFAULT:
        return (field(default_factory=one.default_factory),)
    return (one.default,)


@contextmanager
def _convert_value_errors(kind: type[Struct]) -> Iterator[None]:
    """Convert ``ValueError``, with its path in the names of the request's type."""
    try:
        yield
    except ValueError as error:
        raise BadRequest("Invalid value", spell_path(str(error), kind)) from error
