"""The types of the HTTP API for the browser's modules: TypeScript, from the OpenAPI document.

``python -m tests.ui.api_types`` writes ``agentd/ui/static/api.d.ts`` anew.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from agentd.ui.assets import STATIC_FOLDER
from tests.support.daemon import Serving

TYPES = STATIC_FOLDER / "api.d.ts"
COMMAND = "python -m tests.ui.api_types"
_HEAD = f"""\
/**
 * The bodies of the HTTP API, generated from its OpenAPI document: `{COMMAND}`
 */

"""
_PRIMITIVES = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def generate_types(document: dict[str, Any]) -> str:
    """Return the declarations: each named schema, and the answer of each operation."""
    schemas = document["components"]["schemas"]
    parts = [_declare(name, schemas[name]) for name in sorted(schemas)]
    answers = [
        f"  {json.dumps(f'{method.upper()} {path}')}: {answer};\n"
        for path, operations in sorted(document["paths"].items())
        for method, operation in sorted(operations.items())
        if (answer := _find_answer(operation))
    ]
    parts.append(
        "/** What each operation answers when it succeeds. */\n"
        f"export interface Answers {{\n{''.join(answers)}}}\n"
    )
    return _HEAD + "\n".join(parts)


def _declare(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_write(schema)};\n"
    required = set(schema.get("required", ()))
    fields = [
        f"  {_write_name(field)}{'' if field in required else '?'}: {_write(inner)};\n"
        for field, inner in schema["properties"].items()
    ]
    return f"export type {name} = {{\n{''.join(fields)}}};\n"


def _find_answer(operation: dict[str, Any]) -> str:
    """Return the type of the JSON that a success has; empty where it has none of known form."""
    kinds = {
        _write(content["application/json"]["schema"]): None
        for status, answer in sorted(operation["responses"].items())
        if status.startswith("2")
        and "schema" in (content := answer.get("content", {})).get("application/json", {})
    }
    kinds.pop("unknown", None)
    return " | ".join(kinds)


def _write(schema: dict[str, Any]) -> str:  # noqa: PLR0911
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(_write(one) for one in schema[union]))
    kinds = schema.get("type", [])
    if isinstance(kinds, list):
        return " | ".join(_write({**schema, "type": kind}) for kind in kinds) or "unknown"
    if kinds == "array":
        return _write_array(schema)
    if kinds == "object":
        return _write_object(schema)
    return _PRIMITIVES[kinds]


def _write_array(schema: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_write(one) for one in schema['prefixItems'])}]"
    item = _write(schema["items"]) if isinstance(schema.get("items"), dict) else "unknown"
    return f"({item})[]" if " " in item else f"{item}[]"


def _write_object(schema: dict[str, Any]) -> str:
    if "properties" in schema:
        required = set(schema.get("required", ()))
        fields = (
            f"{_write_name(field)}{'' if field in required else '?'}: {_write(inner)}"
            for field, inner in schema["properties"].items()
        )
        return f"{{ {'; '.join(fields)} }}"
    values = schema.get("additionalProperties")
    return f"Record<string, {_write(values) if isinstance(values, dict) else 'unknown'}>"


def _write_name(field: str) -> str:
    return field if re.fullmatch(r"[A-Za-z_$][\w$]*", field) else json.dumps(field)


def main() -> None:
    """Ask a daemon, and write the file."""
    with tempfile.TemporaryDirectory() as folder, Serving(Path(folder)) as daemon:
        document = daemon.client().get("/api/openapi.json").json()
    TYPES.write_text(generate_types(document))


if __name__ == "__main__":
    main()
