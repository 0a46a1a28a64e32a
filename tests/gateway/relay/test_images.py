"""Pictures that the vendors' own clients send reach every supplier, in its words, bit by bit."""

import asyncio
import base64
import random
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import CHANNELS, RunningGateway, every_dialect, running_gateway
from tests.supplier.steps import Answer, Say, Tokens

PNG = b"\x89PNG\r\n\x1a\n" + random.Random(5).randbytes(300_000)  # noqa: S311
DATA = base64.b64encode(PNG).decode()
BYTES = f"data:image/png;base64,{DATA}"
ADDRESS = "https://pictures.example/cat.png"
USED = Tokens(input=1500, output=3)
WHAT = "What is it?"

IMAGE = {"type": "base64", "media_type": "image/png", "data": DATA}
TOLD: dict[ChannelDialect, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai-chat": (
        {"type": "image_url", "image_url": {"url": BYTES}},
        {"type": "image_url", "image_url": {"url": ADDRESS}},
    ),
    "openai-responses": (
        {"type": "input_image", "image_url": BYTES},
        {"type": "input_image", "image_url": ADDRESS},
    ),
    "anthropic": (
        {"type": "image", "source": IMAGE},
        {"type": "image", "source": {"type": "url", "url": ADDRESS}},
    ),
    "gemini": (
        {"inlineData": {"mimeType": "image/png", "data": DATA}},
        {"fileData": {"fileUri": ADDRESS}},
    ),
}
"""A picture by its bytes and one by its address, as each supplier is to have it."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.supplier.answer_always(Answer((Say("A cat."),), USED))

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


def get_openai_options(gateway: RunningGateway) -> dict[str, Any]:
    """Return the options for OpenAI's clients."""
    url, key = f"{gateway.daemon.url}/v1", gateway.add_caller().key
    return {"base_url": url, "api_key": key, "max_retries": 0, "timeout": 60}


def get_anthropic_options(gateway: RunningGateway) -> dict[str, Any]:
    """Return the options for Anthropic's clients."""
    url, key = gateway.daemon.url, gateway.add_caller().key
    return {"base_url": url, "api_key": key, "max_retries": 0, "timeout": 60}


def find_pictures(gateway: RunningGateway) -> list[dict[str, Any]]:
    """Find the pictures that the supplier was sent last, and check that they are nowhere else."""
    body = gateway.supplier.requests[-1].body
    assert str(body).count(DATA[:1000]) <= 1
    return list(_iter_pictures(body))


def _iter_pictures(result: Any) -> Iterator[dict[str, Any]]:
    if isinstance(result, list):
        for one in result:
            yield from _iter_pictures(one)
    elif isinstance(result, dict):
        kinds = {"image_url", "input_image", "image"}
        if result.get("type") in kinds or result.keys() & {"inlineData", "fileData"}:
            yield result
        else:
            yield from _iter_pictures(list(result.values()))


