"""The least that a gateway can do: Tornado, our client, nothing else. ``bare_relay.py PORT TO``."""

import asyncio
import sys

from tornado.web import Application, RequestHandler

from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.protocol import UpstreamRequest


class Relay(RequestHandler):
    """Passes a request on, and what comes back."""

    def initialize(self, upstream: HttpUpstream, to: str) -> None:
        self._upstream = upstream
        self._to = to

    def get(self) -> None:
        self.write({"hello": "world"})

    async def post(self) -> None:
        headers = {"content-type": "application/json"}
        if "X-Pause" in self.request.headers:
            headers["x-pause"] = self.request.headers["X-Pause"]
        asked = UpstreamRequest("POST", self._to + self.request.path, headers, self.request.body)
        async with self._upstream.send(asked) as answer:
            self.set_header("Content-Type", answer.headers["content-type"])
            if answer.headers["content-type"].startswith("application/json"):
                self.write(await answer.read())
                return
            async for piece in answer.iter_chunks():
                self.write(piece)
                await self.flush()


async def main() -> None:
    result = {"upstream": HttpUpstream(), "to": sys.argv[2]}
    Application([(".*", Relay, result)]).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
