"""The yardstick: Tornado answering a constant dict, and nothing else. ``bare.py PORT``."""

import asyncio
import sys

from tornado.web import Application, RequestHandler


class Hello(RequestHandler):
    """The least that a Tornado handler can do."""

    def get(self) -> None:
        self.write({"hello": "world"})


async def main() -> None:
    Application([("/", Hello)]).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
