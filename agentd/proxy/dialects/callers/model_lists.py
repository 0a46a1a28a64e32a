"""The models that a caller may name, listed as the clients of each dialect expect it."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

METHODS = ("generateContent", "streamGenerateContent")
"""What can be done with a model at the addresses of Gemini."""


class Listed(Struct, frozen=True):
    """A model as callers name it; tokens that nobody knows are ``None``."""

    name: str
    max_output: int | None = None
    """Tokens of a reply, at most."""
    context: int | None = None
    """Tokens of a request, at most."""
    created: int = 0
    """Seconds since 1970; 0, as Anthropic has it, when nobody knows."""


def openai(models: Iterable[Listed]) -> dict[str, object]:
    """The body of ``GET /v1/models``."""
    return {"object": "list", "data": [openai_model(model) for model in models]}


def openai_model(model: Listed) -> dict[str, object]:
    """The body of ``GET /v1/models/{name}``."""
    named = {"id": model.name, "object": "model"}
    return {**named, "created": model.created, "owned_by": "agentd"}


def anthropic(models: Iterable[Listed]) -> dict[str, object]:
    """The body of ``GET /v1/models`` for clients of Anthropic; all models are on one page."""
    listed = list(models)
    return {
        "data": [anthropic_model(model) for model in listed],
        "has_more": False,
        "first_id": listed[0].name if listed else None,
        "last_id": listed[-1].name if listed else None,
    }


def anthropic_model(model: Listed) -> dict[str, object]:
    """The body of ``GET /v1/models/{name}`` for clients of Anthropic."""
    created = datetime.fromtimestamp(model.created, UTC)
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        **_known(max_input_tokens=model.context, max_tokens=model.max_output),
    }


def gemini(models: Iterable[Listed]) -> dict[str, object]:
    """The body of ``GET /v1beta/models``."""
    return {"models": [gemini_model(model) for model in models]}


def gemini_model(model: Listed) -> dict[str, object]:
    """The body of ``GET /v1beta/models/{name}``."""
    return {
        "name": f"models/{model.name}",
        "displayName": model.name,
        **_known(inputTokenLimit=model.context, outputTokenLimit=model.max_output),
        "supportedGenerationMethods": list(METHODS),
    }


def _known(**sizes: int | None) -> dict[str, object]:
    return {name: size for name, size in sizes.items() if size is not None}
