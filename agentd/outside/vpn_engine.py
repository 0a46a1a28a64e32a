"""A VPN engine that runs: one program for one server, on a port of loopback."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from agentd.errors import Unavailable
from agentd.ids import new_session
from agentd.outside.listening import free_port, listens
from agentd.outside.process import kill_group, not_started, started
from agentd.proxy.vpn.engines import Engine
from agentd.proxy.vpn.local import Local
from agentd.proxy.vpn.server import Server, secrets
from agentd.redaction import visible

START_SECONDS = 8.0
"""Until it listens."""

_LOOK = 0.02
_DEATH = 2.0
_LAST_WORDS = 4096
"""Bytes that are kept of what it says ..."""
_TOLD = 300
"""... and letters that are told. What was cut off in the middle of a secret is not in them."""
_FOLDER = "/"


class VpnEngine:
    """A running engine for a server; ``local`` is its door. End it, whatever happened."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        said: "_Said",
        local: Local,
        server: Server,
    ) -> None:
        self.local = local
        self.server = server
        self._transport = transport
        self._said = said
        self._hidden = (*secrets(server), *filter(None, (local.user, local.password)))

    @classmethod
    async def start(
        cls, engine: Engine, path: str, server: Server, env: Mapping[str, str]
    ) -> "VpnEngine":
        """Start the program at ``path``, and return once it listens.

        Its settings are in memory only, on its standard input. Raises ``Unavailable``.
        """
        user, password = (new_session() for _ in range(2)) if engine.asks else ("", "")
        local = Local(free_port(), user, password)
        settings = msgspec.json.encode(engine.settings(server, local))
        command = [*_bound(), path, *engine.arguments]
        transport, said = await _begun(command, settings, env)
        self = cls(transport, said, local, server)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await asyncio.to_thread(listens, transport.get_pid(), local.port):
                    if said.exited.done():
                        raise Unavailable(f"{engine.program} ended: {self.last_words()}")
                    await asyncio.sleep(_LOOK)
        except TimeoutError as error:
            await self.end()
            late = f"{engine.program} did not listen within {START_SECONDS:g} s"
            raise Unavailable(f"{late}: {self.last_words()}") from error
        except BaseException:
            await self.end()
            raise
        return self

    @property
    def process(self) -> int:
        """Its id."""
        return self._transport.get_pid()

    @property
    def exited(self) -> asyncio.Future[None]:
        """Done once it has ended."""
        return self._said.exited

    def last_words(self) -> str:
        """The end of what it said, on one line, without secrets."""
        words = bytes(self._said.words).decode("utf-8", "replace")
        for one in self._hidden:
            words = words.replace(one, "***")
        return visible(" ".join(words.split()))[-_TOLD:] or "it said nothing"

    async def end(self) -> None:
        """Kill it with all that it started."""
        kill_group(self._transport.get_pid())
        await asyncio.wait([self._said.exited], timeout=_DEATH)
        self._transport.close()
        await asyncio.wait([self._said.closed], timeout=_DEATH)


async def _begun(
    command: Sequence[str], settings: bytes, env: Mapping[str, str]
) -> tuple[asyncio.SubprocessTransport, "_Said"]:
    loop = asyncio.get_running_loop()
    given = os.memfd_create("settings", os.MFD_CLOEXEC)
    try:
        os.write(given, settings)
        os.lseek(given, 0, os.SEEK_SET)
        return await started(
            loop.subprocess_exec(
                lambda: _Said(loop),
                *command,
                stdin=given,
                stderr=subprocess.STDOUT,
                cwd=_FOLDER,
                env=env,
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        raise not_started(command[0], _FOLDER, error) from error
    finally:
        os.close(given)


class _Said(asyncio.SubprocessProtocol):
    """Keeps the end of what it says."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.words = bytearray()
        self.exited = loop.create_future()
        self.closed = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.words += data
        del self.words[:-_LAST_WORDS]

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


def _bound() -> list[str]:
    """What lets the kernel end a program with us, where that is installed (util-linux)."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "KILL", "--"] if found else []
