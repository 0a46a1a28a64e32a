"""Requests made to be slow: each takes a size, and says what is tried with it."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

from tests.gateway.secrets.bodies import build_body
from tests.gateway.secrets.samples import HEX, make_letters

PERIOD = "QUJD"
FORGED = "SECRET_github_a2b3c4d5e6f7a2b3c4d5e6"


def _make_key() -> str:
    return f"ghp_{make_letters(36)}"


def _encode_base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _repeat(made: Callable[[], Any], size: int, each: int) -> list[Any]:
    return [made() for _ in range(max(size // each, 1))]


def _build_tool_call(arguments: Any) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call]}]}


def _build_metadata(
    name: Callable[[int], str], value: Callable[[int], Any], count: int
) -> dict[str, Any]:
    return {"model": "m", "metadata": {name(number): value(number) for number in range(count)}}


def _build_nested(size: int) -> dict[str, Any]:
    text = _make_key()
    while len(text) < size:
        text = json.dumps({"arguments": text, "more": "x" * len(text)})
    return _build_tool_call(text)


def _build_deep(size: int) -> dict[str, Any]:
    inner: Any = [_make_key() for _ in range(size // 60)]
    for number in range(100):
        inner = {f"n{number}": inner}
    return {"model": "m", "metadata": inner}


HOSTILE: dict[str, Callable[[int], dict[str, Any]]] = {
    "many strings with a secret in one message": lambda size: {
        "messages": [
            {"content": _repeat(lambda: {"type": "text", "text": _make_key()}, size, 74)},
        ]
    },
    "many messages with a secret": lambda size: {
        "messages": _repeat(lambda: {"content": _make_key()}, size, 60)
    },
    "many secrets in one text": lambda size: build_body(" ".join(_repeat(_make_key, size, 41))),
    "many passwords": lambda size: build_body(
        "\n".join(_repeat(lambda: f"DB_PASSWORD={make_letters(10)}", size, 23))
    ),
    "passwords that are told by the members' names": lambda size: _build_metadata(
        lambda at: f"password{at}", lambda _: make_letters(9), size // 32
    ),
    "secrets as members' names": lambda size: _build_metadata(
        lambda _: _make_key(), lambda _: 1, size // 46
    ),
    "secrets under a long name": lambda size: {
        "metadata": {"n" * (size // 2): _repeat(_make_key, size // 2, 44)}
    },
    "secrets far down": _build_deep,
    "base64 that holds a secret and repeats itself": lambda size: build_body(
        _encode_base64(f"{_make_key()}  ") + PERIOD * (size // 4)
    ),
    "base64 of much, with a secret in it": lambda size: build_body(
        _encode_base64(f"{_make_key()} {make_letters(size * 3 // 4)}")
    ),
    "much base64 with a secret": lambda size: build_body(
        "\n".join(_repeat(lambda: _encode_base64(f"user:{_make_key()}"), size, 61))
    ),
    "a secret that repeats itself, in text that does": lambda size: build_body(
        f"DB_PASSWORD={'aB1' * (size // 12)}\n{'aB1' * (size // 4)}"
    ),
    "secrets that begin alike, in text that does": lambda size: build_body(
        "\n".join(_repeat(lambda: f"DB_PASSWORD={'a1' * 40}{make_letters(9)}", size // 2, 100))
        + "a1" * (size // 4)
    ),
    "secrets in percent escapes": lambda size: build_body("%0A".join(_repeat(_make_key, size, 43))),
    "secrets among percent escapes": lambda size: build_body(
        "\n".join(_repeat(lambda: f"%20{_make_key()}", size, 44))
    ),
    "secrets in arguments": lambda size: _build_tool_call(json.dumps(_repeat(_make_key, size, 48))),
    "secrets in JSON in JSON in arguments": lambda size: _build_tool_call(
        json.dumps({"a": json.dumps({"b": json.dumps(_repeat(_make_key, size, 52))})})
    ),
    "arguments in arguments": _build_nested,
    "escapes and nothing else": lambda size: build_body("\\" * (size // 4) + '"' * (size // 4)),
    "secrets beside escapes": lambda size: build_body(
        "".join(_repeat(lambda: f"\té\\{_make_key()}", size, 54))
    ),
    "forged placeholders beside secrets": lambda size: build_body(
        " ".join(_repeat(lambda: f"{FORGED} {make_letters(32, HEX)}", size, 70)) + _make_key()
    ),
    "addresses with passwords": lambda size: build_body(
        " ".join(_repeat(lambda: f"postgres://u:{make_letters(9)}@h", size, 26))
    ),
    "private keys": lambda size: build_body(
        "\n".join(_repeat(lambda: f"-----BEGIN PRIVATE KEY-----\n{make_letters(64)}\n-", size, 96))
    ),
    "a list of next to nothing": lambda size: {"messages": [[]] * (size // 4)},
}
"""By what is tried."""


def iter_bodies(size: int) -> Iterator[tuple[str, bytes]]:
    """Yield each as a body of about this size."""
    for name, made in HOSTILE.items():
        yield name, json.dumps(made(size)).encode()
