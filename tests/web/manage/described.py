"""What ``GET /api/agent`` says, held against what the daemon answers."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

from jsonschema import Draft202012Validator

from tests.web.support import Client, Reply

JSON = "application/json"


class Description:
    """The description as a program reads it."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.addresses = {(one["method"], one["path"]): one for one in told["addresses"]}
        self._strict = _strict(told["schemas"])

    def address(self, method: str, path: str) -> dict[str, Any] | None:
        """What is told of a path as it is sent; the one with the fewest variables."""
        fitting = [
            one
            for (known, template), one in self.addresses.items()
            if known == method and re.fullmatch(re.sub("{.*?}", "[^/]+", template), path)
        ]
        return min(fitting, key=lambda one: one["path"].count("{"), default=None)

    def wrong_body(self, address: dict[str, Any], body: object) -> list[str]:
        """Why a body is none that the address takes."""
        (told,) = address["body"]
        return self._wrong(told["schema"], self.told["schemas"], body)

    def check(self, method: str, target: str, reply: Reply) -> None:
        """Fail unless the answer is one that is told: its status, its kind, and all its fields."""
        path = unquote(target.partition("?")[0], errors="replace")
        address = self.address(method, target.partition("?")[0])
        assert address, f"{method} {path} is not described"
        if reply.status >= 400:
            told = {(one["status"], one["error"]) for one in address["errors"]}
            assert (reply.status, reply["error"]) in told, (method, target, reply.body)
            assert set(reply.json()) == {"error", "message", "details"}
            return
        assert reply.status == address["status"], (method, target, reply.body)
        if not address["answer"]:
            assert reply.body == b""
            return
        kind = reply.headers["Content-Type"].partition(";")[0]
        told_by_kind = {one["type"]: one["schema"] for one in address["answer"]}
        assert kind in told_by_kind, (method, target, kind)
        if kind == JSON:
            wrong = self._wrong(_strict(told_by_kind[JSON]), self._strict, reply.json())
            assert not wrong, (method, target, wrong[:5])

    def _wrong(self, schema: dict[str, Any], schemas: dict[str, Any], body: object) -> list[str]:
        validator = Draft202012Validator({**schema, "schemas": schemas})
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(body)]


def _strict(schema: Any) -> Any:
    """The schema, in which no object may have a field that is not told."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    told = {name: _strict(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        told["additionalProperties"] = False
    return told


class Manager(Client):
    """A client with the management key that takes only answers that are described."""

    description: ClassVar[Description | None] = None
    """The same for all daemons."""

    def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request."""
        reply = super().send(method, path, body, headers)
        if path.startswith("/api/agent"):
            if Manager.description is None:
                Manager.description = Description(super().send("GET", "/api/agent").json())
            if Manager.description.address(method, path.partition("?")[0]):
                Manager.description.check(method, path, reply)
            else:
                assert reply.status in (404, 405), (method, path, reply.status)
        return reply
