"""The offline engine's replies: what tools brought, in Markdown that tells what was left out."""

import re
from collections.abc import Iterable, Sequence

from agentd.agent.offline.markdown import (
    LANGUAGES,
    code,
    fenced,
    human,
    several,
    table,
)
from agentd.agent.offline.replies_git import diff, log, status
from agentd.agent.offline.requests import Count
from agentd.agent.results import (
    Commits,
    Counts,
    Diff,
    FileText,
    Hit,
    Hits,
    Listing,
    Outline,
    Ran,
    Status,
    ToolResult,
)
from agentd.agent.text import plain
from agentd.agent.tools import (
    ANYWHERE,
    FindFiles,
    GitDiff,
    GitLog,
    ReadFile,
    RunCommand,
    SearchText,
    ToolUse,
)

_MOST_SHOWN = 100
"""Hits that are shown of those found."""
_MOST_KINDS = 12


def missing(message: str, candidates: Sequence[str]) -> str:
    """That a file is not there, and which may be meant."""
    if not candidates:
        return f"{plain(message)} `/list` shows what there is."
    names = "\n".join(f"- {code(path)}" for path in candidates[:10])
    more = f"\n\n… and {len(candidates) - 10} more." if len(candidates) > 10 else ""
    return f"{plain(message)} Perhaps one of these:\n\n{names}{more}"


def result(use: ToolUse, brought: ToolResult) -> str:  # noqa: PLR0911 - one for each kind
    """What one tool brought."""
    match use, brought:
        case ReadFile(), FileText():
            return file_text(brought)
        case FindFiles(), Listing():
            return found_files(use, brought)
        case GitDiff(), Diff():
            return diff(use, brought)
        case GitLog(), Commits():
            return log(use, brought)
        case RunCommand(), Ran():
            return ran(use, brought)
        case _, Outline():
            return outline(brought)
        case _, Status():
            return status(brought)
    raise TypeError(f"{use.name} brought {type(brought).__name__}")


def listing(found: Listing) -> str:
    """The entries of a folder."""
    if not found.entries:
        return f"{_where(found.path)} is empty."
    prefix = "" if found.path == ANYWHERE else found.path.strip("/").removeprefix("./") + "/"
    width = max(len(plain(entry.path)) for entry in found.entries) - len(prefix) + 3
    signs = {"folder": "/", "link": " (link)", "other": " (special)", "file": ""}
    lines = [
        f"{plain(entry.path).removeprefix(prefix)}{signs[entry.kind]}".ljust(min(width, 60))
        + (f"{human(entry.size):>10}" if entry.kind == "file" else "")
        for entry in found.entries
    ]
    files = sum(entry.kind == "file" for entry in found.entries)
    folders = sum(entry.kind == "folder" for entry in found.entries)
    head = f"{_where(found.path)}: {several(folders, 'folder')}, {several(files, 'file')}."
    more = "\n\nThere is more than is shown: list a folder in it." if found.cut else ""
    return f"{head}\n\n{fenced(chr(10).join(line.rstrip() for line in lines))}{more}"


def found_files(use: FindFiles, found: Listing) -> str:
    """Files that were found by name."""
    if not found.entries:
        return f"No file matches {code(use.pattern)}.{_unfinished(found.cut)}"
    names = [plain(entry.path) for entry in found.entries[:_MOST_SHOWN]]
    head = f"{several(len(found.entries), 'file')} match{'es' * (len(found.entries) == 1)}"
    return (
        f"{head} {code(use.pattern)}:\n\n{fenced(chr(10).join(names))}"
        f"{_shown(len(names), len(found.entries))}{_unfinished(found.cut)}"
    )


def file_text(text: FileText) -> str:
    """Lines of a file, and how to get the next ones."""
    if not text.total:
        return f"{code(text.path)} is empty."
    total = f"{'' if text.counted else 'more than '}{several(text.total, 'line')}"
    if not text.lines:
        return f"{code(text.path)} has {total}; there is no line {text.first}."
    last = text.first + len(text.lines) - 1
    whole = text.first == 1 and last == text.total and text.counted
    part = total if whole else f"lines {text.first}–{last} of {total}"
    notes = f", {human(text.size)}" + (f", {text.encoding}" if text.encoding != "utf-8" else "")
    answer = f"{code(text.path)} ({part}{notes}):\n\n"
    answer += fenced("\n".join(text.lines), LANGUAGES.get(_suffix(text.path), ""))
    if text.shortened:
        answer += f"\n\n{several(text.shortened, 'very long line')} cut off."
    if last < text.total or not text.counted:
        following = f"read {text.path} lines {last + 1}-{last + len(text.lines)}"
        answer += f"\n\nThe next lines: {code(following)}"
    return answer


