"""The self-description as Markdown, for people and language models."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import UNSET

from agentd.gateway.admin.api.agent_view import BodyView, EndpointView, ManagementView


def render_markdown(agent: ManagementView) -> str:
    """Render everything except the schemas, with a pointer to where they are."""
    return "\n".join(_iter_lines(agent)) + "\n"


def _iter_lines(agent: ManagementView) -> Iterator[str]:
    yield f"# {agent.name} {agent.version}\n\n> {agent.summary}"
    yield f"\nYou are `{agent.caller.name}`, with the scope `{agent.caller.scope}`."
    yield from _list("How to sign in", agent.sign_in)
    yield from _list("Concepts", (f"**{one.name}**: {one.meaning}" for one in agent.concepts))
    yield from _list("Secrets", agent.secrets)
    yield from _list("Conventions", agent.conventions)
    yield "\n## Recipe\n\n`${name}` stands for a variable:\n"
    for variable in agent.recipe.variables:
        usual = "" if variable.default is UNSET else f" Usually `{_encode_json(variable.default)}`."
        yield f"- `{variable.name}`: {variable.meaning}{usual}"
    for number, step in enumerate(agent.recipe.steps, start=1):
        yield f"\n{number}. {step.title}\n\n```http\n{step.method} {step.path}"
        yield from (f"{name}: {value}" for name, value in step.headers.items())
        if step.body is not None:
            yield f"Content-Type: application/json\n\n{_encode_json(step.body)}"
        yield f"```\n\nExpect {step.expect.status}."
        yield from (
            f"Expect `{_encode_json(it)}` at `{at}`." for at, it in step.expect.where.items()
        )
        yield from (f"Save `{name}` from `{place}`." for name, place in step.save.items())
    yield f"\n## Endpoints\n\nSchemas: `GET {agent.openapi}`, or this endpoint as JSON."
    for address in agent.endpoints:
        yield from _iter_endpoint_lines(address, agent.schemas)


def _iter_endpoint_lines(address: EndpointView, schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### `{address.method} {address.path}`\n\n{address.summary}\n"
    if address.scopes:
        yield f"- scope of a management key: {' or '.join(address.scopes)}"
    for one in address.parameters:
        yield f"- `{one.name}` ({one.where}): {one.description or 'which one'}"
    for body in address.body:
        yield f"- body: {_describe_body(body)}"
        yield from _iter_field_lines(body.schema, schemas)
    bodies = ", ".join(map(_describe_body, address.response)) or "no body"
    yield f"- response {address.status}: {bodies}"
    yield from (f"- {one.status} {one.error}: {one.meaning}" for one in address.errors)


def _iter_field_lines(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over the fields of a body, one line each; nested structs are in the schemas."""
    named = schemas.get(str(schema.get("$ref", "")).rpartition("/")[2], schema)
    required = named.get("required", ())
    for name, field in named.get("properties", {}).items():
        must = ", required" if name in required else ""
        meaning = field.get("description", "")
        yield f"  - `{name}` ({_describe_type(field)}{must}){f': {meaning}' if meaning else ''}"


def _describe_type(field: Mapping[str, Any]) -> str:
    """Describe a type, such as ``string or null``."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return " or ".join(map(_encode_json, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_describe_type(field.get('items', {}))}"
    parts = [_describe_type(one) for one in (*field.get("anyOf", ()), *field.get("oneOf", ()))]
    return " or ".join(dict.fromkeys(parts)) or str(field.get("type", "anything"))


def _describe_body(body: BodyView) -> str:
    name = str(body.schema.get("$ref", "")).rpartition("/")[2]
    example = "" if body.example is UNSET else f", such as `{_encode_json(body.example)}`"
    return f"`{body.type}`{f' {name}' if name else ''}{example}"


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield from (f"- {one}" for one in items)


def _encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
