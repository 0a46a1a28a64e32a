"""A patch is read as it is written, its places are found, and nothing is guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.tools.patch import FilePatch, Hunk, apply_hunks, parse_patch
from agentd.core.errors import BadRequest

PATCH = """*** Begin Patch
*** Add File: new.txt
+one
+
+two
*** Update File: src/a.py
*** Move to: src/b.py
@@ def f():
     a = 1
-    b = 2
+    b = 3
@@
 end
+more
*** Delete File: old.txt
*** End Patch
"""


def wrap(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch"


def test_every_kind_of_change_is_understood():
    added, updated, deleted = parse_patch(PATCH)
    assert added == FilePatch("add", "new.txt", text="one\n\ntwo\n")
    assert (updated.path, updated.move_to) == ("src/a.py", "src/b.py")
    assert updated.hunks == (
        Hunk(("    a = 1", "    b = 2"), ("    a = 1", "    b = 3"), "def f():"),
        Hunk(("end",), ("end", "more")),
    )
    assert deleted == FilePatch("delete", "old.txt")


def test_hunks_change_their_places_and_nothing_else():
    before = "def g():\n    a = 1\n    b = 2\ndef f():\n    a = 1\n    b = 2\nend\n"
    after = before.replace("    b = 2\nend\n", "    b = 3\nend\nmore\n")
    assert apply_hunks(before, parse_patch(PATCH)[1]) == after
    windows = before.replace("\n", "\r\n")
    assert apply_hunks(windows, parse_patch(PATCH)[1]) == after.replace("\n", "\r\n")


def test_a_byte_order_mark_and_mixed_line_ends_are_kept():
    patch = parse_patch(wrap("*** Update File: a\n@@\n-x\n+y\n+z"))[0]
    assert apply_hunks("\ufeffx\r\nb\r\n", patch) == "\ufeffy\r\nz\r\nb\r\n"
    assert apply_hunks("x\r\nb\n", patch) == "y\r\nz\r\nb\n"
    assert apply_hunks("a\r\nx\nb", patch) == "a\r\ny\nz\nb"


def test_space_at_the_ends_of_lines_does_not_matter():
    patch = parse_patch(wrap("*** Update File: a\n@@\n-x\n+y"))[0]
    assert apply_hunks("x  \nz\n", patch) == "y\nz\n"


def test_lines_without_a_place_are_added_at_the_end():
    patch = parse_patch(wrap("*** Update File: a\n@@\n+y"))[0]
    assert apply_hunks("x\n", patch) == "x\ny\n"


def test_the_end_of_the_file_can_be_meant():
    patch = parse_patch(wrap("*** Update File: a\n@@\n-x\n+y\n*** End of File"))[0]
    assert apply_hunks("x\nx\n", patch) == "x\ny\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\nx\nb\nx\n", "fits in 2 places"),
        ("a\nb\n", "does not fit"),
    ],
)
def test_a_place_that_is_not_clear_is_an_error(text, why):
    patch = parse_patch(wrap("*** Update File: a\n@@\n-x\n+y"))[0]
    with pytest.raises(BadRequest, match=why):
        apply_hunks(text, patch)


@pytest.mark.parametrize(
    "wrong",
    [
        "", "x", wrap(""), wrap("*** Add File: a\nx"), wrap("*** Update File: a"),
        wrap("*** Update File: a\n@@\n*x"), wrap("rubbish"),
        wrap("*** Delete File: a\n*** Delete File: a"),
        wrap("*** Add File: a\n+x\n*** Update File: b\n*** Move to: a"),
    ],
)  # fmt: skip
def test_what_is_no_patch_is_refused(wrong):
    with pytest.raises(BadRequest):
        parse_patch(wrong)


@given(st.text(), st.text())
def test_whatever_is_written_only_our_errors_come(patch, text):
    try:
        for file in parse_patch(wrap(patch)):
            apply_hunks(text, file)
    except BadRequest:
        pass
