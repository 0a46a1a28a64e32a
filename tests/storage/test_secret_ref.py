"""A secret is itself, in a variable or in a file; a file is read once for each of its states."""

import os
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.secrets import ChannelSecrets
from agentd.llm.endpoint import ChannelTransport
from agentd.storage.secret_ref import resolve_secret


def make_channel(key: str = "", transport: str = "") -> Channel:
    way = ChannelTransport("vpn", transport) if transport else ChannelTransport()
    return Channel(name="a", dialects=("anthropic",), url="https://a.b", key=key, transport=way)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write_file(tmp_path / "key", "sk-one\n")


def write_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_secret_that_needs_no_file_is_there_at_once():
    book = ChannelSecrets({"K": "sk-env"})
    assert book.get(make_channel()) == ""
    assert book.get(make_channel("sk-here")) == "sk-here"
    assert book.get(make_channel("env:K")) == "sk-env"
    assert book.get(make_channel(transport="env:K"), "transport") == "sk-env"


async def fetch_secret(book: ChannelSecrets, asked: Channel) -> str:
    assert book.get(asked) is None
    return await book.fetch(asked)


@pytest.mark.gen_test
async def test_a_file_is_read_once_for_each_of_its_states(key, monkeypatch):
    book, asked = ChannelSecrets({}), make_channel(f"file:{key}")
    assert await fetch_secret(book, asked) == "sk-one"
    monkeypatch.setattr(os, "open", None)
    assert book.get(asked) == "sk-one"
    monkeypatch.undo()
    write_file(key, "sk-two-longer")
    assert await fetch_secret(book, asked) == "sk-two-longer"
    assert book.get(asked) == "sk-two-longer"


@pytest.mark.gen_test
async def test_a_file_that_is_gone_or_open_to_others_gives_no_secret_any_more(key):
    book, asked = ChannelSecrets({}), make_channel(f"file:{key}")
    await book.fetch(asked)
    key.chmod(0o644)
    os.utime(key, (0, 0))  # the clock of some file systems goes on every few milliseconds only
    with pytest.raises(ConfigError, match="others can read"):
        await fetch_secret(book, asked)
    key.unlink()
    with pytest.raises(ConfigError, match=r"^channels\.a\.key: there is no file"):
        await fetch_secret(book, asked)


@pytest.mark.gen_test
async def test_what_is_fetched_may_also_be_no_file():
    assert await ChannelSecrets({}).fetch(make_channel("sk-here")) == "sk-here"


def test_a_secret_that_is_unavailable_is_reported_by_its_place():
    book = ChannelSecrets({})
    with pytest.raises(ConfigError) as caught:
        book.get(make_channel("env:K"))
    assert str(caught.value) == (
        "channels.a.key: the environment variable K is not set; put the supplier's key there"
    )
    with pytest.raises(ConfigError, match=r"^channels\.a\.transport\.url: the environment"):
        book.get(make_channel(transport="env:K"), "transport")


def test_what_is_no_key_is_not_repeated(tmp_path):
    place = write_file(tmp_path / "key", "two hidden words")
    with pytest.raises(ConfigError) as caught:
        resolve_secret(f"file:{place}", {}, "here", "the supplier's")
    assert "hidden" not in str(caught.value)
