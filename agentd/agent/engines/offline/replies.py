"""The offline engine's replies: tool results in Markdown, with notes on what was left out."""

import re
from collections.abc import Iterable, Sequence

from agentd.agent.engines.offline.markdown import (
    LANGUAGES,
    count_noun,
    format_size,
    render_code,
    render_code_block,
    render_table,
)
from agentd.agent.engines.offline.replies_git import render_diff, render_log, render_status
from agentd.agent.engines.offline.requests import Count
from agentd.agent.text import sanitize
from agentd.agent.tools.model import (
    ANYWHERE,
    FindFiles,
    GitDiff,
    GitLog,
    ReadFile,
    RunCommand,
    SearchText,
    ToolUse,
)
from agentd.agent.tools.results import (
    CommandResult,
    Commits,
    Counts,
    Diff,
    DirListing,
    FileText,
    Outline,
    RepositoryStatus,
    SearchHit,
    SearchHits,
    ToolResult,
)

_MOST_SHOWN = 100
"""Hits shown of those found."""
_MOST_KINDS = 12


def render_missing(message: str, candidates: Sequence[str]) -> str:
    """Say that a file is missing, and which ones may be meant."""
    if not candidates:
        return f"{sanitize(message)} `/list` shows what there is."
    names = "\n".join(f"- {render_code(path)}" for path in candidates[:10])
    more = f"\n\n… and {len(candidates) - 10} more." if len(candidates) > 10 else ""
    return f"{sanitize(message)} Perhaps one of these:\n\n{names}{more}"


def render_result(use: ToolUse, brought: ToolResult) -> str:  # noqa: PLR0911 - one for each kind
    """Render the result of one tool."""
    match use, brought:
        case ReadFile(), FileText():
            return render_file(brought)
        case FindFiles(), DirListing():
            return render_found_files(use, brought)
        case GitDiff(), Diff():
            return render_diff(use, brought)
        case GitLog(), Commits():
            return render_log(use, brought)
        case RunCommand(), CommandResult():
            return render_command_result(use, brought)
        case _, Outline():
            return render_outline(brought)
        case _, RepositoryStatus():
            return render_status(brought)
    raise TypeError(f"{use.name} brought {type(brought).__name__}")


def render_listing(found: DirListing) -> str:
    """Render the entries of a folder."""
    if not found.entries:
        return f"{_describe_place(found.path)} is empty."
    prefix = "" if found.path == ANYWHERE else found.path.strip("/").removeprefix("./") + "/"
    width = max(len(sanitize(entry.path)) for entry in found.entries) - len(prefix) + 3
    signs = {"folder": "/", "link": " (link)", "other": " (special)", "file": ""}
    lines = [
        f"{sanitize(entry.path).removeprefix(prefix)}{signs[entry.kind]}".ljust(min(width, 60))
        + (f"{format_size(entry.size):>10}" if entry.kind == "file" else "")
        for entry in found.entries
    ]
    files = sum(entry.kind == "file" for entry in found.entries)
    folders = sum(entry.kind == "folder" for entry in found.entries)
    place = _describe_place(found.path)
    head = f"{place}: {count_noun(folders, 'folder')}, {count_noun(files, 'file')}."
    more = "\n\nThere is more than is shown: list a folder in it." if found.truncated else ""
    return f"{head}\n\n{render_code_block(chr(10).join(line.rstrip() for line in lines))}{more}"


def render_found_files(use: FindFiles, found: DirListing) -> str:
    """Render files found by name."""
    if not found.entries:
        return f"No file matches {render_code(use.pattern)}.{_describe_unfinished(found.truncated)}"
    names = [sanitize(entry.path) for entry in found.entries[:_MOST_SHOWN]]
    head = f"{count_noun(len(found.entries), 'file')} match{'es' * (len(found.entries) == 1)}"
    return (
        f"{head} {render_code(use.pattern)}:\n\n{render_code_block(chr(10).join(names))}"
        f"{_describe_shown(len(names), len(found.entries))}{_describe_unfinished(found.truncated)}"
    )


