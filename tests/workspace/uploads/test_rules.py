"""The files that may be uploaded, and the names that they get."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest, TooLarge, UnsupportedMedia
from agentd.core.folding import fold_text
from agentd.workspace.uploads import rules as uploads_rules
from agentd.workspace.uploads.rules import (
    KINDS,
    LONGEST_NAME,
    TEXT,
    Inspection,
    check_name,
    detect_kind,
    find_free_name,
    make_safe_name,
)

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"\0" * 100,
    "image/gif": b"GIF89a" + b"\0" * 100,
    "image/webp": b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 100,
    "image/bmp": b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + b"\0" * 100,
    "image/tiff": b"II*\0" + b"\0" * 100,
    "image/avif": b"\0\0\0\x20ftypavif" + b"\0" * 100,
    "image/heic": b"\0\0\0\x20ftypheic" + b"\0" * 100,
    "application/pdf": b"%PDF-1.7\n" + b"\xff\0" * 100,
    "text/plain": "BMW, für alle\n".encode() * 10,
}
BY_TYPE = {kind.type: kind for kind in KINDS}
PNG = BY_TYPE["image/png"]


def inspect(data: bytes, declared: str = "", size: int = 7, **more: Any) -> str:
    inspection = Inspection(declared, **more)
    for start in range(0, len(data), size):
        inspection.feed(data[start : start + size])
    return inspection.end().type


@pytest.mark.parametrize("kind", HEADS)
def test_a_file_is_what_its_bytes_are(kind: str) -> None:
    for size in (1, 7, 1000):
        assert inspect(HEADS[kind], size=size) == kind
    assert inspect(HEADS[kind], "application/octet-stream") == kind
    assert set(HEADS) == set(BY_TYPE)


def test_short_files_are_reported_by_what_they_have() -> None:
    assert inspect(b"") == "text/plain"
    assert inspect(b"x") == "text/plain"
    assert inspect(HEADS["image/png"][:8]) == "image/png"


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF" + b"\0" * 100,
        b"MZ\x90\0" + b"\0" * 100,
        b"PK\x03\x04" + b"\0" * 100,
        b"\x1f\x8b\x08" + b"\0" * 100,
        b"text, then \0",
        b"text " * 1000 + b"\xff",
        "halb: ü".encode()[:-1],
        "UTF-16".encode("utf-16"),
        b"a\x08b",
        b"x" * 100_000 + b"\x00",
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    for size in (1, 64, 100_000):
        with pytest.raises(UnsupportedMedia):
            inspect(data, size=size)


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        ("text/plain", "image/png"),
        ("image/png", "text/plain"),
        ("image/png", "application/pdf"),
        ("application/pdf", "image/png"),
        ("image/png", "image/svg+xml"),
    ],
)
def test_what_is_said_must_be_true_in_kind(kind: str, declared: str) -> None:
    with pytest.raises(UnsupportedMedia, match="not what it is said to be"):
        inspect(HEADS[kind], declared)


def test_a_picture_may_be_another_picture() -> None:
    assert inspect(HEADS["image/jpeg"], "image/png; x=y") == "image/jpeg"
    assert inspect(HEADS["text/plain"], "image/svg+xml") == "text/plain"
    with pytest.raises(UnsupportedMedia):
        inspect(HEADS["text/plain"], only="image")


def test_a_file_may_be_so_large_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads_rules, "LARGEST", 100)
    assert inspect(b"x" * 100) == "text/plain"
    with pytest.raises(TooLarge):
        inspect(b"x" * 101)


@given(st.binary(max_size=300))
def test_any_bytes_are_taken_or_refused_however_they_are_cut(data: bytes) -> None:
    found = set()
    for size in (1, 3, 300):
        try:
            found.add(inspect(data, size=size))
        except UnsupportedMedia:
            found.add("refused")
    assert len(found) == 1


NAMES = {
    "../../etc/passwd": "passwd",
    "/etc/passwd": "passwd",
    "C:\\Windows\\system.ini": "system.ini",
    "..\\..\\x.txt": "x.txt",
    ".git/hooks/pre-commit": "pre-commit",
    ".gitignore": "gitignore",
    ".env": "env",
    "...": "stem.txt",
    "..": "stem.txt",
    "": "stem.txt",
    "a\0b.txt": "ab.txt",
    "a\r\nb.txt": "a b.txt",
    "notes.txt. . ": "notes.txt",
    "--help": "help",
    "-rf.txt": "rf.txt",
    "~root": "root",
    "con": "_con",
    "COM1.txt": "_COM1.txt",
    "photo\u202egnp.txt": "photognp.txt",
    "zero\u200bwidth\ufeff.txt": "zerowidth.txt",
    "a<b>:c|d?e*.txt": "a_b__c_d_e_.txt",
    "e\u0301.txt": "\u00e9.txt",
    "two  \u2003 blanks.md": "two blanks.md",
    "x.png": "x.png.txt",
    "README": "README",
    "main.py": "main.py",
    "100%2e%2e.txt": "100_2e_2e.txt",
}


@pytest.mark.parametrize("wish", NAMES)
def test_names_are_made_safe(wish: str) -> None:
    assert make_safe_name(wish, TEXT, "stem") == NAMES[wish]


def test_a_suffix_shows_what_the_file_is() -> None:
    assert make_safe_name("x.PNG", PNG, "s") == "x.PNG"
    assert make_safe_name("x.exe", PNG, "s") == "x.exe.png"
    assert make_safe_name("x.jpeg", PNG, "s") == "x.jpeg.png"
    assert make_safe_name("", PNG, "s") == "s.png"
    assert make_safe_name(".png", PNG, "s") == "png.png"
    assert make_safe_name("x.html", TEXT, "s") == "x.html"


@given(st.text(max_size=400), st.sampled_from(KINDS))
def test_whatever_the_wish_the_name_is_safe(wish: str, kind: uploads_rules.Kind) -> None:
    name = make_safe_name(wish, kind, "stem")
    assert 0 < len(name.encode()) <= LONGEST_NAME
    assert name[0] not in ".-~ "
    assert name[-1] not in ". "
    assert not set(name) & set('/\\\0<>:"|?*%\x7f')
    assert name == unicodedata.normalize("NFC", name)
    assert all(unicodedata.category(one)[0] != "C" for one in name)
    assert check_name(name) == name
    if kind is not TEXT:
        assert name.lower().endswith(kind.suffixes)


def test_long_names_keep_their_suffix_and_whole_characters() -> None:
    name = make_safe_name("ü" * 300 + ".png", PNG, "s")
    assert name.endswith("ü.png")
    assert len(name.encode()) <= LONGEST_NAME


def test_a_taken_name_gets_a_number() -> None:
    taken = {fold_text(name) for name in ("A.txt", "a-2.TXT", "\u00e9", "b")}
    assert find_free_name("a.txt", taken) == "a-3.txt"
    assert find_free_name("e\u0301", taken) == "e\u0301-2"
    assert find_free_name("b", taken) == "b-2"
    assert find_free_name("c", taken) == "c"


@pytest.mark.parametrize("name", ["", ".x", "a/b", "..", "a\0", "x" * 256])
def test_no_other_name_is_looked_for(name: str) -> None:
    with pytest.raises(BadRequest):
        check_name(name)


def test_text_that_begins_like_a_picture_is_text() -> None:
    assert detect_kind(b"BM is short for bitmap, which this is not at all") is TEXT
