"""Sets up a new work tree by the project's own command, which runs as builds do."""

from collections.abc import Callable

from msgspec import Struct

from agentd.core.errors import Conflict
from agentd.workspace.builds.output import BuildTranscript, take_last_lines
from agentd.workspace.builds.runner import BuildPrograms
from agentd.workspace.definitions import Build, Command

SOURCE_VARIABLE = "WORKTREE_SOURCE"
"""The variable in which the command finds the workspace's folder."""

_KEPT = 64 * 1024
_LINES = 40
_LONGEST = 4000


class SetupCommand(Struct, frozen=True):
    """The command, empty for none, and how many seconds it may take."""

    command: Command = ()
    seconds: float = 600.0


class WorktreeSetup:
    """Runs the command that ``get_command`` returns; ``generation`` marks what it starts."""

    def __init__(self, root: str, generation: str, get_command: Callable[[], SetupCommand]) -> None:
        self._root = root
        self._generation = generation
        self._get_command = get_command

    async def run(self, chat_id: int, folder: str) -> None:
        """Set up a tree; ``Conflict`` with the end of the output when the command fails."""
        wanted = self._get_command()
        if not wanted.command:
            return
        build = Build(
            wanted.command, environment={SOURCE_VARIABLE: self._root}, timeout=wanted.seconds
        )
        transcript = BuildTranscript(kept=_KEPT)
        programs = BuildPrograms(folder, self._generation)
        end = await programs.run(build, f"worktree-{chat_id}", transcript, lambda: None)
        if end.code == 0 and not end.late:
            return
        transcript.close()
        output = take_last_lines(transcript.get_output().data, _LINES).decode("utf-8", "replace")
        how = (
            f"did not end within {wanted.seconds:.0f} seconds"
            if end.late
            else f"ended with {end.code}"
        )
        raise Conflict(
            f"The work tree could not be set up: worktree_setup ({wanted.command[0]}) {how}.",
            output[-_LONGEST:].strip(),
        )