def render_file(text: FileText) -> str:
    """Render lines of a file, and how to get the next ones."""
    if not text.total:
        return f"{render_code(text.path)} is empty."
    total = f"{'' if text.counted else 'more than '}{count_noun(text.total, 'line')}"
    if not text.lines:
        return f"{render_code(text.path)} has {total}; there is no line {text.first}."
    last = text.first + len(text.lines) - 1
    whole = text.first == 1 and last == text.total and text.counted
    part = total if whole else f"lines {text.first}–{last} of {total}"
    notes = f", {format_size(text.size)}" + (
        f", {text.encoding}" if text.encoding != "utf-8" else ""
    )
    answer = f"{render_code(text.path)} ({part}{notes}):\n\n"
    answer += render_code_block(
        "\n".join(text.lines), LANGUAGES.get(_describe_suffix(text.path), "")
    )
    if text.shortened:
        answer += f"\n\n{count_noun(text.shortened, 'very long line')} cut off."
    if last < text.total or not text.counted:
        following = f"read {text.path} lines {last + 1}-{last + len(text.lines)}"
        answer += f"\n\nThe next lines: {render_code(following)}"
    return answer


def render_outline(found: Outline) -> str:
    """Render the definitions of a Python file."""
    doc = f"\n\n> {sanitize(found.doc)}" if found.doc else ""
    if not found.definitions:
        return f"{render_code(found.path)} defines no class and no function.{doc}"
    width = len(str(found.definitions[-1].line))
    lines = [
        f"{item.line:>{width}}  {'    ' * item.depth}{item.kind} {item.name}"
        + (f"({item.arguments})" if item.arguments or item.kind != "class" else "")
        + (f"  # {item.doc}" if item.doc else "")
        for item in found.definitions
    ]
    more = "\n\nThere are more, which are not shown." if found.truncated else ""
    count = count_noun(len(found.definitions), "definition")
    block = render_code_block("\n".join(lines), "python")
    return f"{render_code(found.path)}: {count}.{doc}\n\n{block}{more}"


def render_hits(use: SearchText, found: SearchHits) -> str:
    """Render the lines that contain a text, by file."""
    where = "" if use.path == ANYWHERE else f" in {render_code(use.path)}"
    if not found.hits:
        searched = f"{count_noun(found.searched, 'file')} searched"
        return f"{render_code(use.text)} is nowhere{where} ({searched}).{_render_notes(found)}"
    least = "At least " if found.truncated else ""
    count = f"{least}{count_noun(len(found.hits), 'line')}"
    files = count_noun(len({hit.path for hit in found.hits}), "file")
    shown = found.hits[:_MOST_SHOWN]
    return (
        f"{count} with {render_code(use.text)}{where}, in {files}:\n\n{_render_hits(shown)}"
        f"{_describe_shown(len(shown), len(found.hits))}{_render_notes(found)}"
    )


def render_definitions(use: SearchText, found: SearchHits) -> str:
    """Render the lines that define a word, as most languages do."""
    word = re.escape(use.text)
    defining = re.compile(
        rf"\b(?:def|class|function|func|fn|struct|enum|trait|interface|type|const|let|var|module)"
        rf"\s+{word}(?!\w)|^\s*(?:export\s+)?{word}\s*(?::[^=]*)?(?::=|=)(?!=)|^#define\s+{word}(?!\w)",
        re.IGNORECASE if use.text.islower() and not use.text.isidentifier() else 0,
    )
    places = [hit for hit in found.hits if defining.search(hit.text)]
    if not places:
        none = f"I found no definition of {render_code(use.text)}."
        return (
            f"{none} {render_hits(use, found)}" if found.hits else f"{none}{_render_notes(found)}"
        )
    uses = len(found.hits) - len(places)
    also = (
        f"\n\n{count_noun(uses, 'other line')} mention it: {render_code(f'search {use.text}')}"
        if uses
        else ""
    )
    heads = "1 place" if len(places) == 1 else f"{len(places)} places"
    return (
        f"{render_code(use.text)} is defined in {heads}:\n\n{_render_hits(places[:_MOST_SHOWN])}"
        f"{_describe_shown(min(len(places), _MOST_SHOWN), len(places))}{also}{_render_notes(found)}"
    )


def render_counts(wanted: Count, found: Counts) -> str:
    """Render the numbers of files, lines and words."""
    total = found.total
    asked = {"files": total.files, "lines": total.lines, "words": total.words}[wanted.what]
    kinds = ", ".join(render_code(suffix) for suffix in wanted.files.suffixes)
    kind = f" ({kinds})" if kinds else ""
    where = "" if wanted.files.path == ANYWHERE else f" in {render_code(wanted.files.path)}"
    noun = wanted.what[:-1]
    head = f"{'At least ' if found.truncated else ''}**{count_noun(asked, noun)}**{kind}{where}."
    over = (
        f" {count_noun(found.passed_over, 'file')} could not be read." if found.passed_over else ""
    )
    if not total.files:
        return head + over
    return f"{head}\n\n{_describe_kinds(found)}{_describe_kinds_left(found)}{over}"


