"""A gateway for tests in the browser, whose scripted supplier has answered some requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.conftest import PRICES, GatewaySetup
from tests.supplier.steps import Answer, Say, Step, Tokens
from tests.supplier.supplier import Supplier
from tests.support.daemon import Client, Engine, Serving

HOSTILE = "<img src=x onerror=window.hit=1>"
STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
"""What the built-in rules take for a secret."""


class GatewaySite:
    """A daemon whose gateway has answered some requests."""

    def __init__(self, setup: GatewaySetup, serving: Serving, keys: dict[str, str]) -> None:
        self.setup = setup
        self.supplier = setup.supplier
        self.serving = serving
        self.keys = keys
        """The access keys themselves, by name."""
        self.ids = dict(zip(keys, setup.keys, strict=True))
        self.admin: Client = serving.administrator()

    def ask(
        self, model: str = "by-chat", key: str = "laptop", text: str = "Hello", **more: Any
    ) -> httpx.Response:
        """Send a request, and return what it was answered."""
        return httpx.post(
            f"{self.serving.url}/v1/chat/completions",
            json={"model": model, "messages": [{"role": "user", "content": text}], **more},
            headers={"Authorization": f"Bearer {self.keys[key]}"},
            timeout=60,
        )

    def requests(self, query: str = "") -> list[dict[str, Any]]:
        """Return the first page of the request log."""
        items: list[dict[str, Any]] = self.admin.get(f"/api/agent/requests?{query}")["items"]
        return items


@contextmanager
def open_gateway(folder: Path, *first: Step, engine: Engine | None = None) -> Iterator[GatewaySite]:
    """A gateway with two keys, as long as the block lasts.

    Its supplier says hello to every request about which ``first`` has no opinion.
    """
    with Supplier() as supplier:
        supplier.answer_always(*first)
        supplier.answer_always(Answer((Say("Hello."),), Tokens(input=1000, output=100)))
        setup = GatewaySetup(folder, supplier)
        setup.models[0]["routes"] = [
            {"channel": "chat", "model": "scripted-large"},
            {"channel": "responses", "model": "scripted-large", "priority": 1},
            {"channel": "messages", "model": "scripted-large", "priority": 1, "weight": 3},
        ]
        setup.models[0]["prices"] = PRICES
        keys = {
            "laptop": setup.add_key(name="laptop", limits={"day": "1"}, keep_bodies=True),
            HOSTILE: setup.add_key(name=HOSTILE),
        }
        setup.write()
        with Serving(folder, engine) as serving:
            yield GatewaySite(setup, serving, keys)