def _build_user_message(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@every_dialect
def test_chat_completions(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    for stream in (False, True):
        said = [
            {"type": "text", "text": WHAT},
            {"type": "image_url", "image_url": {"url": BYTES}},
            {"type": "image_url", "image_url": {"url": ADDRESS}},
        ]
        with openai.OpenAI(**get_openai_options(gateway)) as client:
            asked = {"model": f"by-{CHANNELS[dialect]}", "messages": [_build_user_message(said)]}
            if stream:
                with client.chat.completions.stream(**asked) as events:
                    reply = events.get_final_completion()
            else:
                reply = client.chat.completions.create(**asked)
        assert reply.choices[0].message.content == "A cat."
        assert find_pictures(gateway) == [*TOLD[dialect]]
        assert WHAT in str(gateway.supplier.requests[-1].body)


@every_dialect
def test_responses(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    said = [
        {"type": "input_text", "text": WHAT},
        {"type": "input_image", "image_url": BYTES},
        {"type": "input_image", "image_url": ADDRESS},
    ]

    async def ask() -> list[str]:
        asked = {"model": f"by-{CHANNELS[dialect]}", "input": [_build_user_message(said)]}
        async with openai.AsyncOpenAI(**get_openai_options(gateway)) as client:
            async with client.responses.stream(**asked) as events:
                streamed = await events.get_final_response()
            whole = await client.responses.create(**asked)
        return [streamed.output_text, whole.output_text]

    assert asyncio.run(ask()) == ["A cat."] * 2
    assert find_pictures(gateway) == [*TOLD[dialect]]


@every_dialect
def test_messages(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    said = [
        {"type": "image", "source": IMAGE},
        {"type": "image", "source": {"type": "url", "url": ADDRESS}},
        {"type": "text", "text": WHAT},
    ]
    asked = {
        "model": f"by-{CHANNELS[dialect]}",
        "max_tokens": 100,
        "messages": [_build_user_message(said)],
    }

    async def ask() -> str:
        async with (
            anthropic.AsyncAnthropic(**get_anthropic_options(gateway)) as client,
            client.messages.stream(**asked) as events,
        ):
            return await events.get_final_text()

    assert asyncio.run(ask()) == "A cat."
    assert find_pictures(gateway) == [*TOLD[dialect]]
    with anthropic.Anthropic(**get_anthropic_options(gateway)) as client:
        assert client.messages.create(**asked).content[0].text == "A cat."
    assert find_pictures(gateway) == [*TOLD[dialect]]


@every_dialect
def test_a_picture_that_a_tool_gave_back(gateway: RunningGateway, dialect: ChannelDialect) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    given = [{"type": "text", "text": "There it is."}, {"type": "image", "source": IMAGE}]
    back = {"type": "tool_result", "tool_use_id": "toolu_1", "content": given}
    with anthropic.Anthropic(**get_anthropic_options(gateway)) as client:
        reply = client.messages.create(
            model=f"by-{CHANNELS[dialect]}",
            max_tokens=100,
            messages=[
                _build_user_message(WHAT),
                {"role": "assistant", "content": [call]},
                _build_user_message([back]),
            ],
            tools=[{"name": "look", "input_schema": {"type": "object"}}],
        )
    assert reply.content[0].text == "A cat."
    assert find_pictures(gateway) == [TOLD[dialect][0]]
    assert "There it is." in str(gateway.supplier.requests[-1].body)


def test_what_a_supplier_cannot_be_shown_is_refused_with_its_reason(
    gateway: RunningGateway,
) -> None:
    before = len(gateway.supplier.requests)
    drawing = {"url": "data:image/svg+xml;base64,PHN2Zy8+"}
    with (
        openai.OpenAI(**get_openai_options(gateway)) as client,
        pytest.raises(openai.BadRequestError, match="image"),
    ):
        client.chat.completions.create(
            model="by-messages",
            messages=[_build_user_message([{"type": "image_url", "image_url": drawing}])],
        )
    assert len(gateway.supplier.requests) == before


def test_a_picture_is_recorded_as_the_supplier_counts_it(gateway: RunningGateway) -> None:
    caller = gateway.add_caller()
    said = [{"type": "image_url", "image_url": {"url": BYTES}}]
    result = caller.ask(
        "openai-chat", "by-chat", body={"model": "by-chat", "messages": [_build_user_message(said)]}
    )
    entry = gateway.wait_for_record(result)
    assert (entry.usage.input, entry.usage.output) == (1500, 3)
    assert not entry.estimated
    assert not entry.hidden, "the bytes of a picture are no text to look for secrets in"


def test_the_limit_reserves_for_a_picture_what_it_may_count_not_its_bytes(
    gateway: RunningGateway,
) -> None:
    """400,000 letters of base64 are no 400,000 tokens: that would be more than a dollar."""
    caller = gateway.add_caller(limits={"total": "0.20"})
    said = [{"type": "image_url", "image_url": {"url": BYTES}}]
    result = caller.ask(
        "openai-chat", "by-chat", body={"model": "by-chat", "messages": [_build_user_message(said)]}
    )
    assert result.status == 200, result.body