def render_command_result(use: RunCommand, ended: CommandResult) -> str:
    """Render the output of a command line and how it ended."""
    if ended.late:
        end = f"was ended after {count_noun(use.seconds, 'second')}"
    elif ended.code < 0:
        end = f"was ended by signal {-ended.code}"
    else:
        end = "succeeded" if ended.code == 0 else f"failed with exit code {ended.code}"
    output = ended.output.strip("\n")
    output_text = f":\n\n{render_code_block(output)}" if output else ", without output."
    return f"{render_code(use.command)} {end}{output_text}"


def render_description(
    found: DirListing, readme: FileText | None, counted: Counts, now: RepositoryStatus | None
) -> str:
    """Describe a folder by its files."""
    parts = [f"## {_describe_place(found.path)}" if found.path != ANYWHERE else "## This folder"]
    if readme:
        title, paragraph = extract_introduction(readme.lines)
        quoted = "\n>\n> ".join(part for part in (title and f"**{title}**", paragraph) if part)
        if quoted:
            parts.append(f"{render_code(readme.path)} says:\n\n> {quoted}")
    else:
        parts.append("There is no README here that says what this is.")
    total = counted.total
    size = f"{count_noun(total.files, 'file')}, {count_noun(total.lines, 'line')}"
    least = "at least " if counted.truncated else ""
    parts.append(f"**Size**: {least}{size}, {format_size(total.size)}.")
    if total.files:
        parts.append(_describe_kinds(counted) + _describe_kinds_left(counted))
    names = [
        render_code(entry.path.rpartition("/")[2] + "/" * (entry.kind == "folder"))
        for entry in found.entries
    ]
    more = f" … and {len(names) - 40} more" if len(names) > 40 else ""
    if names:
        parts.append(f"**In it**: {', '.join(names[:40])}{more}")
    if now:
        changes = count_noun(len(now.changes), "changed file") if now.changes else "nothing changed"
        branch = f"on branch {render_code(now.branch)}" if now.branch else "no branch checked out"
        parts.append(f"**Git**: {branch}, {changes}.")
    return "\n\n".join(parts)


def extract_introduction(lines: Sequence[str]) -> tuple[str, str]:
    """Return the title and first paragraph of a README, without badges and images."""
    title, in_code = "", False
    paragraph: list[str] = []
    for line in (sanitize(line).strip() for line in lines):
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


def _describe_place(path: str) -> str:
    return "The workspace" if path == ANYWHERE else render_code(path)


def _describe_suffix(path: str) -> str:
    return "." + path.rpartition(".")[2].lower() if "." in path else ""


def _render_hits(shown: Iterable[SearchHit]) -> str:
    return render_code_block(
        "\n".join(f"{hit.path}:{hit.line}: {hit.text.strip()}" for hit in shown)
    )


def _describe_shown(shown: int, found: int) -> str:
    return f"\n\nThese are the first {shown:,} of {found:,}." if shown < found else ""


def _describe_unfinished(truncated: bool) -> str:
    return " There is more than I could look at: name a folder." if truncated else ""


def _render_notes(found: SearchHits) -> str:
    over = count_noun(found.passed_over, "file")
    notes = [
        f"{over} could not be read or are too large to be searched." * bool(found.passed_over),
        "There may be more: name a folder or a file to look in." * found.truncated,
    ]
    text = " ".join(filter(None, notes))
    return f"\n\n{text}" if text else ""


def _describe_kinds(found: Counts) -> str:
    rows = [
        (
            render_code(tally.suffix) if tally.suffix else "(none)",
            *(f"{number:,}" for number in (tally.files, tally.lines, tally.words)),
        )
        for tally in found.tallies[:_MOST_KINDS]
    ]
    return render_table(("kind", "files", "lines", "words"), rows, numbers=(1, 2, 3))


def _describe_kinds_left(found: Counts) -> str:
    left = found.tallies[_MOST_KINDS:]
    files = count_noun(sum(tally.files for tally in left), "file")
    return f"\n\n… and {files} of {count_noun(len(left), 'other kind')}." if left else ""
