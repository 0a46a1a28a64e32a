"""The yardstick of replay: Tornado reads a file and writes it out. ``bare_file.py PORT FILE``."""

import asyncio
import sys

from tornado.web import Application, RequestHandler

PORTION = 256 * 1024


class FileHandler(RequestHandler):
    """Reads and writes, in portions, and nothing else."""

    def initialize(self, path: str) -> None:
        self._path = path

    async def get(self) -> None:
        with open(self._path, "rb") as file:  # noqa: ASYNC230
            while portion := file.read(PORTION):
                self.write(portion)
                await self.flush()


async def main() -> None:
    port, path = sys.argv[1:]
    Application([("/", FileHandler, {"path": path})]).listen(int(port), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
