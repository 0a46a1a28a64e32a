"""Real proxies on loopback: tinyproxy (HTTP), microsocks (SOCKS5)."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import until
from tests.support.ports import find_free_port

USER, PASSWORD = "user", "p4ssword"

TINYPROXY = f"""\
Port {{port}}
Listen 127.0.0.1
Timeout 60
MaxClients 20
BasicAuth {USER} {PASSWORD}
"""


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def running_program(
    name: str, *options: str, port: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program, once it listens; the test is skipped if it is not installed."""
    found = shutil.which(name)
    if not found:
        pytest.skip(f"no {name} on this machine")
    quiet = asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(found, *options, stdout=quiet, stderr=quiet)
    try:
        await until(lambda: is_listening(port))
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


@asynccontextmanager
async def http_proxy(folder: Path) -> AsyncIterator[str]:
    port = find_free_port()
    settings = folder / "tinyproxy.conf"
    settings.write_text(TINYPROXY.format(port=port))
    async with running_program("tinyproxy", "-d", "-c", str(settings), port=port):
        yield f"http://{USER}:{PASSWORD}@127.0.0.1:{port}"


@asynccontextmanager
async def socks_proxy(folder: Path) -> AsyncIterator[str]:
    port = find_free_port()
    options = ("-i", "127.0.0.1", "-p", str(port), "-u", USER, "-P", PASSWORD)
    async with running_program("microsocks", *options, port=port):
        yield f"socks5://{USER}:{PASSWORD}@127.0.0.1:{port}"
