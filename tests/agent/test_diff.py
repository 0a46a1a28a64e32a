"""Diffs of files for a person: right, and bounded whatever the texts are."""

import time

from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.diff import MAX_COMPARED_BYTES, MAX_DIFF, make_diff

LINES = st.lists(st.sampled_from(["a", "b", "\f", "c\u2028d"]), max_size=40)


def rebuild(before: list[str], diff: str) -> list[str]:
    """Apply the hunks of a diff, whose line numbers must be right, and return the lines."""
    after, at = [], 0
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            place, count = line.split()[1][1:].split(",")
            first = int(place) - (1 if int(count) else 0)
            after += before[at:first]
            at = first
        elif line[0] == "+":
            after.append(line[1:])
        else:
            assert before[at] == line[1:]
            at += 1
            after += [line[1:]] if line[0] == " " else []
    return after + before[at:]


@given(LINES, LINES, LINES, LINES)
def test_the_hunks_lead_from_one_text_to_the_other(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    before, after = head + old + tail, head + new + tail
    diff = make_diff("f", "\n".join(before), "\n".join(after))
    if "\n".join(before) == "\n".join(after):
        assert diff == ""
    else:
        assert rebuild(before, diff) == after


def test_a_long_change_is_one_replacement() -> None:
    before = [f"line {number}" for number in range(1000)]
    after = [*before[:10], *(f"other {number}" for number in range(500)), *before[900:]]
    diff = make_diff("f", "\n".join(before), "\n".join(after))
    assert rebuild(before, diff) == after
    assert diff.count("@@ -") == 1


def test_new_and_deleted_files_say_so() -> None:
    new = "--- /dev/null\n+++ b/a/b.py\n@@ -0,0 +1,2 @@\n+x\n+y"
    assert make_diff("a/b.py", None, "x\ny\n") == new
    assert make_diff("a/b.py", "x\n", None) == "--- a/a/b.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x"


def test_a_diff_is_cut_and_huge_texts_are_not_compared() -> None:
    diff = make_diff("f", "", "line\n" * 50_000)
    assert MAX_DIFF - 100 < len(diff) < MAX_DIFF + 100
    assert make_diff("f", "", "x" * (MAX_COMPARED_BYTES + 1)) == ""


def test_texts_that_are_made_to_be_costly_are_not() -> None:
    """Lines that are nearly all the same, in another order."""
    before = "\n".join("ab"[number % 2] for number in range(100_000))
    after = "\n".join("ba"[number % 3 % 2] for number in range(100_000))
    start = time.process_time()
    make_diff("f", before, after)
    assert time.process_time() - start < 2
