"""Listens with signalrcore and prints what happens, one JSON object per line.

The only argument is JSON: ``url``, ``transport``, ``reconnect``. It stops when its standard input
ends.
"""

import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from signalrcore.hub_connection_builder import HubConnectionBuilder
from signalrcore.types import HttpTransportType

EVENTS = ("messageUpdate", "chatUpdate", "queueUpdate", "keysUpdate", "gap")


def say(what: str, **more: object) -> None:
    """Print one line."""
    print(json.dumps({"what": what, **more}), flush=True)  # noqa: T201


def print_events(name: str) -> Callable[[Any], None]:
    """Return a callback that prints the events of a name."""
    return lambda arguments: say("event", name=name, arguments=arguments)


def main(wish: dict[str, Any]) -> None:
    """Listen until told to stop."""
    transport = HttpTransportType(wish.get("transport", "WebSockets"))
    builder = HubConnectionBuilder().with_url(wish["url"], options={"transport": transport})
    builder.configure_logging(logging.CRITICAL)
    if wish.get("reconnect"):
        builder.with_automatic_reconnect(
            {"type": "raw", "keep_alive_interval": 1, "reconnect_interval": 0.1}
        )
    connection = builder.build()
    for name in EVENTS:
        connection.on(name, print_events(name))
    connection.on_open(lambda: say("open"))
    connection.on_reconnect(lambda: say("reconnecting"))
    connection.on_close(lambda: say("closed", error=""))
    connection.on_error(lambda message: say("result", error=message.error))
    try:
        connection.start()
    except Exception as error:  # whatever it raises is what its user would see
        say("refused", error=f"{type(error).__name__}: {error}")
        return
    for method, *given in wish.get("calls", ()):
        connection.send(method, given, lambda message: say("result", error=message.error))
    sys.stdin.read()
    os._exit(0)  # its own stop waits for threads that wait for the network


main(json.loads(sys.argv[1]))
