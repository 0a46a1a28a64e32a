"""Entries of the access keys' file are known by their text; what is remembered is only a cache."""

import os
from pathlib import Path

import pytest

from agentd.gateway.keys import entries as keys_entries
from agentd.gateway.keys.entries import AccessKeyEntries
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import issue
from agentd.storage.layout import Layout
from tests.gateway.keys.test_file import FULL, NOW, format_entry

MANY = 3
KEYS = [FULL, *(issue(f"key {number}", NOW)[1] for number in range(MANY))]


@pytest.fixture(name="layout")
def _layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A folder with a file of keys that was read once."""
    monkeypatch.setattr(keys_entries, "MIN_PARSED_TO_CACHE", MANY)
    layout = Layout(str(tmp_path / "state"), str(tmp_path / "config"))
    file = AccessKeyFile(layout)
    for key in KEYS[:2]:
        file.add(key)
    for key in KEYS[2:]:
        _append_entry(layout, format_entry(key))
    assert AccessKeyFile(layout).read().keys == tuple(KEYS)
    return layout


@pytest.fixture(name="parsed")
def _parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of entries that are parsed from now on."""
    texts: list[str] = []
    real = AccessKeyEntries._parse

    def record_and_parse(self: AccessKeyEntries, text: str) -> object:
        texts.append(text)
        return real(self, text)

    monkeypatch.setattr(AccessKeyEntries, "_parse", record_and_parse)
    return texts


def test_a_start_parses_no_key_that_was_read_before(layout: Layout, parsed: list[str]) -> None:
    assert AccessKeyFile(layout).read().keys == tuple(KEYS)
    assert not parsed
    assert os.stat(layout.access_keys_cache).st_mode & 0o077 == 0


def test_an_edited_key_is_parsed_and_a_mistake_reported_with_its_line(
    layout: Layout, parsed: list[str]
) -> None:
    text = Path(layout.access_keys).read_text()
    digest = KEYS[2].secret.sha256
    line = text[: text.index(digest)].count("\n") + 1
    Path(layout.access_keys).write_text(text.replace(digest, "none"))
    kept = AccessKeyFile(layout).read()

    assert [key.name for key in kept.keys] == [FULL.name, "key 0", "key 2"]
    assert [problem.line for problem in kept.problems] == [line]
    assert len(parsed) == 1


@pytest.mark.parametrize("harm", ["altered", "cut", "another version", "of others", "no JSON"])
def test_what_cannot_be_believed_is_parsed_again(
    layout: Layout, parsed: list[str], monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    path = Path(layout.access_keys_cache)
    data = path.read_bytes()
    if harm == "altered":
        path.write_bytes(data.replace(b"key 1", b"key 7"))
    elif harm == "cut":
        path.write_bytes(data[:-20])
    elif harm == "another version":
        monkeypatch.setattr(keys_entries, "__version__", "0")
    elif harm == "of others":
        path.chmod(0o666)
    else:
        path.write_bytes(b"\xff\n")

    assert AccessKeyFile(layout).read().keys == tuple(KEYS)
    assert len(parsed) == len(KEYS)


def test_a_key_that_is_only_remembered_is_none(layout: Layout) -> None:
    file = AccessKeyFile(layout)
    file.remove(KEYS[1].id)

    assert KEYS[1] not in AccessKeyFile(layout).read().keys


def test_a_disk_that_takes_nothing_keeps_no_key_away(layout: Layout, parsed: list[str]) -> None:
    os.unlink(layout.access_keys_cache)
    os.mkdir(layout.access_keys_cache)

    assert AccessKeyFile(layout).read().keys == tuple(KEYS)
    assert len(parsed) == len(KEYS)


def _append_entry(layout: Layout, entry: str) -> None:
    with open(layout.access_keys, "a") as file:
        file.write(entry)
