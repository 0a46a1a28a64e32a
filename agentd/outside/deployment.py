"""The programs of deployments: started so that they outlive the daemon, and found again by it.

Each runs in a session of its own and writes to a file, so nothing ties it to the daemon. It does
not bear the mark by which the agent's programs are ended (``process.MARK``) but one of its own.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from agentd.errors import AgentdError, Unavailable
from agentd.outside.build import inside
from agentd.outside.marked import end_marked, held, identity, is_over, marked
from agentd.outside.process import MARK, USUAL_UMASK, environment, kill_group, not_started
from agentd.proxy.upstream import Request, Timeouts, Upstream
from agentd.workspace.definition import Deployment, Health
from agentd.workspace.deployment import DeploymentStatus, Process

VARIABLE = "AGENTD_DEPLOYMENT"
"""Tells of which run, of which state folder, a program is."""
HEALTH_SECONDS = 5.0
"""How long a sign of health may take."""


class DeploymentProgram:
    """A running program; satisfies ``workspace.deploying.Program``. Made on the loop."""

    def __init__(self, process: Process, handle: int, mark: str) -> None:
        self.process = process
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int | None] = self._loop.create_future()
        self._handle = handle
        self._mark = mark
        self._burial: asyncio.Task[None] | None = None
        self._let_go = False
        self._loop.add_reader(handle, self._over)

    def terminate(self) -> None:
        """Ask it to end, and all in its group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, and all in its group."""
        self._signal(signal.SIGKILL)

    def let_go(self) -> None:
        """Look after it no more; it goes on."""
        self._let_go = True
        if not self._burial:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self.ended.cancel()

    def _signal(self, number: int) -> None:
        if not self._burial and not self._let_go and not is_over(self._handle):
            kill_group(self.process.pid, number)

    def _over(self) -> None:
        self._loop.remove_reader(self._handle)
        self._burial = self._loop.create_task(self._bury())

    async def _bury(self) -> None:
        code = await asyncio.to_thread(_buried, self.process.pid, self._handle, self._mark)
        if not self.ended.done():
            self.ended.set_result(code)


def _buried(pid: int, handle: int, mark: str) -> int | None:
    """End what an ended program left, and free its number; its exit code where it is our child."""
    code = None
    try:
        with suppress(ChildProcessError):
            if os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                kill_group(pid)  # its number is still its own: nobody waited for it
                if told := os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG):
                    exited = told.si_code == os.CLD_EXITED
                    code = told.si_status if exited else -told.si_status
    finally:
        os.close(handle)
    end_marked(VARIABLE, mark)
    return code


class DeploymentPrograms:
    """Starts and finds programs of the workspace ``root``; ``generation`` is the state folder's.

    ``upstream`` is how addresses are looked at.
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
        process, handle = await asyncio.to_thread(self._started, definition, mark, output)
        return DeploymentProgram(process, handle, mark)

    async def find(self, status: DeploymentStatus) -> DeploymentProgram | None:
        """The program that a daemon before us started, if it is there.

        It is that very process, or, where nobody had the time to write that down, the leader of
        a session that bears this run's mark. What else bears it, without a leader, is ended.
        """
        mark = self._mark(status.run)
        found = await asyncio.to_thread(_found, status.process, mark)
        return DeploymentProgram(*found, mark) if found else None

    async def wrong(self, health: Health) -> str:
        """Why it does not work; empty: it does."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                if health.url:
                    return await self._asked(health.url)
                _, writer = await asyncio.open_connection("127.0.0.1", health.port)
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
        except TimeoutError:
            return f"no answer within {HEALTH_SECONDS:g} seconds"
        except OSError:
            return f"nothing listens on port {health.port}"
        except AgentdError as error:
            return error.message
        return ""

    async def _asked(self, url: str) -> str:
        wish = Request("GET", url, timeouts=Timeouts(HEALTH_SECONDS, HEALTH_SECONDS))
        async with self._upstream.send(wish) as answer:
            return "" if answer.status < 400 else f"it answers with status {answer.status}"

    def _started(self, definition: Deployment, mark: str, output: int) -> tuple[Process, int]:
        command, folder = definition.command, self._root
        try:
            folder = inside(self._root, definition.folder)
            child = subprocess.Popen(
                command,
                cwd=folder,
                env=_environment(definition.environment, mark),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=USUAL_UMASK,
            )
        except (OSError, ValueError) as error:
            raise not_started(command[0], folder, error) from error
        finally:
            os.close(output)
        child.returncode = 0  # it is waited for by its descriptor: Popen is to keep out of it
        try:
            return identity(child.pid), os.pidfd_open(child.pid)
        except OSError as error:  # no /proc, no pidfd, or no descriptor left
            kill_group(child.pid)
            os.waitpid(child.pid, 0)
            raise Unavailable(f"A deployment cannot be looked after: {error.strerror}.") from error

    def _mark(self, run: str) -> str:
        return f"{self._generation}.{run}"


def _environment(more: Mapping[str, str], mark: str) -> dict[str, str]:
    """As the agent's programs have it, but for the mark by which those are ended."""
    inherited = environment(**more)
    inherited.pop(MARK, None)
    return inherited | {VARIABLE: mark}


def _found(process: Process | None, mark: str) -> tuple[Process, int] | None:
    if process:
        if (handle := held(process)) is not None:
            return process, handle
    else:
        for pid in marked(VARIABLE, mark):
            with suppress(OSError):
                leader = identity(pid)
                if os.getsid(pid) == pid and (handle := held(leader)) is not None:
                    return leader, handle
    end_marked(VARIABLE, mark)
    return None
