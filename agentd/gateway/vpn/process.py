"""A running VPN program: connects to one server, listens on a port of loopback."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from agentd.core.errors import Unavailable
from agentd.core.ids import generate_session_token
from agentd.core.redaction import escape_unprintable, mask_values
from agentd.gateway.vpn.engines import VpnProgram
from agentd.gateway.vpn.local import LocalProxy
from agentd.gateway.vpn.server import Server, list_secrets
from agentd.system.ports import find_free_port, listens
from agentd.system.process import build_start_error, kill_group, wait_until_started

START_SECONDS = 8.0
"""Maximum time until the program listens."""

_POLL_SECONDS = 0.02
_EXIT_SECONDS = 2.0
_MAX_KEPT = 4096
"""Bytes of output that are kept ..."""
_MAX_SHOWN = 300
"""... and characters that are shown: fewer, so that no part of a cut secret is shown."""
_FOLDER = "/"


class VpnEngine:
    """A running program for a server; ``local`` is its proxy. Always call ``end``."""

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        output: "_OutputTail",
        local: LocalProxy,
        server: Server,
    ) -> None:
        self.local = local
        self.server = server
        self._transport = transport
        self._output = output
        self._hidden = (*list_secrets(server), *filter(None, (local.user, local.password)))

    @classmethod
    async def start(
        cls, program: VpnProgram, path: str, server: Server, env: Mapping[str, str]
    ) -> "VpnEngine":
        """Start the program at ``path``, and return once it listens. Raises ``Unavailable``.

        Its settings are passed on its standard input, from memory only.
        """
        user, password = (
            (generate_session_token() for _ in range(2)) if program.authenticates else ("", "")
        )
        local = LocalProxy(find_free_port(), user, password)
        settings = msgspec.json.encode(program.build_settings(server, local))
        command = [*_die_with_parent(), path, *program.arguments]
        transport, output = await _spawn(command, settings, env)
        self = cls(transport, output, local, server)
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await asyncio.to_thread(listens, transport.get_pid(), local.port):
                    if output.exited.done():
                        raise Unavailable(f"{program.program} ended: {self.get_last_output()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            await self.end()
            late = f"{program.program} did not listen within {START_SECONDS:g} s"
            raise Unavailable(f"{late}: {self.get_last_output()}") from error
        except BaseException:
            await self.end()
            raise
        return self

    @property
    def process(self) -> int:
        """The process id."""
        return self._transport.get_pid()

    @property
    def exited(self) -> asyncio.Future[None]:
        """Done once the process has ended."""
        return self._output.exited

    def get_last_output(self) -> str:
        """Return the end of the program's output on one line, without secrets."""
        tail = bytes(self._output.tail).decode("utf-8", "replace")
        tail = mask_values(tail, self._hidden)
        return escape_unprintable(" ".join(tail.split()))[-_MAX_SHOWN:] or "no output"

    async def end(self) -> None:
        """Kill the process group."""
        kill_group(self._transport.get_pid())
        try:
            await asyncio.wait([self._output.exited], timeout=_EXIT_SECONDS)
        finally:  # the waiting task may be cancelled now
            self._transport.close()
        await asyncio.wait([self._output.closed], timeout=_EXIT_SECONDS)


async def _spawn(
    command: Sequence[str], settings: bytes, env: Mapping[str, str]
) -> tuple[asyncio.SubprocessTransport, "_OutputTail"]:
    loop = asyncio.get_running_loop()
    given = os.memfd_create("settings", os.MFD_CLOEXEC)
    try:
        os.write(given, settings)
        os.lseek(given, 0, os.SEEK_SET)
        return await wait_until_started(
            loop.subprocess_exec(
                lambda: _OutputTail(loop),
                *command,
                stdin=given,
                stderr=subprocess.STDOUT,
                cwd=_FOLDER,
                env=env,
                start_new_session=True,
            )
        )
    except (OSError, ValueError) as error:
        raise build_start_error(command[0], _FOLDER, error) from error
    finally:
        os.close(given)


class _OutputTail(asyncio.SubprocessProtocol):
    """Keeps the end of a process's output."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tail = bytearray()
        self.exited = loop.create_future()
        self.closed = loop.create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.tail += data
        del self.tail[:-_MAX_KEPT]

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


def _die_with_parent() -> list[str]:
    """Return a command prefix that ends the program with us, if util-linux is installed."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "KILL", "--"] if found else []
