"""Embeddings for the clients of OpenAI and Google, whichever of both their supplier is."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import openai
import pytest
from google import genai
from google.genai import errors, types

from tests.gateway.conftest import PRICES, SECRET, GatewaySetup
from tests.gateway.relay.callers import Caller, RunningGateway, running_gateway
from tests.supplier.embeddings import embed

BATCH = "/v1beta/models/scripted-large:batchEmbedContents"
TEXTS = ["Hello", "How are you?", "x"]
VECTORS = [embed(text, place) for place, text in enumerate(TEXTS)]
COUNT = sum(map(len, TEXTS))
every_channel = pytest.mark.parametrize("model", ["by-chat", "by-google"])


def prepare(setup: GatewaySetup) -> None:
    """Add a model whose first channel has no embeddings, and whose second one does not answer.

    Google's client makes one content of all texts if the model's name has "gemini" in it.
    """
    route = {"channel": "gemini", "model": "scripted-large"}
    setup.models.append({"name": "by-google", "routes": [route], "prices": PRICES})
    dead = setup.build_channel("dead", "openai-chat") | {"url": "http://127.0.0.1:9"}
    setup.channels.append(dead)
    names = ("messages", "dead", "gemini")
    routes = [
        {"channel": name, "model": "scripted-large", "priority": priority}
        for priority, name in enumerate(names)
    ]
    setup.models.append({"name": "several", "routes": routes, "prices": PRICES})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.others.clear()
    gateway.supplier.documents.clear()
    gateway.supplier.counts_embeddings = True


@pytest.fixture
def caller(gateway: RunningGateway) -> Caller:
    """A caller with a key of its own."""
    return gateway.add_caller()


@pytest.fixture
def openai_client(gateway: RunningGateway, caller: Caller) -> Iterator[openai.OpenAI]:
    with gateway.open_openai_client(caller.key) as made:
        yield made


@pytest.fixture
def google_client(gateway: RunningGateway, caller: Caller) -> Iterator[genai.Client]:
    with gateway.open_google_client(caller.key) as made:
        yield made


@pytest.fixture
def http_client(gateway: RunningGateway, caller: Caller) -> Iterator[httpx.Client]:
    """A client of either dialect."""
    headers = {"x-goog-api-key": caller.key}
    with httpx.Client(base_url=gateway.daemon.url, headers=headers, trust_env=False) as made:
        yield made


def check_record(gateway: RunningGateway, caller: Caller, tokens: int = COUNT) -> None:
    """Check that one request was recorded, at the price of its tokens."""
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.status, entry.estimated) == ("ok", 200, False)
    assert entry.usage.total_input == tokens
    assert entry.usage.total_output == 0
    assert entry.cost == Decimal(3) * tokens / 10**6


@every_channel
def test_openais_client(
    gateway: RunningGateway, caller: Caller, openai_client: openai.OpenAI, model: str
) -> None:
    reply = openai_client.embeddings.create(model=model, input=TEXTS)
    assert [one.embedding for one in sorted(reply.data, key=lambda one: one.index)] == VECTORS
    assert reply.usage.prompt_tokens == COUNT
    check_record(gateway, caller)
    short = openai_client.embeddings.create(
        model=model, input="Hello", dimensions=2, encoding_format="float"
    )
    assert short.data[0].embedding == [5, 0]


@every_channel
def test_googles_client(
    gateway: RunningGateway, caller: Caller, google_client: genai.Client, model: str
) -> None:
    reply = google_client.models.embed_content(model=model, contents=TEXTS)  # type: ignore[arg-type]
    assert reply.embeddings
    assert [one.values for one in reply.embeddings] == VECTORS
    check_record(gateway, caller)
    config = types.EmbedContentConfig(output_dimensionality=2, task_type="RETRIEVAL_QUERY")
    short = google_client.models.embed_content(model=model, contents="Hello", config=config)
    assert short.embeddings
    assert short.embeddings[0].values == [5, 0]
    sent = gateway.supplier.others[-1].body
    assert ("taskType" in str(sent)) == (model == "by-google")


@every_channel
@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_one_text_at_either_of_geminis_addresses(
    http_client: httpx.Client, model: str, version: str
) -> None:
    body = {"content": {"parts": [{"text": "Hello"}]}, "taskType": "CLUSTERING"}
    reply = http_client.post(f"/{version}/models/{model}:embedContent", json=body)
    assert reply.status_code == 200
    assert reply.json()["embedding"] == {"values": embed("Hello", 0)}
    dropped = "taskType" if model == "by-chat" else None
    assert reply.headers.get("x-agentd-dropped") == dropped


@every_channel
def test_a_supplier_that_counts_nothing_is_booked_by_an_estimate(
    gateway: RunningGateway, caller: Caller, openai_client: openai.OpenAI, model: str
) -> None:
    gateway.supplier.counts_embeddings = False
    openai_client.embeddings.create(model=model, input=TEXTS)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert entry.estimated
    assert entry.usage.total_input >= COUNT / 4
    assert entry.cost == Decimal(3) * entry.usage.total_input / 10**6


def test_secrets_are_masked_on_the_way_to_either_supplier(
    gateway: RunningGateway, openai_client: openai.OpenAI, google_client: genai.Client
) -> None:
    secret = "postgres://ann:Xw7-kettle-49@db/x"
    openai_client.embeddings.create(model="by-google", input=["see", secret])
    google_client.models.embed_content(model="by-google", contents=secret)
    google_client.models.embed_content(model="by-chat", contents=secret)
    sent = [str(request.body) for request in gateway.supplier.others]
    assert len(sent) == 3
    assert all("kettle" not in body and "postgres://ann:" in body for body in sent)


def test_channels_without_embeddings_are_passed_over_and_a_failed_one_replaced(
    gateway: RunningGateway, caller: Caller, openai_client: openai.OpenAI
) -> None:
    reply = openai_client.embeddings.create(model="several", input=TEXTS)
    assert [one.embedding for one in reply.data] == VECTORS
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.channel, [one.channel for one in entry.failed_tries]) == ("gemini", ["dead"])


@pytest.mark.parametrize("model", ["by-messages", "by-responses"])
def test_a_model_without_a_channel_for_embeddings_is_told(
    openai_client: openai.OpenAI, google_client: genai.Client, model: str
) -> None:
    with pytest.raises(openai.BadRequestError, match="supports this endpoint"):
        openai_client.embeddings.create(model=model, input="Hello")
    with pytest.raises(errors.ClientError, match="supports this endpoint"):
        google_client.models.embed_content(model=model, contents="Hello")


def test_tokens_are_refused_where_the_supplier_takes_texts(
    gateway: RunningGateway, caller: Caller, openai_client: openai.OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError, match="takes texts only"):
        openai_client.embeddings.create(model="by-google", input=[1, 2, 3])
    assert gateway.supplier.others == []
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.cost) == ("refused", 0)


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        ((400, {"error": {"code": 400, "message": "Too many", "status": "INVALID_ARGUMENT"}}),
         400, "Too many"),
        ({"error": {"message": "Not so", "status": "INVALID_ARGUMENT"}}, 400, "Not so"),
        ({"embeddings": []}, 502, "0 vectors for 3 texts"),
        (b"<html>", 502, "not a JSON object"),
    ],
)  # fmt: skip
def test_what_a_supplier_says_instead_of_vectors_is_told(
    gateway: RunningGateway,
    caller: Caller,
    openai_client: openai.OpenAI,
    document: Any,
    status: int,
    words: str,
) -> None:
    gateway.supplier.documents[BATCH] = document
    with pytest.raises(openai.APIStatusError) as caught:
        openai_client.embeddings.create(model="by-google", input=TEXTS)
    assert caught.value.status_code == status
    assert words in str(caught.value)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.cost) == ("failed", 0)


def test_a_suppliers_key_never_reaches_the_caller(
    gateway: RunningGateway, openai_client: openai.OpenAI
) -> None:
    told = {"error": {"code": 400, "message": f"Bad key {SECRET}", "status": "INVALID_ARGUMENT"}}
    gateway.supplier.documents[BATCH] = (400, told)
    with pytest.raises(openai.APIStatusError) as caught:
        openai_client.embeddings.create(model="by-google", input=TEXTS)
    assert SECRET not in str(caught.value)


def test_a_request_of_google_for_another_model_than_its_url_is_refused(
    gateway: RunningGateway, http_client: httpx.Client
) -> None:
    body = {"requests": [{"model": "models/other", "content": {"parts": [{"text": "Hello"}]}}]}
    reply = http_client.post("/v1beta/models/by-google:batchEmbedContents", json=body)
    assert reply.status_code == 400
    assert "models/other" in reply.json()["error"]["message"]
    assert gateway.supplier.others == []


def test_a_spent_key_embeds_nothing(gateway: RunningGateway) -> None:
    caller = gateway.add_caller(limits={"total": "0.00000001"})
    with (
        gateway.open_openai_client(caller.key) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.embeddings.create(model="by-google", input=TEXTS)
    assert caught.value.status_code == 429
    assert gateway.supplier.others == []
