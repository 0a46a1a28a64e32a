"""What the export keeps, and how it reads the ledger's days."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from agentd.disk import ledger_export
from agentd.disk.export_state import ExportFile, first_unsent
from agentd.disk.ledger_export import LedgerDays
from agentd.disk.lines import seal
from agentd.errors import Unavailable
from agentd.proxy.export.days import Chunk, Day, Span
from agentd.proxy.export.needs import Kept
from agentd.proxy.export.rows import line
from agentd.proxy.settings import Export
from tests.conftest import overwrite
from tests.proxy.entries import entry

DAY = "2026-01-01"


def write(one):
    return line(one, DAY, "s", 1)


@pytest.fixture
def path(layout) -> Path:
    found = Path(layout.ledger_day(DAY))
    found.parent.mkdir(parents=True)
    found.write_bytes(b"".join(seal(entry(number)) for number in range(5)))
    return found


def ids(packed: bytes) -> list[str]:
    return [json.loads(one)["request_id"] for one in gzip.decompress(packed).splitlines()]


def test_what_is_kept_is_there_again(layout):
    book = ExportFile(layout)
    assert book.load() == Kept()
    kept = Kept("http://h d.t", {DAY: Day(version=3, chunks=(Chunk(0, 9, 1, "x", "now"),))})
    book.save(kept)
    assert ExportFile(layout).load() == kept
    assert Path(layout.export).stat().st_mode & 0o777 == 0o600


def test_a_damaged_state_is_no_state_and_said(layout, caplog):
    book = ExportFile(layout)
    book.save(Kept("t"))
    overwrite(layout.export, 0, b"]")
    assert book.load() == Kept()
    assert "all days are sent anew" in caplog.text


def test_a_ledger_has_one_name_in_the_database_whatever_becomes_of_its_state(layout):
    Path(layout.placeholder_seed).parent.mkdir(parents=True)
    name = ExportFile(layout).source()
    ExportFile(layout).save(Kept())
    assert ExportFile(layout).source() == name
    assert len(name) == 16
    Path(layout.placeholder_seed).unlink()
    assert ExportFile(layout).source() != name


def test_what_a_terminal_asks_for_is_there_until_it_is_answered(layout):
    book, other = ExportFile(layout), ExportFile(layout)
    assert book.asked() == []
    one, two = Span(DAY, DAY), Span("2026-01-02", "2026-01-03")
    other.ask(one)
    asked = book.asked()
    other.ask(two)
    book.answered(asked)
    assert book.asked() == [two]
    book.answered([two])
    assert book.asked() == []
    Path(layout.export_wanted).write_text("{")
    assert book.asked() == []


def test_the_days_that_are_there_are_told_by_their_stamps(layout, path):
    days = LedgerDays(layout)
    before = days.there()
    assert list(before) == [DAY]
    path.write_bytes(path.read_bytes() + seal(entry(9)))
    assert days.there() != before
    assert LedgerDays(type(layout)("nowhere", "config")).there() == {}


def test_a_day_is_read_in_chunks_that_join_without_a_gap(layout, path, monkeypatch):
    monkeypatch.setattr(ledger_export, "CHUNK_ROWS", 2)
    days, chunks, found, at = LedgerDays(layout), [], [], 0
    while portion := days.portion(DAY, write, at):
        chunks.append(portion.chunk)
        found += ids(portion.packed)
        assert portion.size == len(gzip.decompress(portion.packed))
        assert portion.chunk.begin == at
        at = portion.chunk.end
    assert found == [f"r-{number}" for number in range(5)]
    assert [chunk.rows for chunk in chunks] == [2, 2, 1]
    data = path.read_bytes()
    assert at == len(data)
    wanted = [hashlib.sha256(data[one.begin : one.end]).hexdigest() for one in chunks]
    assert [one.sum for one in chunks] == wanted
    assert days.sums(DAY, [one.end for one in chunks]) == wanted


def test_the_same_chunk_read_again_is_the_same_bytes_also_when_the_day_grew(layout, path):
    days = LedgerDays(layout)
    first = days.portion(DAY, write, 0)
    assert first
    path.write_bytes(path.read_bytes() + seal(entry(9)))
    assert days.portion(DAY, write, 0, first.chunk.end) == first


def test_lines_that_are_not_sound_are_left_out_and_the_last_one_left_for_later(layout, path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"r-1", b"r-X") + seal(entry(5))[:-9])
    portion = LedgerDays(layout).portion(DAY, write, 0)
    assert portion
    assert ids(portion.packed) == ["r-0", "r-2", "r-3", "r-4"]
    assert (portion.chunk.rows, portion.chunk.end) == (4, len(data))
    assert LedgerDays(layout).portion(DAY, write, len(data)) is None


def test_a_file_that_is_shorter_or_others_now_has_other_sums(layout, path):
    days, data = LedgerDays(layout), path.read_bytes()
    (whole,) = days.sums(DAY, [len(data)])
    assert days.sums(DAY, []) == []
    path.write_bytes(data[:-1])
    assert days.sums(DAY, [len(data)]) == [""]
    path.write_bytes(data.replace(b"r-1", b"r-X"))
    assert days.sums(DAY, [len(data)]) != [whole]


def test_rows_and_bytes_are_counted_where_a_look_is_enough_and_reckoned_else(
    layout, path, monkeypatch
):
    days, data = LedgerDays(layout), path.read_bytes()
    found = days.sample(DAY, write, 0)
    assert (found.rows, found.exact) == (5, True)
    portion = days.portion(DAY, write, 0)
    assert portion
    assert found.size == portion.size
    assert days.sample(DAY, write, len(data)).rows == 0
    path.write_bytes(data * 1000)
    monkeypatch.setattr(ledger_export, "SAMPLE", 10_000)
    found = days.sample(DAY, write, 0)
    assert not found.exact
    assert found.rows == pytest.approx(5000, rel=0.05)
    assert found.size == pytest.approx(portion.size * 1000, rel=0.05)


def test_a_day_that_went_meanwhile_is_unavailable(layout, path):
    path.unlink()
    for ask in (
        lambda days: days.portion(DAY, write, 0),
        lambda days: days.sums(DAY, [1]),
        lambda days: days.sample(DAY, write, 0),
    ):
        with pytest.raises(Unavailable):
            ask(LedgerDays(layout))


def test_the_first_day_that_is_still_to_be_sent_is_known(layout, path):
    to = Export(url="http://h:8123")
    path.with_name("2026-01-02.jsonl").write_bytes(b"")
    assert first_unsent(layout, to) == DAY
    ExportFile(layout).save(Kept("", {DAY: Day(version=1, done_at="now")}))
    assert first_unsent(layout, to) == "2026-01-02"
    assert first_unsent(layout, Export(url="http://h:8123", since="2026-01-03")) == ""
    assert first_unsent(layout, Export()) == ""
    assert first_unsent(layout, Export(url="http://h:8123", enabled=False)) == ""
