"""The export's stored state, and how it reads the ledger's days."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from agentd.core.errors import Unavailable
from agentd.gateway.export.days import Chunk, DayProgress, DaySpan
from agentd.gateway.export.ports import ExportProgress
from agentd.gateway.export.rows import encode_row
from agentd.gateway.export.state_store import ExportStateFile, find_first_unsent
from agentd.gateway.ledger import export_reader
from agentd.gateway.ledger.export_reader import LedgerFileReader
from agentd.gateway.settings.model import ExportSettings
from agentd.storage.checksummed_json import encode_checksummed
from tests.conftest import overwrite
from tests.gateway.ledger.entries import build_record

DAY = "2026-01-01"


def encode_state(one):
    return encode_row(one, DAY, "s", 1)


@pytest.fixture
def path(layout) -> Path:
    found = Path(layout.get_ledger_day_path(DAY))
    found.parent.mkdir(parents=True)
    found.write_bytes(b"".join(encode_checksummed(build_record(number)) for number in range(5)))
    return found


def list_ids(packed: bytes) -> list[str]:
    return [json.loads(one)["request_id"] for one in gzip.decompress(packed).splitlines()]


def test_what_is_kept_is_there_again(layout):
    book = ExportStateFile(layout)
    assert book.load() == ExportProgress()
    kept = ExportProgress(
        "http://h d.t", {DAY: DayProgress(version=3, chunks=(Chunk(0, 9, 1, "x", "now"),))}
    )
    book.save(kept)
    assert ExportStateFile(layout).load() == kept
    assert Path(layout.export).stat().st_mode & 0o777 == 0o600


def test_a_damaged_state_is_no_state_and_said(layout, caplog):
    book = ExportStateFile(layout)
    book.save(ExportProgress("t"))
    overwrite(layout.export, 0, b"]")
    assert book.load() == ExportProgress()
    assert "all days are sent again" in caplog.text


def test_a_ledger_has_one_name_in_the_database_whatever_becomes_of_its_state(layout):
    Path(layout.placeholder_seed).parent.mkdir(parents=True)
    name = ExportStateFile(layout).get_source()
    ExportStateFile(layout).save(ExportProgress())
    assert ExportStateFile(layout).get_source() == name
    assert len(name) == 16
    Path(layout.placeholder_seed).unlink()
    assert ExportStateFile(layout).get_source() != name


def test_what_a_terminal_asks_for_is_there_until_it_is_answered(layout):
    book, other = ExportStateFile(layout), ExportStateFile(layout)
    assert book.list_backfills() == []
    one, two = DaySpan(DAY, DAY), DaySpan("2026-01-02", "2026-01-03")
    other.add_backfill(one)
    asked = book.list_backfills()
    other.add_backfill(two)
    book.remove_backfills(asked)
    assert book.list_backfills() == [two]
    book.remove_backfills([two])
    assert book.list_backfills() == []
    Path(layout.export_requests).write_text("{")
    assert book.list_backfills() == []


def test_the_days_that_are_there_are_reported_by_their_stamps(layout, path):
    days = LedgerFileReader(layout)
    before = days.get_stamps()
    assert list(before) == [DAY]
    path.write_bytes(path.read_bytes() + encode_checksummed(build_record(9)))
    assert days.get_stamps() != before
    assert LedgerFileReader(type(layout)("nowhere", "config")).get_stamps() == {}


def test_a_day_is_read_in_chunks_that_join_without_a_gap(layout, path, monkeypatch):
    monkeypatch.setattr(export_reader, "CHUNK_ROWS", 2)
    days, chunks, found, at = LedgerFileReader(layout), [], [], 0
    while portion := days.read_chunk(DAY, encode_state, at):
        chunks.append(portion.chunk)
        found += list_ids(portion.packed)
        assert portion.size == len(gzip.decompress(portion.packed))
        assert portion.chunk.begin == at
        at = portion.chunk.end
    assert found == [f"r-{number}" for number in range(5)]
    assert [chunk.rows for chunk in chunks] == [2, 2, 1]
    data = path.read_bytes()
    assert at == len(data)
    wanted = [hashlib.sha256(data[one.begin : one.end]).hexdigest() for one in chunks]
    assert [one.sum for one in chunks] == wanted
    assert days.compute_checksums(DAY, [one.end for one in chunks]) == wanted


def test_the_same_chunk_read_again_is_the_same_bytes_also_when_the_day_grew(layout, path):
    days = LedgerFileReader(layout)
    first = days.read_chunk(DAY, encode_state, 0)
    assert first
    path.write_bytes(path.read_bytes() + encode_checksummed(build_record(9)))
    assert days.read_chunk(DAY, encode_state, 0, first.chunk.end) == first


def test_lines_that_are_not_sound_are_left_out_and_the_last_one_left_for_later(layout, path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"r-1", b"r-X") + encode_checksummed(build_record(5))[:-9])
    portion = LedgerFileReader(layout).read_chunk(DAY, encode_state, 0)
    assert portion
    assert list_ids(portion.packed) == ["r-0", "r-2", "r-3", "r-4"]
    assert (portion.chunk.rows, portion.chunk.end) == (4, len(data))
    assert LedgerFileReader(layout).read_chunk(DAY, encode_state, len(data)) is None


def test_a_file_that_is_shorter_or_others_now_has_other_sums(layout, path):
    days, data = LedgerFileReader(layout), path.read_bytes()
    (whole,) = days.compute_checksums(DAY, [len(data)])
    assert days.compute_checksums(DAY, []) == []
    path.write_bytes(data[:-1])
    assert days.compute_checksums(DAY, [len(data)]) == [""]
    path.write_bytes(data.replace(b"r-1", b"r-X"))
    assert days.compute_checksums(DAY, [len(data)]) != [whole]


def test_rows_and_bytes_are_counted_where_a_look_is_enough_and_reckoned_else(
    layout, path, monkeypatch
):
    days, data = LedgerFileReader(layout), path.read_bytes()
    found = days.estimate(DAY, encode_state, 0)
    assert (found.rows, found.exact) == (5, True)
    portion = days.read_chunk(DAY, encode_state, 0)
    assert portion
    assert found.size == portion.size
    assert days.estimate(DAY, encode_state, len(data)).rows == 0
    path.write_bytes(data * 1000)
    monkeypatch.setattr(export_reader, "SAMPLE_BYTES", 10_000)
    found = days.estimate(DAY, encode_state, 0)
    assert not found.exact
    assert found.rows == pytest.approx(5000, rel=0.05)
    assert found.size == pytest.approx(portion.size * 1000, rel=0.05)


def test_a_day_that_went_meanwhile_is_unavailable(layout, path):
    path.unlink()
    for ask in (
        lambda days: days.read_chunk(DAY, encode_state, 0),
        lambda days: days.compute_checksums(DAY, [1]),
        lambda days: days.estimate(DAY, encode_state, 0),
    ):
        with pytest.raises(Unavailable):
            ask(LedgerFileReader(layout))


def test_the_first_day_that_is_still_to_be_sent_is_known(layout, path):
    to = ExportSettings(url="http://h:8123")
    path.with_name("2026-01-02.jsonl").write_bytes(b"")
    assert find_first_unsent(layout, to) == DAY
    ExportStateFile(layout).save(ExportProgress("", {DAY: DayProgress(version=1, done_at="now")}))
    assert find_first_unsent(layout, to) == "2026-01-02"
    assert find_first_unsent(layout, ExportSettings(url="http://h:8123", since="2026-01-03")) == ""
    assert find_first_unsent(layout, ExportSettings()) == ""
    assert find_first_unsent(layout, ExportSettings(url="http://h:8123", enabled=False)) == ""
