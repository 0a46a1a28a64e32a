"""Requests made to be slow: each takes a size, and says what is tried with it."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

from tests.proxy.secrets.bodies import said
from tests.proxy.secrets.samples import HEX, letters

PERIOD = "QUJD"
FORGED = "SECRET_github_a2b3c4d5e6f7a2b3c4d5e6"


def _key() -> str:
    return f"ghp_{letters(36)}"


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _listed(made: Callable[[], Any], size: int, each: int) -> list[Any]:
    return [made() for _ in range(max(size // each, 1))]


def _tool(arguments: Any) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call]}]}


def _metadata(
    name: Callable[[int], str], value: Callable[[int], Any], count: int
) -> dict[str, Any]:
    return {"model": "m", "metadata": {name(number): value(number) for number in range(count)}}


def _nested(size: int) -> dict[str, Any]:
    text = _key()
    while len(text) < size:
        text = json.dumps({"arguments": text, "more": "x" * len(text)})
    return _tool(text)


def _deep(size: int) -> dict[str, Any]:
    inner: Any = [_key() for _ in range(size // 60)]
    for number in range(100):
        inner = {f"n{number}": inner}
    return {"model": "m", "metadata": inner}


HOSTILE: dict[str, Callable[[int], dict[str, Any]]] = {
    "many strings with a secret in one message": lambda size: {
        "messages": [
            {"content": _listed(lambda: {"type": "text", "text": _key()}, size, 74)},
        ]
    },
    "many messages with a secret": lambda size: {
        "messages": _listed(lambda: {"content": _key()}, size, 60)
    },
    "many secrets in one text": lambda size: said(" ".join(_listed(_key, size, 41))),
    "many passwords": lambda size: said(
        "\n".join(_listed(lambda: f"DB_PASSWORD={letters(10)}", size, 23))
    ),
    "passwords that are told by the members' names": lambda size: _metadata(
        lambda at: f"password{at}", lambda _: letters(9), size // 32
    ),
    "secrets as members' names": lambda size: _metadata(lambda _: _key(), lambda _: 1, size // 46),
    "secrets under a long name": lambda size: {
        "metadata": {"n" * (size // 2): _listed(_key, size // 2, 44)}
    },
    "secrets far down": _deep,
    "base64 that holds a secret and repeats itself": lambda size: said(
        _base64(f"{_key()}  ") + PERIOD * (size // 4)
    ),
    "base64 of much, with a secret in it": lambda size: said(
        _base64(f"{_key()} {letters(size * 3 // 4)}")
    ),
    "much base64 with a secret": lambda size: said(
        "\n".join(_listed(lambda: _base64(f"user:{_key()}"), size, 61))
    ),
    "a secret that repeats itself, in text that does": lambda size: said(
        f"DB_PASSWORD={'aB1' * (size // 12)}\n{'aB1' * (size // 4)}"
    ),
    "secrets that begin alike, in text that does": lambda size: said(
        "\n".join(_listed(lambda: f"DB_PASSWORD={'a1' * 40}{letters(9)}", size // 2, 100))
        + "a1" * (size // 4)
    ),
    "secrets in percent escapes": lambda size: said("%0A".join(_listed(_key, size, 43))),
    "secrets among percent escapes": lambda size: said(
        "\n".join(_listed(lambda: f"%20{_key()}", size, 44))
    ),
    "secrets in arguments": lambda size: _tool(json.dumps(_listed(_key, size, 48))),
    "secrets in JSON in JSON in arguments": lambda size: _tool(
        json.dumps({"a": json.dumps({"b": json.dumps(_listed(_key, size, 52))})})
    ),
    "arguments in arguments": _nested,
    "escapes and nothing else": lambda size: said("\\" * (size // 4) + '"' * (size // 4)),
    "secrets beside escapes": lambda size: said(
        "".join(_listed(lambda: f"\té\\{_key()}", size, 54))
    ),
    "forged placeholders beside secrets": lambda size: said(
        " ".join(_listed(lambda: f"{FORGED} {letters(32, HEX)}", size, 70)) + _key()
    ),
    "addresses with passwords": lambda size: said(
        " ".join(_listed(lambda: f"postgres://u:{letters(9)}@h", size, 26))
    ),
    "private keys": lambda size: said(
        "\n".join(_listed(lambda: f"-----BEGIN PRIVATE KEY-----\n{letters(64)}\n-", size, 96))
    ),
    "a list of next to nothing": lambda size: {"messages": [[]] * (size // 4)},
}
"""By what is tried."""


def all_of(size: int) -> Iterator[tuple[str, bytes]]:
    """Each as a body of about this size."""
    for name, made in HOSTILE.items():
        yield name, json.dumps(made(size)).encode()