def outline(found: Outline) -> str:
    """The definitions of a Python file."""
    doc = f"\n\n> {plain(found.doc)}" if found.doc else ""
    if not found.definitions:
        return f"{code(found.path)} defines no class and no function.{doc}"
    width = len(str(found.definitions[-1].line))
    lines = [
        f"{item.line:>{width}}  {'    ' * item.depth}{item.kind} {item.name}"
        + (f"({item.arguments})" if item.arguments or item.kind != "class" else "")
        + (f"  # {item.doc}" if item.doc else "")
        for item in found.definitions
    ]
    more = "\n\nThere are more, which are not shown." if found.cut else ""
    count = several(len(found.definitions), "definition")
    return f"{code(found.path)}: {count}.{doc}\n\n{fenced(chr(10).join(lines), 'python')}{more}"


def hits(use: SearchText, found: Hits) -> str:
    """The lines that hold a text, by file."""
    where = "" if use.path == ANYWHERE else f" in {code(use.path)}"
    if not found.hits:
        searched = f"{several(found.searched, 'file')} searched"
        return f"{code(use.text)} is nowhere{where} ({searched}).{_notes(found)}"
    least = "At least " if found.cut else ""
    count = f"{least}{several(len(found.hits), 'line')}"
    files = several(len({hit.path for hit in found.hits}), "file")
    shown = found.hits[:_MOST_SHOWN]
    return (
        f"{count} with {code(use.text)}{where}, in {files}:\n\n{_hit_lines(shown)}"
        f"{_shown(len(shown), len(found.hits))}{_notes(found)}"
    )


def definitions(use: SearchText, found: Hits) -> str:
    """Those lines that define a word, in the manner of most languages."""
    word = re.escape(use.text)
    defining = re.compile(
        rf"\b(?:def|class|function|func|fn|struct|enum|trait|interface|type|const|let|var|module)"
        rf"\s+{word}(?!\w)|^\s*(?:export\s+)?{word}\s*(?::[^=]*)?(?::=|=)(?!=)|^#define\s+{word}(?!\w)",
        re.IGNORECASE if use.text.islower() and not use.text.isidentifier() else 0,
    )
    places = [hit for hit in found.hits if defining.search(hit.text)]
    if not places:
        none = f"I found no definition of {code(use.text)}."
        return f"{none} {hits(use, found)}" if found.hits else f"{none}{_notes(found)}"
    uses = len(found.hits) - len(places)
    also = (
        f"\n\n{several(uses, 'other line')} mention it: {code(f'search {use.text}')}"
        if uses
        else ""
    )
    heads = "1 place" if len(places) == 1 else f"{len(places)} places"
    return (
        f"{code(use.text)} is defined in {heads}:\n\n{_hit_lines(places[:_MOST_SHOWN])}"
        f"{_shown(min(len(places), _MOST_SHOWN), len(places))}{also}{_notes(found)}"
    )


def counts(wanted: Count, found: Counts) -> str:
    """How many files, lines and words."""
    total = found.total
    asked = {"files": total.files, "lines": total.lines, "words": total.words}[wanted.what]
    kinds = ", ".join(code(suffix) for suffix in wanted.files.suffixes)
    kind = f" ({kinds})" if kinds else ""
    where = "" if wanted.files.path == ANYWHERE else f" in {code(wanted.files.path)}"
    noun = wanted.what[:-1]
    head = f"{'At least ' if found.cut else ''}**{several(asked, noun)}**{kind}{where}."
    over = f" {several(found.passed_over, 'file')} could not be read." if found.passed_over else ""
    if not total.files:
        return head + over
    return f"{head}\n\n{_kinds(found)}{_kinds_left(found)}{over}"


