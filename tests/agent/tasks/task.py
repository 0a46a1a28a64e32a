"""What a task is, and how its repository is made and its outcome is checked."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from tests.supplier.steps import Call, Part, Say

DATE = "2026-03-01T12:00:00Z"
"""The date of every commit, so that a commit has the same hash wherever its task is done."""
CHECK_SECONDS = 120
"""The most that a check's program may take: a wrong solution may never end."""


class Commit(Struct, frozen=True):
    """One commit of a repository's history: its message, and what it writes and removes."""

    message: str
    files: Mapping[str, str]
    removed: tuple[str, ...] = ()


class Outcome:
    """What an agent left: the folder, and its last reply."""

    def __init__(self, root: Path, reply: str) -> None:
        self.root = root
        self.reply = reply

    def read(self, path: str) -> str:
        """Return a file's text, with its line ends as they are; it must be there."""
        file = self.root / path
        require(file.is_file(), f"there is no {path}")
        return file.read_bytes().decode()

    def list_files(self) -> list[str]:
        """Return the paths of all files, without git's and Python's own."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*"))
        return sorted(
            path
            for path in found
            if not path.startswith(".git/")
            and "__pycache__" not in path
            and (self.root / path).is_file()
        )

    def run(self, source: str) -> str:
        """Run a Python program in the folder, which must succeed; return what it writes."""
        return self._run_program([sys.executable, "-B", "-c", source])

    def run_shell(self, line: str) -> str:
        """Run a command line in the folder, which must succeed; return what it writes."""
        return self._run_program(["/bin/sh", "-c", line])

    def git(self, *arguments: str) -> str:
        """Return what git says of the repository."""
        return run_git(self.root, *arguments)

    def require_reply(self, *texts: str) -> None:
        """Require that the reply contains each text; case does not matter."""
        for text in texts:
            require(text.lower() in self.reply.lower(), f"the reply does not tell {text!r}")

    def require_unchanged(self, *paths: str) -> None:
        """Require that what is committed at these paths (all without any) is as it was given."""
        changed = self.git("diff", "--name-only", "start", "--", *paths)
        require(not changed, f"changed: {changed}")

    def _run_program(self, argv: list[str]) -> str:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root), "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(
                argv,
                check=False,
                cwd=self.root,
                env=environ,
                capture_output=True,
                text=True,
                timeout=CHECK_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise Unsolved(f"the check did not end within {CHECK_SECONDS} s") from None
        require(done.returncode == 0, (done.stderr or done.stdout).strip()[-800:])
        return done.stdout


class Unsolved(Exception):
    """A task is not done as it was asked; the text tells what is missing."""


class Task(Struct, frozen=True):
    """A task: ``files`` are committed, then comes the ``prompt``; ``check`` raises ``Unsolved``.

    ``moves`` are the replies of a model that does it well, with our own engine's tools. ``commits``
    come before ``files``, and ``uncommitted`` lies over them when the agent begins.
    """

    name: str
    prompt: str
    moves: tuple[tuple[Part, ...], ...]
    check: Callable[[Outcome], None]
    files: Mapping[str, str]
    commits: tuple[Commit, ...] = ()
    uncommitted: Mapping[str, str] = field(default_factory=dict)
    may_fail: frozenset[str] = frozenset()
    """Tools that fail on the way: what the task is about."""
    helpers: Mapping[str, str] = field(default_factory=dict)
    """What a helper (``run_task``) replies, by a text of its prompt."""

    def list_calls(self) -> Iterator[Call]:
        """Return all tool calls of the moves."""
        return (part for move in self.moves for part in move if isinstance(part, Call))


def require(condition: bool, problem: str) -> None:
    """Raise ``Unsolved`` with the problem unless the condition holds."""
    if not condition:
        raise Unsolved(problem)


def make_repository(task: Task, root: Path) -> None:
    """Make the task's repository in an empty folder; the tag ``start`` is what is committed."""
    run_git(root, "init", "--quiet", "--initial-branch", "main")
    run_git(root, "config", "user.name", "Ada")
    run_git(root, "config", "user.email", "ada@example.org")
    for commit in (*task.commits, Commit("The project as it is", task.files)):
        write_files(root, commit.files)
        for path in commit.removed:
            (root / path).unlink()
        run_git(root, "add", "--all")
        run_git(root, "commit", "--quiet", "--allow-empty", "--message", commit.message)
    run_git(root, "tag", "start")
    write_files(root, task.uncommitted)


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write files with their folders; line ends stay as they are given."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def run_git(root: Path, *arguments: str) -> str:
    """Run git in the folder; return what it writes."""
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": DATE,
        "GIT_COMMITTER_DATE": DATE,
    }
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def read(path: str, **more: int) -> Call:
    """Return a call that reads a file."""
    return Call("read_file", {"path": path, **more})


def edit(path: str, old: str, new: str) -> Call:
    """Return a call that replaces a text."""
    return Call("edit_file", {"path": path, "old": old, "new": new})


def write(path: str, text: str) -> Call:
    """Return a call that writes a file."""
    return Call("write_file", {"path": path, "text": text})


def shell(command: str) -> Call:
    """Return a call that runs a command line."""
    return Call("shell", {"command": command})


def search(text: str, **more: object) -> Call:
    """Return a call that looks for a text."""
    return Call("search_text", {"text": text, **more})


def say(text: str) -> tuple[Part, ...]:
    """Return a last reply."""
    return (Say(text),)
