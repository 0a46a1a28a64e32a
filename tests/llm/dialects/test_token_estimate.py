"""Estimated tokens: never too few for text that people and programs write, never none."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.llm.dialects.token_estimate import (
    IMAGE_TOKENS,
    TOOL_PREAMBLE_TOKENS,
    estimate_tokens,
    render_anthropic_count,
    render_gemini_count,
)

PROSE = "The quick brown fox jumps over the lazy dog, and nobody minds. "
CODE = """\
def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
"""


@settings(deadline=None)
@given(st.binary(), st.binary())
def test_more_bytes_are_never_fewer_tokens(some, more):
    assert estimate_tokens(some) <= estimate_tokens(some + more)
    assert estimate_tokens(some + more) >= estimate_tokens(more)


@settings(deadline=None)
@given(st.binary(max_size=50).filter(lambda some: b"tools" not in 2 * some), st.integers(1, 3000))
def test_every_byte_is_worth_what_the_rule_says_however_many_there_are(some, times):
    """Not one is lost where they are added up piece by piece."""
    plain = sum(bytes((byte,)).isalpha() or byte == 0x20 for byte in some)
    foreign = sum(byte > 127 for byte in some)
    sixths = times * (2 * plain + 3 * foreign + 4 * (len(some) - plain - foreign))
    assert estimate_tokens(some * times) == -(-sixths // 6)


@pytest.mark.parametrize("size", [0, 1, 15_999, 16_000, 16_001, 32_000, 1_000_000])
def test_the_dearest_bytes_are_added_up_whole(size):
    assert estimate_tokens(b"1" * size) == -(-size * 4 // 6)


@settings(deadline=None)
@given(st.text(min_size=1))
def test_no_text_is_nothing(text):
    assert 0 < estimate_tokens(text.encode()) <= len(text.encode())


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (PROSE * 100, 1400),  # 14 words and signs each
        (CODE * 100, 2800),  # about 28 each
        ("人工智能正在改变世界。" * 100, 1200),  # 11 characters, about a token each
        ("Съешь ещё этих мягких булок. " * 100, 1100),
        ("🎉" * 100, 200),
        ("1234567890" * 100, 400),  # three digits to a token
        (json.dumps({"path": "/src/a.py", "lines": [1, 20]}) * 100, 1700),
    ],
    ids=["prose", "code", "chinese", "russian", "emoji", "digits", "json"],
)
def test_tokenisers_count_fewer_but_not_by_far(text, counted):
    """``counted``: about what the vendors' tokenisers make of it."""
    assert counted <= estimate_tokens(text.encode()) <= counted * 3


PICTURES = {
    "chat": {"type": "image_url", "image_url": {"url": "data:image/png;base64,%s"}},
    "responses": {"type": "input_image", "image_url": "data:image/png;base64,%s"},
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "%s"},
    },
    "gemini": {"inlineData": {"mimeType": "image/png", "data": "%s"}},
    "gemini underscored": {"inline_data": {"mime_type": "image/png", "data": "%s"}},
    "google's python client": {"inlineData": {"data": "%s", "mime_type": "image/png"}},
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_a_picture_has_one_price_whatever_its_size(picture):
    small, large = (
        estimate_tokens(json.dumps({"content": [picture]}).replace("%s", "QUJD" * size).encode())
        for size in (1, 100_000)
    )
    assert IMAGE_TOKENS < small == large < IMAGE_TOKENS + 150


@pytest.mark.parametrize(
    "picture",
    [
        {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
        {"type": "input_image", "image_url": "https://host/a.png"},
        {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
    ],
)
def test_a_linked_picture_costs_as_much(picture):
    assert (
        IMAGE_TOKENS < estimate_tokens(json.dumps([picture, "image"]).encode()) < IMAGE_TOKENS + 150
    )


def test_each_picture_counts():
    one = PICTURES["chat"]
    assert estimate_tokens(json.dumps([one, one]).encode()) > 2 * IMAGE_TOKENS


@pytest.mark.parametrize(
    "body",
    [
        {"type": "document", "source": {"media_type": "application/pdf", "data": "QUJD" * 3000}},
        {"inlineData": {"mimeType": "audio/wav", "data": "QUJD" * 3000}, "x": "image"},
        {"text": "image data:image/png;base64," + "QUJD" * 3000},
    ],
)
def test_what_is_no_picture_counts_by_its_bytes(body):
    assert estimate_tokens(json.dumps(body).encode()) > 3900


@settings(deadline=None)
@given(st.binary())
def test_what_is_no_json_has_tokens_too(data):
    assert estimate_tokens(data + b"image{") > 0


def test_what_suppliers_say_of_tools_is_counted():
    assert estimate_tokens(b'{"tools":[]}') > TOOL_PREAMBLE_TOKENS


def test_the_answers():
    assert json.loads(render_anthropic_count(7)) == {"input_tokens": 7}
    assert json.loads(render_gemini_count(7)) == {"totalTokens": 7}
