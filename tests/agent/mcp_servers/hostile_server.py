"""A server that behaves badly over stdio: ``hostile_server.py MANNER``."""

import json
import os
import sys
import time
from typing import Any

MANNER = sys.argv[1]
UNTIL = "silent until "
"""The beginning of a manner: before the file of this path is there, nothing is answered."""


def say(value: dict[str, Any]) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **value}) + "\n")
    sys.stdout.flush()


def list_tools(number: int) -> dict[str, Any]:
    """Return a page of tools."""
    tool = {"name": "plain", "inputSchema": {"type": "object"}, "description": "Plain."}
    match MANNER:
        case "endless pages":
            return {
                "tools": [{**tool, "name": f"t{number}_{n}"} for n in range(50)],
                "nextCursor": "x",
            }
        case "odd names":
            names = [
                "\x1b[31mred\u202e",
                "a" * 300,
                "x" * 100,
                "x" * 99 + "y",
                "dot.slash/",
                "dot slash ",
            ]
            described = "<img src=x onerror=alert(1)>\x00" + "long " * 5000
            return {"tools": [{**tool, "name": name, "description": described} for name in names]}
        case "library":
            return {"tools": [{**tool, "name": "resolve_library_id"}]}
        case "twice":
            return {"tools": [tool, {**tool, "name": "other"}, {**tool, "description": "Again."}]}
        case "odd types":
            return {
                "tools": [
                    7,
                    None,
                    {"name": 5},
                    {"name": "n", "inputSchema": "no"},
                    {**tool, "annotations": 3},
                ]
            }
    return {"tools": [tool]}


def say_unasked() -> None:
    """Write what no client can use, in the manner that is asked for."""
    written = ""
    match MANNER:
        case "garbage":
            written = "".join(f"{{nonsense {number}\n" for number in range(3000))
        case "huge line":
            written = "x" * (9 * 2**20) + "\n"
        case "many values":
            written = '{"method": "x", "params": {"a": [' + "[]," * 500_000 + "0]}}\n"
    sys.stdout.write(written)
    sys.stdout.flush()


def stay_silent() -> None:
    """Answer nothing, in the manners that want it, for good or until a file is there."""
    if MANNER == "silent":
        sys.stdin.read()
    while MANNER.startswith(UNTIL) and not os.path.exists(MANNER.removeprefix(UNTIL)):
        time.sleep(0.01)


def serve() -> None:
    """Answer requests in the manner that is asked for."""
    stay_silent()
    say_unasked()
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            revision = (
                "1999-01-01" if MANNER == "old revision" else message["params"]["protocolVersion"]
            )
            offered: dict[str, Any] = {"tools": {}}
            if MANNER in (
                "tools alone",
                "twice",
                "prompts without end",
            ):  # the first never answers what it says it has
                offered |= {"prompts": {}, "resources": {}}
            about = {"serverInfo": {"name": "hostile", "version": "1"}, "capabilities": offered}
            say({"id": number, "result": {"protocolVersion": revision, **about}})
        elif method == "resources/list":
            say({"id": number, "result": {"resources": [{"uri": "tea://menu", "name": "menu"}]}})
        elif method == "tools/list":
            say({"id": number, "result": list_tools(number)})
        elif method == "tools/call":
            if MANNER == "questions":
                for n in range(500):
                    say({"id": f"q{n}", "method": "sampling/createMessage", "params": {}})
            if MANNER != "never answers":
                say({"id": 10**9, "result": {}})
                say(
                    {
                        "id": number,
                        "result": {"content": [{"type": "text", "text": "y" * 200_000}, 5]},
                    }
                )
                say({"id": number, "result": {"content": []}})
        elif method == "prompts/list" and MANNER == "prompts without end":
            time.sleep(0.1)
            say({"id": number, "result": {"prompts": [{"name": "order"}], "nextCursor": "x"}})
        elif method == "prompts/list" and MANNER == "twice":
            say({"id": number, "result": {"prompts": [{"name": "order"}, {"name": "order"}]}})


serve()
