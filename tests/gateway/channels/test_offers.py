"""Asking a channel's supplier for its models: the way there, and what is told of failures."""

import asyncio
from typing import Any

import pytest

from agentd.core.errors import ConfigError, ConfigProblem, Unavailable
from agentd.gateway.channels import offers
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.offers import list_offered_models

KEY = "canary-0123456789"
CHANNEL = Channel(
    name="acme", dialects=("anthropic",), url="https://api.acme.example", keys=("one", "two")
)


class FailingUpstream:
    """Raises an error that holds the key, or never answers."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def send(self, request: Any) -> "FailingUpstream":
        """Take a request."""
        return self

    async def __aenter__(self) -> None:
        if self._error:
            raise self._error
        await asyncio.Event().wait()

    async def __aexit__(self, *_: object) -> None:
        pass


def ask(error: Exception | None) -> Unavailable:
    """Ask for the models, and return why they cannot be listed."""

    async def reach(channel: Channel, field: str) -> tuple[Any, str]:
        assert (channel, field) == (CHANNEL, "keys[0]")
        return FailingUpstream(error), KEY

    with pytest.raises(Unavailable) as raised:
        asyncio.run(list_offered_models(reach, CHANNEL))
    return raised.value


def test_an_error_names_the_channel_and_never_holds_its_key() -> None:
    told = ask(Unavailable(f"{KEY}\x1b is refused"))
    assert told.message.startswith('The models of channel "acme" cannot be listed: ***')
    assert KEY not in f"{told.message}{told.details}"
    assert "\x1b" not in told.message


def test_a_supplier_that_does_not_answer_is_waited_for_no_longer_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offers, "SECONDS", 0.01)
    assert "takes longer than 0.01 s" in ask(None).message


def test_a_secret_that_cannot_be_read_is_told() -> None:
    async def reach(channel: Channel, field: str) -> tuple[Any, str]:
        raise ConfigError([ConfigProblem("channels.yml", 1, "NAME is not set")])

    with pytest.raises(Unavailable, match="cannot be listed"):
        asyncio.run(list_offered_models(reach, CHANNEL))
