"""Bodies as the vendors' own clients make them; nothing is sent."""

from collections.abc import Callable
from typing import Any

import anthropic
import httpx
import httpx2
import openai

KEPT: dict[str, Any] = {"api_key": "sk-x", "base_url": "http://nowhere", "max_retries": 0}


def capture_openai_body(ask: Callable[[openai.OpenAI], object]) -> bytes:
    """Return the body that OpenAI's client would post."""
    bodies: list[bytes] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(400, json={})

    transport = httpx.MockTransport(refuse)
    with openai.OpenAI(**KEPT, http_client=httpx.Client(transport=transport)) as client:
        try:
            ask(client)
        except openai.BadRequestError:
            return bodies[0]
    raise AssertionError("nothing was posted")


def capture_anthropic_body(ask: Callable[[anthropic.Anthropic], object]) -> bytes:
    """Return the body that Anthropic's client would post."""
    bodies: list[bytes] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.content)
        return httpx2.Response(400, json={})

    transport = httpx2.MockTransport(refuse)
    with anthropic.Anthropic(**KEPT, http_client=httpx2.Client(transport=transport)) as client:
        try:
            ask(client)
        except anthropic.BadRequestError:
            return bodies[0]
    raise AssertionError("nothing was posted")
