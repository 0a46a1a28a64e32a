"""Lists of the models that a caller may use, in the form of each dialect."""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

GEMINI_METHODS = ("generateContent", "streamGenerateContent", "countTokens")
"""The methods of a model at the addresses of Gemini that every model is listed with ..."""

GEMINI_EMBEDDING_METHODS = ("embedContent", "batchEmbedContents")
"""... and those of models for embeddings: which models these are, only their suppliers know."""


class ListedModel(Struct, frozen=True):
    """A model as callers name it; ``None`` for unknown token limits."""

    name: str
    max_output: int | None = None
    """Tokens of a reply, at most."""
    context: int | None = None
    """Tokens of a request, at most."""
    created: int = 0
    """Seconds since 1970; 0, as at Anthropic, if unknown."""


def render_openai_list(models: Iterable[ListedModel]) -> dict[str, object]:
    """Build the body of ``GET /v1/models``."""
    return {"object": "list", "data": [render_openai_model(model) for model in models]}


def render_openai_model(model: ListedModel) -> dict[str, object]:
    """Build the body of ``GET /v1/models/{name}``."""
    named = {"id": model.name, "object": "model"}
    return {**named, "created": model.created, "owned_by": "agentd"}


def render_anthropic_list(models: Iterable[ListedModel]) -> dict[str, object]:
    """Build the body of ``GET /v1/models`` for Anthropic clients; all models are on one page."""
    listed = list(models)
    return {
        "data": [render_anthropic_model(model) for model in listed],
        "has_more": False,
        "first_id": listed[0].name if listed else None,
        "last_id": listed[-1].name if listed else None,
    }


def render_anthropic_model(model: ListedModel) -> dict[str, object]:
    """Build the body of ``GET /v1/models/{name}`` for Anthropic clients."""
    created = datetime.fromtimestamp(model.created, UTC)
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        **_drop_unknown(max_input_tokens=model.context, max_tokens=model.max_output),
    }


def render_gemini_list(models: Iterable[ListedModel]) -> dict[str, object]:
    """Build the body of ``GET /v1beta/models``."""
    return {"models": [render_gemini_model(model) for model in models]}


def render_gemini_model(model: ListedModel) -> dict[str, object]:
    """Build the body of ``GET /v1beta/models/{name}``."""
    return {
        "name": f"models/{model.name}",
        "displayName": model.name,
        **_drop_unknown(inputTokenLimit=model.context, outputTokenLimit=model.max_output),
        "supportedGenerationMethods": list(GEMINI_METHODS),
    }


def _drop_unknown(**sizes: int | None) -> dict[str, object]:
    return {name: size for name, size in sizes.items() if size is not None}
