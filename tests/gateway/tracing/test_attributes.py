"""Attributes of spans: the conventions' names, values that a span can have, and no content."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.ledger.record import RequestRecord, Timings
from agentd.gateway.tracing import attributes
from agentd.llm.price import Usage

OURS = {
    *("request.id", "key.id", "outcome", "attempts", "attempt", "channel", "fallback", "cost"),
    "estimated",
}
counts = st.integers(min_value=0, max_value=2**40)
texts = st.text(max_size=600)

records = st.builds(
    RequestRecord,
    id=texts,
    at=st.just("2026-01-01T00:00:00.000Z"),
    key=texts,
    endpoint=st.just("/v1/chat/completions"),
    model=texts,
    channel=texts,
    fallback=texts,
    tries=counts,
    stream=st.booleans(),
    status=st.integers(200, 599),
    outcome=st.sampled_from(["ok", "refused", "failed", "broken", "left"]),
    error=texts,
    usage=st.builds(
        Usage,
        input=counts,
        cache_read=counts,
        cache_write=counts,
        cache_write_1h=counts,
        output=counts,
        reasoning=counts,
    ),
    cost=st.decimals(0, 10**9, places=9),
    timings=st.builds(Timings, ready=st.floats(0, 1e7), first=st.floats(0, 1e7)),
)


def build_candidate(url: str, dialect: str = "openai-chat") -> Candidate:
    return Candidate(
        model="fast",
        channel=Channel(name="main", url=url, key="sk-secret", dialects=(dialect,)),
        supplier_model="large",
        prices=None,
        is_passthrough=True,
        dialect=dialect,
    )


@given(records)
def test_the_attributes_of_any_request_are_named_and_typed_as_they_must_be(
    record: RequestRecord,
) -> None:
    names = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for name, value in vars(names).items() if name.startswith("GEN_AI_")}
    found = attributes.describe_request(record, "chat", "openai")
    found |= attributes.describe_first_chunk(record, 0.0)
    for name, value in found.items():
        if name.startswith("gen_ai."):
            assert name in known
        else:
            assert name.removeprefix("agentd.") in OURS or name.startswith(("http.", "error."))
        assert isinstance(value, str | bool | int | float)
        assert value != "" or name in ("agentd.request.id", "agentd.key.id")


@given(records)
def test_usage_and_errors_are_those_of_the_record(record: RequestRecord) -> None:
    found = attributes.describe_request(record, "chat", "")
    assert found.get("gen_ai.usage.input_tokens", 0) == record.usage.total_input
    assert found.get("gen_ai.usage.output_tokens", 0) == record.usage.total_output
    assert ("error.type" in found) == (record.outcome != "ok")
    if "agentd.cost" in found:
        assert found["agentd.cost"] == pytest.approx(float(record.cost))
    for name in ("gen_ai.request.model", "agentd.channel", "error.type"):
        assert len(str(found.get(name, ""))) <= attributes.LONGEST_TEXT
    assert attributes.is_failure(record) or record.status < 500


@pytest.mark.parametrize(
    ("url", "dialect", "provider"),
    [
        ("https://api.openai.com/v1", "openai-responses", "openai"),
        ("https://api.anthropic.com", "anthropic", "anthropic"),
        ("https://generativelanguage.googleapis.com", "gemini", "gcp.gemini"),
        ("https://ours.openai.azure.com/openai/v1", "openai-chat", "azure.ai.openai"),
        ("https://api.groq.com/openai/v1", "openai-chat", "groq"),
        ("https://api.mistral.ai/v1", "openai-chat", "mistral_ai"),
        ("https://evilapi.mistral.ai.example.com", "openai-chat", "openai"),
        ("http://127.0.0.1:8000", "anthropic", "anthropic"),
    ],
)
def test_the_provider_is_named_by_its_host_or_its_dialect(
    url: str, dialect: str, provider: str
) -> None:
    assert attributes.name_provider(build_candidate(url, dialect)) == provider


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://api.openai.com/v1", ("api.openai.com", 443)),
        ("http://[::1]:8080", ("::1", 8080)),
        ("http://localhost", ("localhost", 80)),
    ],
)
def test_an_attempt_names_its_server_and_no_key(url: str, place: tuple[str, int]) -> None:
    found = attributes.describe_attempt(build_candidate(url), "chat", 2)
    assert (found["server.address"], found["server.port"]) == place
    assert "sk-secret" not in repr(found)


def test_completions_embeddings_and_counts_are_operations_of_their_own() -> None:
    assert attributes.choose_operation("openai-chat", "completion") == "text_completion"
    assert attributes.choose_operation("openai-chat", "embeddings") == "embeddings"
    assert attributes.choose_operation("gemini", "embeddings") == "embeddings"
    assert attributes.choose_operation("anthropic", "count") == "count_tokens"
    assert attributes.choose_operation("gemini", "reply") == "generate_content"
    assert attributes.choose_operation("openai-responses", "reply") == "chat"


def test_a_cost_is_a_number() -> None:
    record = RequestRecord(
        id="1",
        at="2026-01-01T00:00:00.000Z",
        key="k",
        endpoint="/v1/messages",
        status=200,
        outcome="ok",
        usage=Usage(input=1),
        cost=Decimal("0.000123"),
    )
    assert attributes.describe_request(record, "chat", "")["agentd.cost"] == 0.000123
