"""A program that knows only an address and the management key, and follows ``GET /api/agent``."""

import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from tests.gateway.admin.conftest import MANAGEMENT_KEY


class Follower:
    """It knows its supplier, too; ``values`` are the recipe's variables."""

    def __init__(self, url: str, **known: Any) -> None:
        self._url = urlsplit(url)
        self.values: dict[str, Any] = {"management_key": MANAGEMENT_KEY, **known}

    def follow(self, *, keep: bool = False) -> list[dict[str, Any]]:
        """Run the recipe's steps and return them; with ``keep``, what they create is kept."""
        result = self._ask("GET", "/api/agent", {"X-API-Key": MANAGEMENT_KEY}, None)[1]
        recipe = result["recipe"]
        for variable in recipe["variables"]:
            if "default" in variable:
                self.values.setdefault(variable["name"], variable["default"])
        assert set(self.values) == {variable["name"] for variable in recipe["variables"]}
        steps: list[dict[str, Any]] = [
            step
            for step in recipe["steps"]
            if not (keep and step["method"] == "DELETE" and "/api/agent" in step["path"])
        ]
        for step in steps:
            self._do(step)
        return steps

    def _do(self, step: dict[str, Any]) -> None:
        parts = (self._fill(step[part]) for part in ("method", "path", "headers", "body"))
        status, answer = self._ask(*parts)
        assert status == step["expect"]["status"], (step["title"], answer)
        for place, value in step["expect"]["where"].items():
            assert resolve_pointer(answer, place) == self._fill(value), (
                step["title"],
                place,
                answer,
            )
        for name, place in step["save"].items():
            self.values[name] = resolve_pointer(answer, place)

    def _ask(
        self, method: str, path: str, headers: dict[str, str], body: object
    ) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        if data is not None:
            headers = {**headers, "Content-Type": "application/json"}
        assert self._url.hostname
        with closing(http.client.HTTPConnection(self._url.hostname, self._url.port)) as line:
            line.request(method, path, data, headers)
            reply = line.getresponse()
            content = reply.read()
            return reply.status, json.loads(content) if content else None

    def _fill(self, part: Any) -> Any:
        if isinstance(part, dict):
            return {name: self._fill(value) for name, value in part.items()}
        if isinstance(part, list):
            return [self._fill(one) for one in part]
        if not isinstance(part, str):
            return part
        for name, value in self.values.items():
            if part == f"${{{name}}}":
                return value
            part = part.replace(f"${{{name}}}", str(value))
        assert "${" not in part, part
        return part


def resolve_pointer(value: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer (RFC 6901)."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value
