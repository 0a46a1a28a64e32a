"""The answers of the daemon, checked against the description in ``GET /api/agent``."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

from jsonschema import Draft202012Validator

from tests.support.daemon import Client, Reply

JSON = "application/json"


class Description:
    """The description as a program reads it."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.addresses = {(one["method"], one["path"]): one for one in told["endpoints"]}
        self._strict = _forbid_other_fields(told["schemas"])

    def find_address(self, method: str, path: str) -> dict[str, Any] | None:
        """Return the description of a path as it is sent; the one with the fewest variables."""
        fitting = [
            one
            for (known, template), one in self.addresses.items()
            if known == method and re.fullmatch(re.sub("{.*?}", "[^/]+", template), path)
        ]
        return min(fitting, key=lambda one: one["path"].count("{"), default=None)

    def find_body_errors(self, address: dict[str, Any], body: object) -> list[str]:
        """Explain why the route does not accept a body."""
        (told,) = address["body"]
        return self._find_errors(told["schema"], self.told["schemas"], body)

    def check(self, method: str, target: str, reply: Reply) -> None:
        """Fail unless the answer is described: its status, its type, and all its fields."""
        path = unquote(target.partition("?")[0], errors="replace")
        address = self.find_address(method, target.partition("?")[0])
        assert address, f"{method} {path} is not described"
        if reply.status >= 400:
            told = {(one["status"], one["error"]) for one in address["errors"]}
            assert (reply.status, reply["error"]) in told, (method, target, reply.body)
            assert set(reply.json()) == {"error", "message", "details"}
            return
        assert reply.status == address["status"], (method, target, reply.body)
        if not address["response"]:
            assert reply.body == b""
            return
        kind = reply.headers["Content-Type"].partition(";")[0]
        told_by_kind = {one["type"]: one["schema"] for one in address["response"]}
        assert kind in told_by_kind, (method, target, kind)
        if kind == JSON:
            wrong = self._find_errors(
                _forbid_other_fields(told_by_kind[JSON]), self._strict, reply.json()
            )
            assert not wrong, (method, target, wrong[:5])

    def _find_errors(
        self, schema: dict[str, Any], schemas: dict[str, Any], body: object
    ) -> list[str]:
        validator = Draft202012Validator({**schema, "schemas": schemas})
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(body)]


def _forbid_other_fields(schema: Any) -> Any:
    """Return the schema in which no object may have an undescribed field."""
    if isinstance(schema, list):
        return [_forbid_other_fields(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    told = {name: _forbid_other_fields(one) for name, one in schema.items()}
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
        """Send a request."""
        reply = super().send(method, path, body, headers)
        if path.startswith("/api/agent"):
            if Manager.description is None:
                Manager.description = Description(super().send("GET", "/api/agent").json())
            if Manager.description.find_address(method, path.partition("?")[0]):
                Manager.description.check(method, path, reply)
            else:
                assert reply.status in (404, 405), (method, path, reply.status)
        return reply
