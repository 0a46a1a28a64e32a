"""Editors complete code through the gateway, by OpenAI's older address for it."""

from collections.abc import Iterator
from decimal import Decimal

import openai
import pytest

from tests.gateway.conftest import PRICES, GatewaySetup
from tests.gateway.relay.callers import Caller, RunningGateway, running_gateway
from tests.supplier.steps import Answer, Break, Refuse, Say, Tokens

SAID = Answer((Say("a, b):\n    return a + b"),), Tokens(input=1000, output=100))
COST = Decimal(1000 * 3 + 100 * 15) / 10**6
SECRET_URL = "postgres://ann:Xw7-kettle-49@db/x"
both = pytest.mark.parametrize("stream", [False, True])


def prepare(setup: GatewaySetup) -> None:
    """Add a model with a channel that cannot complete, and parameters for one that can."""
    routes = [
        {"channel": name, "model": "scripted-large", "priority": priority}
        for priority, name in enumerate(("messages", "chat"))
    ]
    changed = {"parameters": {"set": {"temperature": 0.1}, "remove": ["logit_bias"]}}
    setup.models.append({"name": "several", "routes": routes, "prices": PRICES, **changed})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(gateway: RunningGateway) -> None:
    gateway.supplier.forget()
    gateway.supplier.requests.clear()


@pytest.fixture
def caller(gateway: RunningGateway) -> Caller:
    """A caller with a key of its own."""
    return gateway.add_caller(limits={"total": "1"})


@pytest.fixture
def client(gateway: RunningGateway, caller: Caller) -> Iterator[openai.OpenAI]:
    with gateway.open_openai_client(caller.key) as made:
        yield made


def complete(
    client: openai.OpenAI, prompt: str = "def add(", *, model: str = "by-chat", stream: bool
) -> str:
    """Return the text that fills the gap."""
    if not stream:
        reply = client.completions.create(model=model, prompt=prompt, suffix="\n", max_tokens=50)
        return reply.choices[0].text
    chunks = client.completions.create(
        model=model, prompt=prompt, suffix="\n", max_tokens=50, stream=True
    )
    texts = []
    for chunk in chunks:
        assert chunk.choices  # the usage that the caller did not ask for is not sent
        texts.append(chunk.choices[0].text)
    return "".join(texts)


@both
def test_a_gap_is_filled_and_paid(
    gateway: RunningGateway, caller: Caller, client: openai.OpenAI, stream: bool
) -> None:
    gateway.supplier.script(SAID)
    assert complete(client, stream=stream) == "a, b):\n    return a + b"
    (request,) = gateway.supplier.requests
    assert request.path == "/v1/completions"
    assert request.body["model"] == "scripted-large"
    assert (request.body["prompt"], request.body["suffix"]) == ("def add(", "\n")
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.endpoint, entry.stream) == ("/v1/completions", stream)
    assert (entry.outcome, entry.cost, entry.estimated) == ("ok", COST, False)


def test_a_usage_that_the_caller_asks_for_is_sent(
    gateway: RunningGateway, client: openai.OpenAI
) -> None:
    gateway.supplier.script(SAID)
    chunks = client.completions.create(
        model="by-chat", prompt="x", stream=True, stream_options={"include_usage": True}
    )
    assert [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage] == [1000]


@both
def test_secrets_are_masked_for_the_supplier_and_restored_for_the_caller(
    gateway: RunningGateway, client: openai.OpenAI, stream: bool
) -> None:
    gateway.supplier.answer_always(
        lambda request: (
            Say(request.body["prompt"], cut=3) if "db/x" in request.body["prompt"] else None
        )
    )
    assert complete(client, SECRET_URL, stream=stream) == SECRET_URL
    (request,) = gateway.supplier.requests
    assert "kettle" not in str(request.body)


@both
def test_a_supplier_that_counts_nothing_is_booked_by_an_estimate(
    gateway: RunningGateway, caller: Caller, client: openai.OpenAI, stream: bool
) -> None:
    gateway.supplier.script(Answer((Say("a, b):\n    return a + b"),), usage=None))
    complete(client, stream=stream)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert entry.estimated
    assert entry.usage.total_input > 1
    assert 1 < entry.usage.total_output <= 50


def test_what_is_reserved_is_all_that_can_be_written(
    gateway: RunningGateway, client: openai.OpenAI
) -> None:
    """Three times 1,000 tokens, each text of a supplier up to the model's own limit."""
    gateway.supplier.script(SAID)
    client.completions.create(model="by-chat", prompt=["a", "b", "c"])
    assert gateway.supplier.requests[0].body["max_tokens"] == 1000
    poor = gateway.add_caller(limits={"total": "0.0449"})
    base = f"{gateway.daemon.url}/v1"
    with openai.OpenAI(api_key=poor.key, base_url=base, max_retries=0) as other:
        with pytest.raises(openai.RateLimitError):
            other.completions.create(model="by-chat", prompt=["a", "b", "c"])
        gateway.supplier.script(SAID)
        other.completions.create(model="by-chat", prompt=["a", "b"])


def test_channels_of_other_dialects_are_passed_over_and_parameters_are_changed(
    gateway: RunningGateway, caller: Caller, client: openai.OpenAI
) -> None:
    gateway.supplier.script(SAID)
    client.completions.create(
        model="several", prompt="x", temperature=0.9, logit_bias={"50256": -100}
    )
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.channel, entry.tries) == ("chat", 1)
    sent = gateway.supplier.requests[0].body
    assert sent["temperature"] == 0.1
    assert "logit_bias" not in sent


@pytest.mark.parametrize("model", ["by-messages", "by-gemini", "by-responses"])
def test_a_model_without_a_channel_that_completes_is_told(
    gateway: RunningGateway, client: openai.OpenAI, model: str
) -> None:
    with pytest.raises(openai.BadRequestError, match="supports this endpoint"):
        complete(client, model=model, stream=False)
    assert gateway.supplier.requests == []


@both
def test_a_suppliers_refusal_is_told(
    gateway: RunningGateway, caller: Caller, client: openai.OpenAI, stream: bool
) -> None:
    gateway.supplier.script(Refuse(400, "No suffix here"))
    with pytest.raises(openai.BadRequestError, match="No suffix here"):
        complete(client, stream=stream)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert (entry.outcome, entry.cost) == ("failed", 0)


def test_a_stream_that_breaks_is_told_and_its_beginning_paid(
    gateway: RunningGateway, caller: Caller, client: openai.OpenAI
) -> None:
    gateway.supplier.script(Answer((Say("one two three four"),), faults=(Break(after=3),)))
    with pytest.raises(openai.APIError, match="aborted its response"):
        complete(client, stream=True)
    (entry,) = gateway.wait_for_records_of(caller, 1)
    assert entry.outcome == "broken"
    assert entry.cost > 0
