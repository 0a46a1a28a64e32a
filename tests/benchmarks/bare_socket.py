"""The yardstick of live events: Tornado handlers that each write one ready-made frame.

``bare_socket.py PORT``; a POST to ``/`` has its body sent to every WebSocket on ``/``.
"""

import asyncio
import sys
from typing import ClassVar

from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from agentd.live.signalr.framing import encode_text_frame

SLICE = 200


class ListenerSocket(WebSocketHandler):
    """A listener."""

    everyone: ClassVar[set["ListenerSocket"]] = set()

    def open(self, *args: str, **kwargs: str) -> None:
        self.everyone.add(self)

    def on_close(self) -> None:
        self.everyone.discard(self)


class PublishHandler(RequestHandler):
    """Tells everyone; slices of listeners, with a turn of the loop between them."""

    def get(self) -> None:
        self.write({"hello": "world"})

    async def post(self) -> None:
        frame = encode_text_frame(self.request.body)
        for number, listener in enumerate(list(ListenerSocket.everyone), start=1):
            listener.ws_connection.stream.write(frame)
            if number % SLICE == 0:
                await asyncio.sleep(0)


async def main() -> None:
    Application([("/socket", ListenerSocket), ("/", PublishHandler)]).listen(
        int(sys.argv[1]), "127.0.0.1"
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