def ran(use: RunCommand, ended: Ran) -> str:
    """What a command line said, and how it ended."""
    if ended.late:
        end = f"was ended after {several(use.seconds, 'second')}"
    elif ended.code < 0:
        end = f"was ended by signal {-ended.code}"
    else:
        end = "went well" if ended.code == 0 else f"failed with exit code {ended.code}"
    output = ended.output.strip("\n")
    said = f":\n\n{fenced(output)}" if output else ", and said nothing."
    return f"{code(use.command)} {end}{said}"


def description(
    found: Listing, readme: FileText | None, counted: Counts, now: Status | None
) -> str:
    """What a folder is, as far as its files tell."""
    parts = [f"## {_where(found.path)}" if found.path != ANYWHERE else "## This folder"]
    if readme:
        title, paragraph = introduction(readme.lines)
        quoted = "\n>\n> ".join(part for part in (title and f"**{title}**", paragraph) if part)
        if quoted:
            parts.append(f"{code(readme.path)} says:\n\n> {quoted}")
    else:
        parts.append("There is no README here that would tell what this is.")
    total = counted.total
    size = f"{several(total.files, 'file')}, {several(total.lines, 'line')}, {human(total.size)}"
    parts.append(f"**Size**: {'at least ' if counted.cut else ''}{size}.")
    if total.files:
        parts.append(_kinds(counted) + _kinds_left(counted))
    names = [
        code(entry.path.rpartition("/")[2] + "/" * (entry.kind == "folder"))
        for entry in found.entries
    ]
    more = f" … and {len(names) - 40} more" if len(names) > 40 else ""
    if names:
        parts.append(f"**In it**: {', '.join(names[:40])}{more}")
    if now:
        changes = several(len(now.changes), "changed file") if now.changes else "nothing changed"
        branch = f"on branch {code(now.branch)}" if now.branch else "no branch checked out"
        parts.append(f"**Git**: {branch}, {changes}.")
    return "\n\n".join(parts)


def introduction(lines: Sequence[str]) -> tuple[str, str]:
    """The title and the first paragraph of a README, without badges, pictures and rules."""
    title, in_code = "", False
    paragraph: list[str] = []
    for line in (plain(line).strip() for line in lines):
        if line.startswith(("```", "~~~")):
            in_code = not in_code
        elif line.startswith("#"):
            if paragraph:
                break
            title = title or line.strip("# ")
        elif len(paragraph) == 1 and not title and re.match(r"[-=~*]{3,}$", line):
            title = paragraph.pop()
        elif in_code or re.match(r"\[?!\[|<|\.\. |[-=*~_]{3,}$|\[[^]]*\]:", line):
            continue
        elif line:
            paragraph.append(line)
        elif paragraph:
            break
    return title, " ".join(paragraph)[:1000]


def _where(path: str) -> str:
    return "The workspace" if path == ANYWHERE else code(path)


def _suffix(path: str) -> str:
    return "." + path.rpartition(".")[2].lower() if "." in path else ""


def _hit_lines(shown: Iterable[Hit]) -> str:
    return fenced("\n".join(f"{hit.path}:{hit.line}: {hit.text.strip()}" for hit in shown))


def _shown(shown: int, found: int) -> str:
    return f"\n\nThese are the first {shown:,} of {found:,}." if shown < found else ""


def _unfinished(cut: bool) -> str:
    return " There is more than I could look at: name a folder." if cut else ""


def _notes(found: Hits) -> str:
    over = several(found.passed_over, "file")
    notes = [
        f"{over} could not be read or are too large to be searched." * bool(found.passed_over),
        "There may be more: name a folder or a file to look in." * found.cut,
    ]
    text = " ".join(filter(None, notes))
    return f"\n\n{text}" if text else ""


def _kinds(found: Counts) -> str:
    rows = [
        (
            code(tally.suffix) if tally.suffix else "(none)",
            *(f"{number:,}" for number in (tally.files, tally.lines, tally.words)),
        )
        for tally in found.tallies[:_MOST_KINDS]
    ]
    return table(("kind", "files", "lines", "words"), rows, numbers=(1, 2, 3))


def _kinds_left(found: Counts) -> str:
    left = found.tallies[_MOST_KINDS:]
    files = several(sum(tally.files for tally in left), "file")
    return f"\n\n… and {files} of {several(len(left), 'other kind')}." if left else ""
