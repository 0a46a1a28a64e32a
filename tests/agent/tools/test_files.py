"""The tools on real folders, pleasant and hostile ones."""

import asyncio
import os
import threading
from collections.abc import Awaitable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.agent.engines.native.tool_calls import render_result
from agentd.agent.tools.files import LARGEST_SEARCHED, LONGEST_LINE, FolderWorkspace
from agentd.agent.tools.model import (
    LONGEST_LISTING,
    LONGEST_READING,
    CountFiles,
    FindFiles,
    ListFiles,
    OutlineFile,
    ReadFile,
    SearchText,
    ViewFile,
)
from agentd.core.errors import AgentdError, BadRequest, Forbidden, NotFound, Unavailable
from agentd.llm.conversation import TextPart
from agentd.system.protected_paths import ProtectedPlaces
from tests.conftest import until
from tests.support.examples import limit_examples
from tests.support.processor import busy_for_less_than

T = TypeVar("T")


def do(work: Awaitable[T]) -> T:
    async def wait() -> T:
        async with asyncio.timeout(100):
            return await work

    return asyncio.run(wait())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project with one of everything that is awkward."""
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "app.py").write_text('"""App."""\n\ndef main():\n    todo = "TODO: x"\n')
    (work / "src" / "lib.js").write_text("// todo later\nlet todos = 1;")
    (work / "notes.txt").write_text("one two\nthree\n\nfour")
    (work / "data.bin").write_bytes(b"\x00\x01TODO\n")
    (work / "latin.txt").write_bytes("Grüße TODO\ncafé".encode("latin-1"))
    (work / "long.min.js").write_text("x" * 700_000 + "TODO" + "y" * 300_000)
    (work / "empty").write_text("")
    (work / "broken").symlink_to("nowhere")
    (tmp_path / "secret").write_text("TODO secret")
    (work / "escape").symlink_to(tmp_path / "secret")
    os.mkfifo(work / "pipe")
    (work / "node_modules").mkdir()
    (work / "node_modules" / "x.js").write_text("TODO")
    return work


@pytest.fixture
def workspace(root: Path) -> FolderWorkspace:
    return FolderWorkspace(str(root))


def test_the_files_of_skills_are_read_by_their_absolute_paths_and_nothing_beside_them(
    root: Path, tmp_path: Path
):
    skills = tmp_path / "config" / "skills"
    (skills / "review").mkdir(parents=True)
    (skills / "review" / "more.md").write_text("Read all of it.")
    (skills / "review" / "escape").symlink_to(tmp_path / "secret")
    (skills / "review" / ".env").write_text("KEY=1")
    (skills.parent / "models.yml").write_text("a secret")
    protected = ProtectedPlaces(config=str(skills.parent))
    workspace = FolderWorkspace(str(root), protected=protected, skills=str(skills))
    path = str(skills / "review" / "more.md")
    assert do(workspace.read_file(ReadFile(path))).lines == ("Read all of it.",)
    assert do(workspace.read_file(ReadFile(path))).path == path
    listed = do(workspace.list_files(ListFiles(f"{skills}/review"))).entries
    assert [one.path for one in listed] == [f"{skills}/review/escape", path]
    for other in (".env", "escape", "../../models.yml", "../../../secret"):
        with pytest.raises(Forbidden):
            do(workspace.read_file(ReadFile(f"{skills}/review/{other}")))
    with pytest.raises(BadRequest):
        do(workspace.read_file(ReadFile(str(skills))))
    with pytest.raises(Forbidden):
        do(FolderWorkspace(str(root)).read_file(ReadFile(path)))


def test_a_listing_shows_kinds_and_sizes_by_name(workspace):
    listing = do(workspace.list_files(ListFiles()))
    kinds = {entry.path: entry.kind for entry in listing.entries}
    assert kinds["src"] == "folder"
    assert kinds["pipe"] == "other"
    assert kinds["escape"] == kinds["broken"] == "link"
    assert next(entry.size for entry in listing.entries if entry.path == "notes.txt") == 19
    assert list(kinds) == sorted(kinds)
    assert not listing.truncated


def test_a_listing_goes_as_deep_as_asked(workspace):
    shallow = {entry.path for entry in do(workspace.list_files(ListFiles())).entries}
    deep = {entry.path for entry in do(workspace.list_files(ListFiles(depth=2))).entries}
    assert deep - shallow == {"src/app.py", "src/lib.js"}


def test_a_long_listing_is_cut_and_says_so(workspace, root):
    for number in range(LONGEST_LISTING + 1):
        (root / "src" / str(number)).touch()
    listing = do(workspace.list_files(ListFiles("src")))
    assert (len(listing.entries), listing.truncated) == (LONGEST_LISTING, True)


def test_listing_a_file_or_nothing_is_an_error(workspace):
    with pytest.raises(BadRequest, match="is a file"):
        do(workspace.list_files(ListFiles("notes.txt")))
    with pytest.raises(NotFound, match="no none"):
        do(workspace.list_files(ListFiles("none")))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("app", {"src/app.py"}),
        ("APP.PY", {"src/app.py"}),
        ("*.js", {"src/lib.js", "long.min.js"}),
        ("src/*", {"src/app.py", "src/lib.js"}),
        ("nothing", set()),
        ("[z-a", set()),
    ],
)
def test_files_are_found_by_name(workspace, pattern, found):
    listing = do(workspace.find_files(FindFiles(pattern)))
    assert {entry.path for entry in listing.entries} == found


def test_a_hostile_pattern_takes_no_time(workspace, root):
    (root / ("a" * 200)).touch()
    with busy_for_less_than(2):
        assert do(workspace.find_files(FindFiles("*a" * 90 + "b"))).entries == ()
    with pytest.raises(BadRequest):
        do(workspace.find_files(FindFiles("*a" * 500)))


def test_a_file_is_read_with_its_numbers(workspace):
    text = do(workspace.read_file(ReadFile("notes.txt")))
    assert text.lines == ("one two", "three", "", "four")
    assert (text.first, text.total, text.size, text.encoding) == (1, 4, 19, "utf-8")
    assert text.counted


@pytest.mark.parametrize(
    ("first", "last", "begins", "lines"),
    [
        (2, 3, 2, ("three", "")),
        (3, 0, 3, ("", "four")),
        (4, 900, 4, ("four",)),
        (9, 12, 9, ()),
        (-2, 0, 3, ("", "four")),
        (-99, 0, 1, ("one two", "three", "", "four")),
        (0, 1, 1, ("one two",)),
    ],
)
def test_some_lines_of_a_file(workspace, first, last, begins, lines):
    text = do(workspace.read_file(ReadFile("notes.txt", first, last)))
    assert (text.first, text.lines, text.total) == (begins, lines, 4)


def test_a_long_file_is_read_in_parts(workspace, root):
    (root / "big").write_text("".join(f"line {number}\n" for number in range(1, 5001)))
    text = do(workspace.read_file(ReadFile("big")))
    assert (len(text.lines), text.total) == (LONGEST_READING, 5000)
    assert do(workspace.read_file(ReadFile("big", -1))).lines == ("line 5000",)


def test_the_last_lines_end_with_the_last_one_also_where_they_are_long(workspace, root):
    (root / "long.log").write_text("".join(f"{number} {'x' * 400}\n" for number in range(1, 1001)))
    text = do(workspace.read_file(ReadFile("long.log", -400)))
    (shown,) = render_result(text)
    assert isinstance(shown, TextPart)
    assert shown.text.splitlines()[-1].startswith("1000\t1000 x")
    assert text.first == 1001 - len(text.lines) and text.lines[0].startswith(f"{text.first} ")
    assert len(text.lines) > 100


def test_an_enormous_line_is_shortened(workspace):
    text = do(workspace.read_file(ReadFile("long.min.js")))
    assert (len(text.lines), text.total, text.shortened) == (1, 1, 1)
    assert len(text.lines[0]) == LONGEST_LINE


def test_a_line_is_never_cut_within_a_letter(workspace, root):
    (root / "umlauts").write_text("x" + "ü" * 3000 + "\nend")
    text = do(workspace.read_file(ReadFile("umlauts")))
    assert text.encoding == "utf-8"
    assert set(text.lines[0]) == {"x", "ü"}


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize(
    ("line", "is_cut"), [("x" * 1999 + "é", 1), ("x" * 1998 + "é", 0), ("x" * 2002, 1)]
)
def test_a_line_is_cut_that_is_longer_than_the_longest(workspace, root, line, end, is_cut):
    """By one byte, too; and the rest of its file is read as it is written."""
    (root / "border").write_text(f"é\n{line}{end}", newline="")
    text = do(workspace.read_file(ReadFile("border")))
    assert (text.encoding, text.lines[0], text.shortened) == ("utf-8", "é", is_cut)
    assert text.lines[1] == line.encode()[:LONGEST_LINE].decode(errors="ignore")


def test_encodings_are_reported(workspace, root):
    text = do(workspace.read_file(ReadFile("latin.txt")))
    assert (text.lines, text.encoding) == (("Grüße TODO", "café"), "latin-1")
    (root / "bom").write_bytes(b"\xef\xbb\xbfhello\r\nthere\r\n")
    assert do(workspace.read_file(ReadFile("bom"))).lines == ("hello", "there")


def test_what_is_no_text_is_not_read(workspace):
    with pytest.raises(BadRequest, match="not a text file"):
        do(workspace.read_file(ReadFile("data.bin")))
    with pytest.raises(BadRequest, match="pipe"):
        do(workspace.read_file(ReadFile("pipe")))
    with pytest.raises(Forbidden):
        do(workspace.read_file(ReadFile("escape")))
    with pytest.raises(NotFound):
        do(workspace.read_file(ReadFile("broken")))
    assert do(workspace.read_file(ReadFile("empty"))).total == 0


def search_paths(workspace: FolderWorkspace, text: str, **more) -> set[str]:
    hits = do(workspace.search_text(SearchText(text, **more))).hits
    return {f"{hit.path}:{hit.line}" for hit in hits}


def test_a_search_minds_case_only_if_the_text_has_capitals(workspace):
    assert search_paths(workspace, "todo") == {
        *("src/app.py:4", "src/lib.js:1", "src/lib.js:2", "latin.txt:1", "long.min.js:1"),
    }
    assert search_paths(workspace, "TODO") == {"src/app.py:4", "latin.txt:1", "long.min.js:1"}


def test_a_search_goes_neither_into_binaries_links_nor_generated_folders(workspace):
    paths = {place.rpartition(":")[0] for place in search_paths(workspace, "TODO")}
    assert not paths & {"data.bin", "escape", "pipe", "node_modules/x.js"}


def test_a_search_can_be_narrowed(workspace):
    assert search_paths(workspace, "todo", path="src") == {
        "src/app.py:4",
        "src/lib.js:1",
        "src/lib.js:2",
    }
    assert search_paths(workspace, "todo", path="src/app.py") == {"src/app.py:4"}
    assert search_paths(workspace, "todo", suffixes=(".js",), whole_word=True) == {"src/lib.js:1"}
    assert search_paths(workspace, "a.p") == set()


def test_a_hit_in_an_enormous_line_is_shown_around_the_text(workspace):
    hits = do(workspace.search_text(SearchText("TODO", "long.min.js"))).hits
    assert len(hits[0].text) < 300
    assert "xTODOy" in hits[0].text
    assert hits[0].text.startswith("…")
    assert hits[0].text.endswith("…")


def test_a_search_is_cut_at_its_limit(workspace, root):
    (root / "many").write_text("needle\n" * 50)
    hits = do(workspace.search_text(SearchText("needle", limit=10)))
    assert (len(hits.hits), hits.truncated) == (10, True)
    hits = do(workspace.search_text(SearchText("needle", limit=50)))
    assert (len(hits.hits), hits.truncated) == (50, False)


def test_a_file_too_large_to_search_is_counted_as_passed_over(workspace, root):
    with open(root / "huge", "wb") as huge:
        huge.truncate(LARGEST_SEARCHED + 1)
    assert do(workspace.search_text(SearchText("needle"))).passed_over == 1


def test_searching_for_nothing_is_an_error(workspace):
    with pytest.raises(BadRequest):
        do(workspace.search_text(SearchText("  ")))


def test_counts_go_by_kind(workspace):
    counts = do(workspace.count_files(CountFiles()))
    tallies = {tally.suffix: tally for tally in counts.tallies}
    assert (tallies[".txt"].files, tallies[".txt"].lines, tallies[".txt"].words) == (2, 6, 7)
    assert (tallies[".bin"].files, tallies[".bin"].lines) == (1, 0)
    assert tallies[".py"].lines == 4
    assert counts.total.files == 7
    one = do(workspace.count_files(CountFiles("notes.txt"))).total
    assert (one.files, one.lines, one.words, one.size) == (1, 4, 4, 19)
    assert do(workspace.count_files(CountFiles(suffixes=(".py",)))).total.files == 1


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=limit_examples(60),
)
@given(text=st.text("ab \n", max_size=40), times=st.sampled_from([1, 7000]))
def test_lines_and_words_are_counted_right_over_block_ends(root, text, times):
    content = text * times
    (root / "counted").write_text(content)
    total = do(FolderWorkspace(str(root)).count_files(CountFiles("counted"))).total
    assert (total.lines, total.words) == (len(content.splitlines()), len(content.split()))


def test_an_outline_shows_definitions_with_lines(workspace, root):
    (root / "o.py").write_text(
        '"""Doc.\n\nMore."""\nclass A(B, metaclass=M):\n    """An A."""\n'
        "    async def f(self, x: int = 1, *, y): ...\n"
        "if True:\n    def g():\n        '''Gee.'''\n        def h(): ...\n"
    )
    outline = do(workspace.outline_file(OutlineFile("o.py")))
    assert outline.doc == "Doc."
    assert [(d.kind, d.name, d.line, d.depth, d.arguments, d.doc) for d in outline.definitions] == [
        ("class", "A", 4, 0, "B, metaclass=M", "An A."),
        ("async def", "f", 6, 1, "self, x: int=1, *, y", ""),
        ("def", "g", 8, 0, "", "Gee."),
        ("def", "h", 10, 1, "", ""),
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"def f(:\n", "o.py:1: this is not valid Python"),
        (b"x = 1\0", "not valid Python"),
        (b"(" * 500_000, "not valid Python|too complicated"),
        (b"-" * 500_000 + b"1", "not valid Python|too complicated"),
        (b"x" + b".x" * 300_000, "not valid Python|too complicated"),
        (b"x = '" + b"a" * 2**20 + b"'", "too large"),
    ],
)
def test_hostile_source_is_reported_and_brings_nothing_down(workspace, root, source, said):
    (root / "o.py").write_bytes(source)
    with pytest.raises(BadRequest, match=said):
        do(workspace.outline_file(OutlineFile("o.py")))


def test_only_python_is_outlined(workspace):
    with pytest.raises(BadRequest, match="not a Python file"):
        do(workspace.outline_file(OutlineFile("notes.txt")))


def test_a_workspace_that_vanished_is_reported(workspace, root):
    root.rename(root.parent / "elsewhere")
    for work in (
        workspace.list_files(ListFiles()),
        workspace.read_file(ReadFile("notes.txt")),
        workspace.search_text(SearchText("x")),
        workspace.count_files(CountFiles()),
        workspace.outline_file(OutlineFile("src/app.py")),
    ):
        with pytest.raises(Unavailable, match=r"workspace .* cannot be opened"):
            do(work)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=limit_examples(100),
)
@given(path=st.text(), text=st.text(), first=st.integers(), last=st.integers())
def test_whatever_is_asked_only_our_errors_come(root, path, text, first, last):
    workspace = FolderWorkspace(str(root))
    for work in (
        workspace.list_files(ListFiles(path, first)),
        workspace.read_file(ReadFile(path, first, last)),
        workspace.read_file(ReadFile("notes.txt", first, last)),
        workspace.search_text(SearchText(text, limit=last)),
        workspace.find_files(FindFiles(text)),
    ):
        with suppress(AgentdError):
            do(work)


def test_the_loop_stays_free_while_there_is_much_to_do(root):
    may_work = threading.Event()

    async def run_scenario(threads: Executor) -> None:
        workspace = FolderWorkspace(str(root), executor=threads)
        threads.submit(may_work.wait, 60)
        work = asyncio.ensure_future(workspace.search_text(SearchText("three")))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not work.done()
        may_work.set()
        assert (await work).hits

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(run_scenario(threads))


def test_work_ends_soon_when_nobody_waits_for_it(workspace, root, monkeypatch):
    for number in range(200):
        (root / f"file{number}").write_text("nothing\n")
    measured, gone = [], threading.Event()

    def search_slowly(*given) -> tuple[int, int]:
        measured.append(given)
        assert gone.wait(60)
        return 0, 0

    monkeypatch.setattr("agentd.agent.tools.files._measure", search_slowly)

    async def run_scenario() -> None:
        work = asyncio.ensure_future(workspace.count_files(CountFiles()))
        await until(lambda: measured)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        gone.set()

    asyncio.run(run_scenario())  # waits for the threads too
    assert len(measured) == 1


def test_a_file_that_the_disk_does_not_give_is_told():
    """The memory of a process is a file of which the first bytes cannot be read."""
    workspace = FolderWorkspace("/proc/self")
    with pytest.raises(Unavailable, match="mem cannot be read: Input/output error"):
        do(workspace.read_file(ReadFile("mem")))
    with pytest.raises(Unavailable, match="mem cannot be read: Input/output error"):
        do(workspace.view_file(ViewFile("mem")))


def test_files_that_the_disk_does_not_give_are_passed_over():
    workspace = FolderWorkspace("/proc/self")
    found = do(workspace.search_text(SearchText("x", suffixes=("mem",), limit=1)))
    assert found.passed_over >= 1
    assert do(workspace.count_files(CountFiles("mem"))).passed_over == 1
