"""A server by hand over stdio, whose tools ask the person: ``asking_server.py``."""

import json
import sys
from typing import Any

TOOLS = ("echo", "take back", "forget", "count")
FILTERED = {
    "type": "object",
    "properties": {"$filter": {"type": "string"}, "top": {"type": "integer"}},
    "required": ["$filter"],
}
FORM = {"type": "object", "properties": {"kind": {"type": "string"}}}


def say(**message: Any) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(number: str, text: str) -> None:
    """Ask the person."""
    params = {"message": text, "requestedSchema": FORM}
    say(id=number, method="elicitation/create", params=params)


def answer(number: int, text: str) -> None:
    """Answer a call."""
    say(id=number, result={"content": [{"type": "text", "text": text}]})


def call(number: int, params: Any) -> None:
    """Carry out a call, as far as that goes without the person."""
    match params["name"]:
        case "find":
            answer(number, json.dumps(params["arguments"]))
        case "echo":
            answer(number, json.dumps(params))
        case "count":
            token = params["_meta"]["progressToken"]
            for amount in ({"progress": 1, "total": 2}, {"progress": 10**400}, {"progress": 0.5}):
                told = {"progressToken": token, **amount}
                say(method="notifications/progress", params=told)
            answer(number, "counted")
        case "take back":
            ask("sugar", "Sugar?")
            say(method="notifications/cancelled", params={"requestId": "sugar"})
            ask("milk", "Milk?")
        case "forget":
            ask("sugar", "Sugar?")
            say(id="alive", method="ping")


def serve() -> None:
    """Answer requests; a call that asked something ends with the answer to its last request."""
    called = 0
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            revision = message["params"]["protocolVersion"]
            capabilities: dict[str, Any] = {"tools": {}, "resources": {}}
            say(id=number, result={"protocolVersion": revision, "capabilities": capabilities})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            tools.append({"name": "find", "inputSchema": FILTERED})
            say(id=number, result={"tools": tools})
        elif method == "tools/call":
            called = number
            call(number, message["params"])
        elif method == "resources/list":
            say(id=number, error={"code": -32603, "message": "no such list"})
        elif method is None and number in ("milk", "alive"):
            answer(called, json.dumps(message["result"]))


serve()
