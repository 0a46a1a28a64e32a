"""A server over stdio whose errors repeat its token."""

import json
import os
import sys
from typing import Any


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the members of an answer; None: there never is one."""
    match method:
        case "initialize":
            about = {"serverInfo": {"name": "leak", "version": "1"}, "capabilities": {"tools": {}}}
            return {"result": {"protocolVersion": params["protocolVersion"], **about}}
        case "tools/list":
            return {"result": {"tools": [{"name": "pour", "inputSchema": {"type": "object"}}]}}
        case "tools/call":
            return {"error": {"code": 1, "message": f"{os.environ['TEA_TOKEN']} is no token"}}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if found := answer(message["method"], message.get("params", {})):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}) + "\n")
        sys.stdout.flush()
