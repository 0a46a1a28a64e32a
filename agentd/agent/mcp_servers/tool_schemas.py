"""The schemas of servers' tools, in a form that suppliers take. Pure."""

import re
from collections.abc import Iterator, Mapping, Set
from hashlib import sha256

import msgspec

from agentd.agent.mcp_servers.schema_repairs import repair_object

LARGEST_SCHEMA = 24_000
"""Bytes of a tool's schema as JSON."""
DEEPEST_SCHEMA = 64
"""Objects and lists within each other; far deeper ones could not be written to a supplier."""
_ALTERNATIVES = ("anyOf", "oneOf")
_REFUSED = (*_ALTERNATIVES, "allOf", "not", "enum")
"""Keywords for which suppliers refuse a schema, at its top, and with it the whole request."""
_NAME = re.compile("[A-Za-z0-9_.-]{1,64}")
"""The property names at a schema's top for which no supplier refuses it."""
_ODD = re.compile("[^A-Za-z0-9_.-]")


def fit_schema(given: Mapping[str, object]) -> dict[str, object]:
    """Return an object's schema without alternatives at its top: it has the properties of all.

    Only what each alternative requires is required; the rest is for the server to say. One that
    is too large or too deep, or no object's, becomes that of any object. One without a type is
    taken for an object's, as arguments are never anything else.
    """
    given = {"type": "object", **given}
    if given["type"] != "object" or not _is_of_a_fit_size(given):
        return {"type": "object", "properties": {}}
    given = repair_object(given)
    parts = [given, *_iter_branches(given, "allOf")]
    required = [name for one in parts for name in _list_required(one)]
    for kind in _ALTERNATIVES:
        branches = list(_iter_branches(given, kind))
        if branches:
            required += sorted(set.intersection(*(set(_list_required(one)) for one in branches)))
        parts += branches
    properties: dict[str, object] = {}
    for one in parts:
        for name, described in _get_properties(one).items():
            properties.setdefault(name, described)
    dropped = ("$schema", "required", *_REFUSED)
    kept = {key: value for key, value in given.items() if key not in dropped}
    more = {"required": list(dict.fromkeys(required))} if required else {}
    return {**kept, "properties": properties, **more}


def _is_of_a_fit_size(given: Mapping[str, object]) -> bool:
    try:
        size = len(msgspec.json.encode(given))
    except RecursionError:
        return False
    if size > LARGEST_SCHEMA:
        return False
    level: list[object] = [given]
    for _ in range(DEEPEST_SCHEMA):
        level = [inner for one in level for inner in _list_inner(one)]
    return not level


def _list_inner(value: object) -> list[object]:
    """Return the objects and lists directly within a value."""
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in found if isinstance(one, dict | list)]


def rename_properties(
    schema: Mapping[str, object],
) -> tuple[dict[str, object], dict[str, str]]:
    """Return a schema with property names that every supplier takes, and the true ones by these.

    A name such as ``$filter`` or ``filter[id]`` would else make it refuse the whole request. The
    true name is the title of what is renamed, so that a model recognizes it.
    """
    properties = _get_properties(schema)
    known = {name for name in properties if _NAME.fullmatch(name)}
    renamed: dict[str, str] = {}
    for name in properties:
        if name not in known:
            renamed[_make_name(name, known | renamed.keys())] = name
    if not renamed:
        return dict(schema), {}
    made = {true: name for name, true in renamed.items()}
    fitted: dict[str, object] = {
        made.get(name, name): {"title": name, **described}
        if name in made and isinstance(described, dict)
        else described
        for name, described in properties.items()
    }
    required = [made.get(name, name) for name in _list_required(schema)]
    more = {"required": required} if "required" in schema else {}
    return {**schema, "properties": fitted, **more}, renamed


def _make_name(name: str, taken: Set[str]) -> str:
    made = _ODD.sub("_", name)
    if _NAME.fullmatch(made) and made not in taken:
        return made
    digest = sha256(name.encode(errors="replace")).hexdigest()[:12]
    return f"{made[:51]}_{digest}"


def _iter_branches(schema: Mapping[str, object], name: str) -> Iterator[Mapping[str, object]]:
    """Yield the different parts of an alternative; those that are written elsewhere, from there.

    One that many refer to counts once, so that the work grows with the size of the schema alone.
    """
    found = schema.get(name)
    listed = found if isinstance(found, list) else ()
    parts = [_resolve(schema, one) for one in listed if isinstance(one, dict)]
    yield from {id(one): one for one in parts}.values()


def _resolve(schema: Mapping[str, object], one: Mapping[str, object]) -> Mapping[str, object]:
    place = one.get("$ref")
    if not isinstance(place, str) or not place.startswith("#/"):
        return one
    found: object = schema
    for name in place.removeprefix("#/").split("/"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _get_properties(schema: Mapping[str, object]) -> Mapping[str, object]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _list_required(schema: Mapping[str, object]) -> list[str]:
    found = schema.get("required")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
