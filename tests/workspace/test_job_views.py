"""The place in the workspace of a file that a build names."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.workspace.job_views import locate_problem


@pytest.mark.parametrize(
    ("folder", "file", "path"),
    [
        (".", "a.c", "a.c"),
        ("sub/deep", "a.c", "sub/deep/a.c"),
        ("sub", "../a.c", "a.c"),
        ("sub", "../../a.c", ""),
        ("sub", "/work/b.c", "b.c"),
        ("sub", "/workshop/b.c", ""),
        ("sub", "/usr/include/stdio.h", ""),
        (".", "..a/b.c", "..a/b.c"),
        (".", ".", ""),
        (".", "", ""),
    ],
)
def test_a_file_is_looked_for_in_the_folder_of_its_build(folder: str, file: str, path: str) -> None:
    assert locate_problem("/work", folder, file) == path


@given(st.text("ab./", max_size=20), st.text("ab./", max_size=20))
def test_what_is_told_never_leads_out_of_the_workspace(folder: str, file: str) -> None:
    path = locate_problem("/work", folder.lstrip("/") or ".", file)
    assert posixpath.normpath(posixpath.join("/work", path)).startswith("/work")
    assert not path.startswith("/")
