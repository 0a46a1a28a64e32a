"""Listens with pysignalr and prints what happens, one JSON object per line.

The only argument is JSON: ``url``, ``calls``, ``catchUp`` (once open again, ask for all since the
last seq and runId). It is ended by a signal.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from pysignalr.client import SignalRClient
from pysignalr.exceptions import AuthorizationError, ServerError
from pysignalr.messages import CompletionMessage

EVENTS = ("messageUpdate", "chatUpdate", "queueUpdate", "keysUpdate", "gap")

LAST: list[Any] = []
"""The seq and the runId of the last event."""


def say(what: str, **more: object) -> None:
    """Print one line."""
    print(json.dumps({"what": what, **more}), flush=True)  # noqa: T201


def print_events(name: str) -> Callable[[Any], Awaitable[None]]:
    """Return a callback that prints the events of a name."""

    async def print_event(arguments: Any) -> None:
        if name == "chatUpdate":
            LAST[:] = arguments[0]["seq"], arguments[0]["runId"]
        say("event", name=name, arguments=arguments)

    return print_event


async def main(wish: dict[str, Any]) -> None:
    """Listen until the connection is over for good."""
    client = SignalRClient(wish["url"], retry_sleep=0.1)
    for name in EVENTS:
        client.on(name, print_events(name))

    async def on_open() -> None:
        say("open")
        if wish.get("catchUp") and LAST:
            await client.send("Subscribe", ["all", *LAST], on_caught_up)

    async def on_caught_up(_: Any) -> None:
        say("caught up")

    async def on_close() -> None:
        say("reconnecting")

    async def on_error(message: CompletionMessage) -> None:
        say("result", error=message.error)

    client.on_open(on_open)
    client.on_close(on_close)
    client.on_error(on_error)
    for method, *given in wish.get("calls", ()):
        asyncio.get_running_loop().create_task(client.send(method, given, _print_result))
    try:
        await client.run()
    except AuthorizationError:
        say("refused", error="401")
    except (ServerError, RuntimeError, ValueError, OSError) as error:
        say("closed", error=f"{type(error).__name__}: {error}")


async def _print_result(message: Any) -> None:
    say("result", result=getattr(message, "result", None))


logging.disable(logging.CRITICAL)
asyncio.run(main(json.loads(sys.argv[1])))
