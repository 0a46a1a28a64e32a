"""The offline engine's replies about the repository: branch, commits and differences."""

from collections.abc import Iterable

from agentd.agent.offline.markdown import cell, code, fenced, several, table
from agentd.agent.results import Change, Commits, Diff, Status
from agentd.agent.tools import ANYWHERE, GitDiff, GitLog

_CODES = {
    **{"?": "not tracked", "A": "added", "D": "deleted", "R": "renamed", "C": "copied"},
    **{"M": "modified", "T": "type changed", "U": "in conflict"},
}


def status(found: Status) -> str:
    """The branch and the changed files."""
    head = f"On branch {code(found.branch)}" if found.branch else "No branch is checked out"
    if found.upstream:
        head += f", {found.ahead} ahead of and {found.behind} behind {code(found.upstream)}"
    if not found.changes:
        return f"{head}. Nothing is changed."
    more = "\n\nMore files are changed than are shown." if found.cut else ""
    return (
        f"{head}. {several(len(found.changes), 'changed file')}:\n\n{_changes(found.changes)}{more}"
    )


def log(use: GitLog, found: Commits) -> str:
    """The latest commits."""
    where = "" if use.path == ANYWHERE else f" that touched {code(use.path)}"
    if not found.commits:
        return f"There are no commits{where or ' yet'}."
    rows = [
        (
            code(commit.id),
            commit.at[:16].replace("T", " "),
            cell(commit.author),
            cell(commit.subject),
        )
        for commit in found.commits
    ]
    head = f"The latest {several(len(rows), 'commit')}{where}:"
    place = "" if use.path == ANYWHERE else f" {use.path}"
    more = f"\n\nOlder ones: {code(f'log {min(len(rows) * 2, 100)}{place}')}" if found.cut else ""
    return f"{head}\n\n{table(('commit', 'when', 'who', 'what'), rows)}{more}"


def diff(use: GitDiff, found: Diff) -> str:
    """A difference, and its size by file."""
    where = "" if use.path == ANYWHERE else f" in {code(use.path)}"
    what = f"Commit {code(use.commit)} changed" if use.commit else "Not committed yet"
    if not found.text.strip():
        return f"{what}{where}: nothing (files that git does not track are not compared)."
    more = "\n\nThis is only the beginning: ask for one file, as `diff FILE`." if found.cut else ""
    return (
        f"{what}{where}:\n\n{_diff_sizes(found.text)}\n\n"
        f"{fenced(found.text.rstrip(), 'diff')}{more}"
    )


def changed(path: str, now: Status, difference: Diff, most: int) -> str:
    """What is changed; its difference too, if that has no more than ``most`` lines."""
    if path != ANYWHERE:
        return diff(GitDiff(path), difference)
    text = status(now)
    if not difference.text.strip():
        return text
    if difference.cut or len(difference.text.splitlines()) > most:
        sizes = _diff_sizes(difference.text)
        return f"{text}\n\n{sizes}\n\nThe lines themselves: `diff` or `diff FILE`."
    return f"{text}\n\n{fenced(difference.text.rstrip(), 'diff')}"


def _changes(changes: Iterable[Change]) -> str:
    rows = []
    for change in changes:
        staged, unstaged = change.code[:1], change.code[1:]
        told = [_CODES.get(staged, ""), _CODES.get(unstaged, "")]
        state = " and ".join(dict.fromkeys(filter(None, told)))
        is_staged = " (staged)" if staged not in ".?" and unstaged == "." else ""
        name = code(change.path) + (f" (was {code(change.before)})" if change.before else "")
        rows.append((name, state + is_staged))
    return table(("file", "state"), rows)


def _diff_sizes(text: str) -> str:
    """How many lines each file gained and lost."""
    sizes: dict[str, list[int]] = {}
    name = ""
    in_head = True
    for line in text.split("\n"):
        if line.startswith("diff --git "):
            name = line.removeprefix("diff --git ").rpartition(" b/")[2]
            sizes[name], in_head = [0, 0], True
        elif line.startswith("@@"):
            in_head = False
        elif name and not in_head and line[:1] in ("+", "-"):
            sizes[name][line[0] == "-"] += 1
    rows = [(code(file), f"+{more:,}", f"−{less:,}") for file, (more, less) in sizes.items()]
    return table(("file", "added", "removed"), rows, numbers=(1, 2)) if rows else ""
