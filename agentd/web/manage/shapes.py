"""What goes over the wire of what the gateway's files hold: shapes that are made from the nouns.

A noun such as ``proxy.channel.Channel`` is the schema of its file. On the wire the same fields
are spelled in camel case; what is shown has all of them, what is new has the noun's defaults, and
of a patch any may be absent (it stays) or null (it has its default again). So a field that is
added to a noun is shown, and can be changed, from then on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, defstruct, field, structs

from agentd.errors import BadRequest
from agentd.web.manage.pages import page_of
from agentd.web.meanings import derived

S = TypeVar("S", bound=Struct)

_READ_ONLY: Any = Annotated[Any, Meta(description="Only read: what is sent here is passed over.")]

Spelling: TypeAlias = Literal["camel"] | None


@cache
def shown(kind: type[Struct], *without: str, called: str = "", **more: Any) -> Any:
    """The struct that tells of a ``kind``; ``more`` are further fields, by their types."""
    fields = [(one.name, _mapped(one.type, shown)) for one in _fields(kind, without)]
    return _made(called or f"{kind.__name__}View", [*fields, *more.items()], kind)


@cache
def listed(view: Any) -> Any:
    """The struct of a page: some ``items``, and where to go on (``next``; empty at the end)."""
    return page_of(view.__name__.removesuffix("View") + "Page", view)


@cache
def new(kind: type[Struct], *without: str, spelling: Spelling = "camel") -> Any:
    """The struct of a whole new one; without a ``spelling`` it is as in the file."""
    within = partial(new, spelling=spelling)
    fields = [
        (one.name, _mapped(one.type, within), *_default(one, within))
        for one in _fields(kind, without)
    ]
    ending = "" if spelling else "Setting"  # two spellings are two schemas, with a name each
    return _made(f"New{kind.__name__}{ending}", fields, kind, strict=True, spelling=spelling)


@cache
def patch(
    kind: type[Struct], *without: str, spelling: Spelling = "camel", readonly: tuple[str, ...] = ()
) -> Any:
    """The struct of what is to be another: a struct or map within is patched, not replaced.

    What is ``readonly`` may come along, so that what was read can be sent back, and says nothing.
    """
    fields: list[Any] = [
        (one.name, reduce(or_, (_within(one.type, spelling), None, UnsetType)), UNSET)
        for one in _fields(kind, without)
    ]
    fields += [(name, _READ_ONLY, UNSET) for name in readonly]
    return _made(f"{kind.__name__}Patch", fields, kind, strict=True, spelling=spelling)


def told(noun: Struct, view: Any, **more: object) -> Any:
    """What is shown of a noun, as a ``view`` that ``shown`` made; ``more`` are further fields."""
    values = {name: getattr(noun, name) for name in noun.__struct_fields__} | more
    names = zip(view.__struct_fields__, view.__struct_encode_fields__, strict=True)
    return msgspec.convert({wire: values[name] for name, wire in names}, view, from_attributes=True)


def made(wish: Struct, kind: type[S], **more: object) -> S:
    """The noun of a whole new one. ``BadRequest`` tells what it cannot be."""
    values = {name: getattr(wish, name) for name in wish.__struct_fields__} | more
    with _refused():
        return msgspec.convert(values, kind, from_attributes=True)


def patched(noun: S, changes: Struct) -> S:
    """The noun with what a ``patch`` says. ``BadRequest`` tells what cannot be."""
    values: dict[str, object] = {}
    readonly = {one.name for one in structs.fields(changes) if one.type == _READ_ONLY}
    with _refused():
        for one in structs.fields(noun):
            given = getattr(changes, one.name, UNSET)
            if given is not UNSET and one.name not in readonly:
                values[one.name] = _patched(one, getattr(noun, one.name), given)
        return structs.replace(noun, **values)


def _patched(one: structs.FieldInfo, before: object, given: Any) -> object:
    if given is None:
        if one.required:
            raise ValueError(f"{one.encode_name} cannot be null: it has no default")
        return one.default if one.default_factory is NODEFAULT else one.default_factory()
    if isinstance(before, dict):
        return {name: value for name, value in {**before, **given}.items() if value is not None}
    if isinstance(before, Struct) and type(given).__name__ == f"{type(before).__name__}Patch":
        return patched(before, given)
    return msgspec.convert(given, one.type, from_attributes=True)


def _fields(kind: type[Struct], without: tuple[str, ...]) -> list[structs.FieldInfo]:
    return [one for one in structs.fields(kind) if one.name not in without]


def _made(
    name: str,
    fields: list[Any],
    noun: type[Struct],
    *,
    strict: bool = False,
    spelling: Spelling = "camel",
) -> Any:
    made_ = defstruct(
        name,
        fields,
        rename=spelling,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=strict,
        module=__name__,
    )
    derived(made_, noun)
    return made_


def _mapped(kind: Any, make: Callable[[Any], Any]) -> Any:
    """A field's type, with every struct in it as ``make`` has it."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return make(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(_mapped(inner[0], make), *inner[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, (_mapped(one, make) for one in inner))
    if origin in (tuple, list, dict):
        return origin[tuple(_mapped(one, make) for one in inner)]
    return kind


def _within(kind: Any, spelling: Spelling) -> Any:
    """A field's type in a patch."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return patch(kind, spelling=spelling)
    if get_origin(kind) is Annotated:
        return Annotated[(_within(get_args(kind)[0], spelling), *get_args(kind)[1:])]
    if get_origin(kind) is dict:
        name, value = get_args(kind)
        return dict[name, value | None]  # type: ignore[valid-type]
    return _mapped(kind, partial(new, spelling=spelling))


def _default(one: structs.FieldInfo, new_: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A field's default as ``defstruct`` takes it; nothing where it is required."""
    if one.required:
        return ()
    if isinstance(one.default, Struct):
        return (field(default_factory=new_(type(one.default))),)
    if one.default_factory is not NODEFAULT:
        return (field(default_factory=one.default_factory),)
    return (one.default,)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BadRequest("It cannot be so", str(error)) from error
