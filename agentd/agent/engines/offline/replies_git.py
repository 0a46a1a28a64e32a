"""The offline engine's replies about the repository: branch, commits and differences."""

from collections.abc import Iterable

from agentd.agent.engines.offline.markdown import (
    count_noun,
    escape_cell,
    render_code,
    render_code_block,
    render_table,
)
from agentd.agent.tools.model import ANYWHERE, GitDiff, GitLog
from agentd.agent.tools.results import Commits, Diff, GitChange, RepositoryStatus

_CODES = {
    **{"?": "not tracked", "A": "added", "D": "deleted", "R": "renamed", "C": "copied"},
    **{"M": "modified", "T": "type changed", "U": "in conflict"},
}


def render_status(found: RepositoryStatus) -> str:
    """Render the branch and the changed files."""
    head = f"On branch {render_code(found.branch)}" if found.branch else "No branch is checked out"
    if found.upstream:
        head += f", {found.ahead} ahead of and {found.behind} behind {render_code(found.upstream)}"
    if not found.changes:
        return f"{head}. Nothing is changed."
    more = "\n\nMore files are changed than are shown." if found.truncated else ""
    changed = count_noun(len(found.changes), "changed file")
    return f"{head}. {changed}:\n\n{_render_changes(found.changes)}{more}"


def render_log(use: GitLog, found: Commits) -> str:
    """Render the latest commits."""
    where = "" if use.path == ANYWHERE else f" that touched {render_code(use.path)}"
    if not found.commits:
        return f"There are no commits{where or ' yet'}."
    rows = [
        (
            render_code(commit.id),
            commit.at[:16].replace("T", " "),
            escape_cell(commit.author),
            escape_cell(commit.subject),
        )
        for commit in found.commits
    ]
    head = f"The latest {count_noun(len(rows), 'commit')}{where}:"
    place = "" if use.path == ANYWHERE else f" {use.path}"
    more = (
        f"\n\nOlder ones: {render_code(f'log {min(len(rows) * 2, 100)}{place}')}"
        if found.truncated
        else ""
    )
    return f"{head}\n\n{render_table(('commit', 'when', 'who', 'what'), rows)}{more}"


def render_diff(use: GitDiff, found: Diff) -> str:
    """Render a diff, and its size by file."""
    where = "" if use.path == ANYWHERE else f" in {render_code(use.path)}"
    what = f"Commit {render_code(use.commit)} changed" if use.commit else "Not committed yet"
    if not found.text.strip():
        return f"{what}{where}: nothing (files that git does not track are not compared)."
    more = (
        "\n\nThis is only the beginning: ask for one file, as `diff FILE`."
        if found.truncated
        else ""
    )
    return (
        f"{what}{where}:\n\n{_render_diff_sizes(found.text)}\n\n"
        f"{render_code_block(found.text.rstrip(), 'diff')}{more}"
    )


def render_changes(path: str, now: RepositoryStatus, difference: Diff, most: int) -> str:
    """Render what is changed, with a diff of at most ``most`` lines."""
    if path != ANYWHERE:
        return render_diff(GitDiff(path), difference)
    text = render_status(now)
    if not difference.text.strip():
        return text
    if difference.truncated or len(difference.text.splitlines()) > most:
        sizes = _render_diff_sizes(difference.text)
        return f"{text}\n\n{sizes}\n\nThe lines themselves: `diff` or `diff FILE`."
    return f"{text}\n\n{render_code_block(difference.text.rstrip(), 'diff')}"


def _render_changes(changes: Iterable[GitChange]) -> str:
    rows = []
    for change in changes:
        staged, unstaged = change.code[:1], change.code[1:]
        words = [_CODES.get(staged, ""), _CODES.get(unstaged, "")]
        state = " and ".join(dict.fromkeys(filter(None, words)))
        is_staged = " (staged)" if staged not in ".?" and unstaged == "." else ""
        name = render_code(change.path) + (
            f" (was {render_code(change.before)})" if change.before else ""
        )
        rows.append((name, state + is_staged))
    return render_table(("file", "state"), rows)


def _render_diff_sizes(text: str) -> str:
    """Render how many lines each file gained and lost."""
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
    rows = [(render_code(file), f"+{more:,}", f"−{less:,}") for file, (more, less) in sizes.items()]
    return render_table(("file", "added", "removed"), rows, numbers=(1, 2)) if rows else ""
