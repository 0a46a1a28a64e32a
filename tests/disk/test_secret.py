"""A secret is itself, in a variable or in a file; a file is read once for each of its states."""

import os
from pathlib import Path

import pytest

from agentd.disk.secret import SecretBook, resolve
from agentd.errors import Misconfigured
from agentd.proxy.channel import Channel, Transport


def channel(key: str = "", transport: str = "") -> Channel:
    way = Transport("vpn", transport) if transport else Transport()
    return Channel(name="a", dialects=("anthropic",), url="https://a.b", key=key, transport=way)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return written(tmp_path / "key", "sk-one\n")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_secret_that_needs_no_file_is_there_at_once():
    book = SecretBook({"K": "sk-env"})
    assert book.get(channel()) == ""
    assert book.get(channel("sk-here")) == "sk-here"
    assert book.get(channel("env:K")) == "sk-env"
    assert book.get(channel(transport="env:K"), "transport") == "sk-env"


async def fetched(book: SecretBook, asked: Channel) -> str:
    assert book.get(asked) is None
    return await book.fetch(asked)


@pytest.mark.gen_test
async def test_a_file_is_read_once_for_each_of_its_states(key, monkeypatch):
    book, asked = SecretBook({}), channel(f"file:{key}")
    assert await fetched(book, asked) == "sk-one"
    monkeypatch.setattr(os, "open", None)
    assert book.get(asked) == "sk-one"
    monkeypatch.undo()
    written(key, "sk-two-longer")
    assert await fetched(book, asked) == "sk-two-longer"
    assert book.get(asked) == "sk-two-longer"


@pytest.mark.gen_test
async def test_a_file_that_is_gone_or_open_to_others_gives_no_secret_any_more(key):
    book, asked = SecretBook({}), channel(f"file:{key}")
    await book.fetch(asked)
    key.chmod(0o644)
    os.utime(key, (0, 0))  # the clock of some file systems goes on every few milliseconds only
    with pytest.raises(Misconfigured, match="others can read"):
        await fetched(book, asked)
    key.unlink()
    with pytest.raises(Misconfigured, match=r"^channels\.a\.key: there is no file"):
        await fetched(book, asked)


@pytest.mark.gen_test
async def test_what_is_fetched_may_also_be_no_file():
    assert await SecretBook({}).fetch(channel("sk-here")) == "sk-here"


def test_a_secret_that_is_not_to_be_had_is_told_by_its_place():
    book = SecretBook({})
    with pytest.raises(Misconfigured) as caught:
        book.get(channel("env:K"))
    assert str(caught.value) == (
        "channels.a.key: the environment variable K is not set; put the supplier's key there"
    )
    with pytest.raises(Misconfigured, match=r"^channels\.a\.transport\.url: the environment"):
        book.get(channel(transport="env:K"), "transport")


def test_what_is_no_key_is_not_repeated(tmp_path):
    place = written(tmp_path / "key", "two hidden words")
    with pytest.raises(Misconfigured) as caught:
        resolve(f"file:{place}", {}, "here", "the supplier's")
    assert "hidden" not in str(caught.value)
