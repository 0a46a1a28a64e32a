"""The official Python client: goes through all that /mcp can do, and prints what it saw as JSON.

Its argument is ``{"url", "headers", "mode"}``, or ``{"command", "env", "mode"}`` for standard
input and output; ``mode`` is ``legacy`` for sessions, else ``auto``.
"""

import asyncio
import json
import sys
from typing import Any

import httpx2
from mcp import types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 60.0


class Observer:
    """What the client is told and asked."""

    def __init__(self) -> None:
        self.progress: list[str] = []
        self.asked: list[str] = []
        self.changed = asyncio.Event()

    async def on_progress(self, _number: float, _total: float | None, message: Any) -> None:
        """Note progress."""
        self.progress.append(message)

    async def answer(self, _context: Any, params: Any) -> types.ElicitResult:
        """Allow what the agent asks for."""
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "allow", "note": "go on"})

    async def on_message(self, message: Any) -> None:
        """Note that a resource changed."""
        if "resources/updated" in str(getattr(message, "method", "")):
            self.changed.set()


async def see_change(client: Client, observer: Observer, uri: str, chat: int, mode: str) -> bool:
    """Return True once the client was told of a change of a resource."""
    prompt = {"chatId": chat, "prompt": "More"}
    if mode == "legacy":
        await client.subscribe_resource(uri)
        await client.call_tool("queue_prompt", prompt)
        await asyncio.wait_for(observer.changed.wait(), PATIENCE)
        return True
    async with client.listen(resource_subscriptions=[uri]) as stream:
        await client.call_tool("queue_prompt", prompt)
        return "ResourceUpdated" in type(await anext(aiter(stream))).__name__


async def go_through(client: Client, observer: Observer, mode: str) -> dict[str, Any]:
    """Return what the client sees."""
    tools = (await client.list_tools()).tools
    made: Any = (await client.call_tool("create_chat", {"prompt": "run ls"})).structured_content
    chat = made["chatId"]
    outcome: Any = (
        await client.call_tool(
            "wait_for_chat", {"chatId": chat}, progress_callback=observer.on_progress
        )
    ).structured_content
    uri = f"agentd://chats/{chat}"
    (content,) = (await client.read_resource(uri)).contents
    refused = await client.call_tool("get_chat", {"chatId": 999_999})
    return {
        "revision": client.protocol_version,
        "tools": [tool.name for tool in tools],
        "outcome": outcome,
        "resources": [str(one.uri) for one in (await client.list_resources()).resources],
        "templates": len((await client.list_resource_templates()).resource_templates),
        "read": json.loads(getattr(content, "text", ""))["chat"]["chatId"] == chat,
        "refused": refused.is_error,
        "changed": await see_change(client, observer, uri, chat, mode),
        "progress": observer.progress,
        "asked": observer.asked,
    }


async def main(wish: dict[str, Any]) -> None:
    """Connect and go."""
    observer = Observer()
    ways: dict[str, Any] = {
        "mode": wish["mode"],
        "elicitation_callback": observer.answer,
        "message_handler": observer.on_message,
    }
    if "command" in wish:
        program, *words = wish["command"]
        server = StdioServerParameters(command=program, args=words, env=wish["env"])
        async with Client(stdio_client(server), **ways) as client:
            sys.stdout.write(json.dumps(await go_through(client, observer, wish["mode"])))
        return
    async with httpx2.AsyncClient(headers=wish["headers"], timeout=PATIENCE) as http:
        transport = streamable_http_client(wish["url"], http_client=http)
        async with Client(transport, **ways) as client:
            sys.stdout.write(json.dumps(await go_through(client, observer, wish["mode"])))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
