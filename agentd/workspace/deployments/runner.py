"""The programs of deployments: started so that they outlive the daemon, and found again by it.

Each runs in a session of its own and writes to a file, so nothing ties it to the daemon. It does
not bear the mark by which the agent's programs are ended (``process.MARK``) but one of its own.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from agentd.core.errors import AgentdError, Unavailable
from agentd.llm.upstream.protocol import Timeouts, Upstream, UpstreamRequest
from agentd.system.process import MARK, build_environment, kill_group, spawn
from agentd.system.process_identity import (
    Process,
    find_marked,
    has_exited,
    kill_by_env,
    open_pidfd,
    read_identity,
)
from agentd.workspace.builds.runner import resolve_inside
from agentd.workspace.definitions import Deployment, HealthCheck
from agentd.workspace.deployments.deployment import DeploymentStatus

VARIABLE = "AGENTD_DEPLOYMENT"
"""The variable with the run and the state folder that a program belongs to."""
HEALTH_SECONDS = 5.0
"""The timeout of a health check."""
_LOOPBACK = ("127.0.0.1", "::1")


class DeploymentProgram:
    """A running program; satisfies ``deployments.service.RunningProgram``. Created on the loop."""

    def __init__(self, process: Process, handle: int, mark: str) -> None:
        self.process = process
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int | None] = self._loop.create_future()
        self._handle = handle
        self._mark = mark
        self._reaping: asyncio.Task[None] | None = None
        self._let_go = False
        self._loop.add_reader(handle, self._on_exit)

    def terminate(self) -> None:
        """Ask the program and its group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the program and its group."""
        self._signal(signal.SIGKILL)

    def release(self) -> None:
        """Stop watching the program, which keeps running."""
        self._let_go = True
        if not self._reaping:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self.ended.cancel()

    def _signal(self, number: int) -> None:
        if not self._reaping and not self._let_go and not has_exited(self._handle):
            kill_group(self.process.pid, number)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._handle)
        self._reaping = self._loop.create_task(self._reap())

    async def _reap(self) -> None:
        code = await asyncio.to_thread(_reap, self.process.pid, self._handle, self._mark)
        if not self.ended.done():
            self.ended.set_result(code)


def _reap(pid: int, handle: int, mark: str) -> int | None:
    """Kill what an ended program left and reap it; return its exit code if it is our child."""
    code = None
    try:
        with suppress(ChildProcessError):
            if os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                kill_group(pid)  # its pid cannot be reused: it was not waited for
                if waited := os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG):
                    exited = waited.si_code == os.CLD_EXITED
                    code = waited.si_status if exited else -waited.si_status
    finally:
        os.close(handle)
    kill_by_env(VARIABLE, mark)
    return code


async def _check_port(port: int | None) -> str:
    """Explain that nothing listens; empty if something does, by either version of IP."""
    for host in _LOOPBACK:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            return ""
    return f"nothing listens on port {port}"


class DeploymentPrograms:
    """Starts and finds programs of the workspace ``root``; ``generation`` is the state folder's.

    ``upstream`` is the client for health checks of addresses.
    """

    def __init__(self, root: str, generation: str, upstream: Upstream) -> None:
        self._root = root
        self._generation = generation
        self._upstream = upstream

    async def start(self, definition: Deployment, run: str, output: int) -> DeploymentProgram:
        """Start one whose output goes to the descriptor, which is closed here.

        Raises ``Unavailable``.
        """
        mark = self._mark(run)
        process, handle = await asyncio.to_thread(self._start, definition, mark, output)
        return DeploymentProgram(process, handle, mark)

    async def find(self, status: DeploymentStatus) -> DeploymentProgram | None:
        """Find the program that an earlier daemon started.

        It is that very process, or, where nobody had the time to write that down, the leader of
        a session with this run's mark. Other processes with it, without a leader, are killed.
        """
        mark = self._mark(status.run)
        found = await asyncio.to_thread(_find, status.process, mark)
        return DeploymentProgram(*found, mark) if found else None

    async def check_health(self, health: HealthCheck) -> str:
        """Explain why it is unhealthy; empty if it is healthy."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                if health.url:
                    return await self._check_url(health.url)
                return await _check_port(health.port)
        except TimeoutError:
            return f"no answer within {HEALTH_SECONDS:g} seconds"
        except AgentdError as error:
            return error.message

    async def _check_url(self, url: str) -> str:
        request = UpstreamRequest("GET", url, timeouts=Timeouts(HEALTH_SECONDS, HEALTH_SECONDS))
        async with self._upstream.send(request) as answer:
            return "" if answer.status < 400 else f"it answers with status {answer.status}"

    def _start(self, definition: Deployment, mark: str, output: int) -> tuple[Process, int]:
        try:
            folder = resolve_inside(self._root, definition.folder)
            env = _build_environment(definition.environment, mark)
            child = spawn(definition.command, folder, env, output)
        finally:
            os.close(output)
        child.returncode = 0  # it is waited for by its descriptor: Popen is to keep out of it
        try:
            return read_identity(child.pid), os.pidfd_open(child.pid)
        except OSError as error:  # no /proc, no pidfd, or no descriptor left
            kill_group(child.pid)
            os.waitpid(child.pid, 0)
            raise Unavailable(f"A deployment cannot be looked after: {error.strerror}.") from error

    def _mark(self, run: str) -> str:
        return f"{self._generation}.{run}"


def _build_environment(more: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the environment of the agent's programs, with a mark of its own."""
    inherited = build_environment(**more)
    inherited.pop(MARK, None)
    return inherited | {VARIABLE: mark}


def _find(process: Process | None, mark: str) -> tuple[Process, int] | None:
    if process:
        if (handle := open_pidfd(process)) is not None:
            return process, handle
    else:
        for pid in find_marked(VARIABLE, mark):
            with suppress(OSError):
                leader = read_identity(pid)
                if os.getsid(pid) == pid and (handle := open_pidfd(leader)) is not None:
                    return leader, handle
    kill_by_env(VARIABLE, mark)
    return None
