"""The attributes of spans, by OpenTelemetry's semantic conventions for generative AI. Pure.

Never content: names, counts, kinds of errors and times only. What is not in the conventions begins
with ``agentd.``.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from agentd.gateway.channels.routing import Candidate
from agentd.gateway.ledger.record import Outcome, RequestRecord
from agentd.llm.endpoint import ChannelDialect

Attribute: TypeAlias = str | bool | int | float | Sequence[str]
"""A value that a span can have."""

Operation: TypeAlias = Literal[
    "chat", "text_completion", "generate_content", "embeddings", "count_tokens"
]
"""``count_tokens`` is not one of the conventions'."""

LONGEST_TEXT = 256
"""Characters of a text; a caller may send any text as the name of a model."""

_PROVIDERS: Mapping[ChannelDialect, str] = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
}
"""The provider to name for a host that is not known, by the dialect that it speaks."""

_HOSTS = {
    "amazonaws.com": "aws.bedrock",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.cohere.com": "cohere",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
}
"""Providers by the end of their hosts' names."""

_CALLER_GONE: Mapping[Outcome, str] = {"left": "client_disconnected"}


def choose_operation(dialect: ChannelDialect, kind: str) -> Operation:
    """Return the operation of an endpoint, by its dialect and its ``GatewayEndpoint.kind``."""
    if kind == "embeddings":
        return "embeddings"
    if kind == "completion":
        return "text_completion"
    if kind == "count":
        return "count_tokens"
    return "generate_content" if dialect == "gemini" else "chat"


def name_span(operation: Operation, model: str) -> str:
    """Return the name of a span."""
    return f"{operation} {model[:LONGEST_TEXT]}" if model else operation


def name_provider(candidate: Candidate) -> str:
    """Return the conventions' name of a channel's provider."""
    host = urlsplit(candidate.channel.url).hostname or ""
    for end, provider in _HOSTS.items():
        if host == end or host.endswith(f".{end}"):
            return provider
    return _PROVIDERS[candidate.dialect]


def describe_attempt(
    candidate: Candidate, operation: Operation, number: int
) -> dict[str, Attribute]:
    """Return the attributes of the call of a channel, the ``number``-th of its request."""
    address = urlsplit(candidate.channel.url)
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": name_provider(candidate),
        "gen_ai.request.model": candidate.supplier_model[:LONGEST_TEXT],
        "server.address": address.hostname or "",
        "server.port": address.port or (443 if address.scheme == "https" else 80),
        "agentd.channel": candidate.channel.name,
        "agentd.attempt": number,
    }


def describe_request(
    record: RequestRecord, operation: Operation, provider: str
) -> dict[str, Attribute]:
    """Return the attributes of a request that ended; ``provider``: of the last call, or empty."""
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": operation,
        "gen_ai.request.stream": record.stream,
        "http.request.method": "POST",
        "http.route": record.endpoint,
        "http.response.status_code": record.status,
        "agentd.request.id": record.id,
        "agentd.key.id": record.key,
        "agentd.outcome": record.outcome,
        "agentd.attempts": record.tries,
    }
    for name, text in (
        ("gen_ai.request.model", record.model),
        ("gen_ai.provider.name", provider),
        ("agentd.channel", record.channel),
        ("agentd.fallback", record.fallback),
        ("error.type", name_error(record)),
    ):
        if text:
            attributes[name] = text[:LONGEST_TEXT]
    return attributes | _describe_usage(record)


def describe_first_chunk(record: RequestRecord, begun: float) -> dict[str, Attribute]:
    """Return the time to the first token of a stream, in seconds.

    ``begun``: the milliseconds after which the span began that is described.
    """
    if not (record.stream and record.timings.first):
        return {}
    seconds = max(record.timings.first - begun, 0.0) / 1000
    return {"gen_ai.response.time_to_first_chunk": round(seconds, 5)}


def describe_reply(model: str, finish_reasons: Sequence[str]) -> dict[str, Attribute]:
    """Return what the reply says of itself."""
    attributes: dict[str, Attribute] = {}
    if model:
        attributes["gen_ai.response.model"] = model[:LONGEST_TEXT]
    if finish_reasons:
        attributes["gen_ai.response.finish_reasons"] = tuple(finish_reasons)
    return attributes


def name_error(record: RequestRecord) -> str:
    """Return ``error.type``; empty for a request that succeeded."""
    if record.outcome == "ok":
        return ""
    return record.error or _CALLER_GONE.get(record.outcome, record.outcome)


def is_failure(record: RequestRecord) -> bool:
    """Return whether the request's span has the status of an error: it is not the caller's."""
    return record.outcome in ("failed", "broken") or record.status >= 500


def _describe_usage(record: RequestRecord) -> dict[str, Attribute]:
    """Return the tokens and the cost, once for a request: sums over all spans are right."""
    usage = record.usage
    if not (usage.total_input or usage.total_output):
        return {}
    attributes: dict[str, Attribute] = {
        "gen_ai.usage.input_tokens": usage.total_input,
        "gen_ai.usage.output_tokens": usage.total_output,
        "agentd.cost": float(record.cost),
        "agentd.estimated": record.estimated,
    }
    for name, count in (
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write + usage.cache_write_1h),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning),
    ):
        if count:
            attributes[name] = count
    return attributes
