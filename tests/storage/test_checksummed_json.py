"""A line says whether it is what was written; the end of a journal may be torn, nothing else."""

import json
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.chats.journal_reader import JournalDamage, decode_entry, read_entries
from agentd.chats.records import ChatCreated, JournalEntry, QueueAppended
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed
from tests.chats.records import AT, journals
from tests.support.examples import limit_examples

values = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.text(st.characters(codec="utf-8")) | st.integers(-(2**53), 2**53) | st.none(),
    min_size=1,
)


@given(values)
def test_what_is_sealed_is_unsealed_and_still_json(value):
    line = encode_checksummed(value)
    assert line.endswith(b'"}\n')
    assert line.count(b"\n") == 1
    assert json.loads(decode_checksummed(line)) == value
    whole = json.loads(line)
    assert len(whole.pop("crc")) == 8 or "crc" in value


@given(values, st.data())
def test_any_change_of_a_single_byte_is_noticed(value, data):
    line = bytearray(encode_checksummed(value)[:-1])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ChecksumMismatch):
        decode_checksummed(bytes(line))


@given(values, st.data())
def test_any_missing_piece_is_noticed(value, data):
    line = encode_checksummed(value)[:-1]
    start = data.draw(st.integers(0, len(line) - 1))
    end = data.draw(st.integers(start + 1, len(line)))
    with pytest.raises(ChecksumMismatch):
        decode_checksummed(line[:start] + line[end:])


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_but_broken(data):
    with pytest.raises(ChecksumMismatch):
        decode_entry(data)


def _join_lines(journal) -> bytes:
    return b"".join(line for _, line in journal)


@settings(max_examples=limit_examples(50), deadline=None)
@given(journals())
def test_a_sound_journal_is_read_as_it_was_written(journal):
    assert list(read_entries(_join_lines(journal))) == [
        (entry, len(line)) for entry, line in journal
    ]


@settings(max_examples=limit_examples(50), deadline=None)
@given(journals(), st.data())
def test_reading_may_begin_at_any_line(journal, data):
    start = data.draw(st.integers(0, len(journal)))
    rest = _join_lines(journal[start:])
    offset = len(_join_lines(journal)) - len(rest)
    assert [entry for entry, _ in read_entries(rest, start, offset)] == [
        e for e, _ in journal[start:]
    ]


@settings(max_examples=limit_examples(80), deadline=None)
@given(journals(), st.data())
def test_a_journal_cut_anywhere_is_sound_up_to_a_torn_end(journal, data):
    whole = _join_lines(journal)
    cut = data.draw(st.integers(0, len(whole)))
    *found, last = [*read_entries(whole[:cut]), None]
    if found and isinstance(found[-1], JournalDamage):
        last = found.pop()
        assert last.torn
        assert last.offset == sum(size for _, size in found)
        assert last.line == len(found) + 1
    assert [entry for entry, _ in found] == [entry for entry, _ in journal[: len(found)]]
    assert last is not None or sum(size for _, size in found) == cut


@settings(max_examples=limit_examples(80), deadline=None)
@given(journals(), st.data())
def test_a_changed_byte_before_the_last_line_is_damage_in_the_middle(journal, data):
    whole = bytearray(_join_lines(journal))
    if len(journal) < 3:
        return
    at = data.draw(st.integers(0, len(whole) - len(journal[-1][1]) - len(journal[-2][1]) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    *found, damage = read_entries(bytes(whole))
    assert isinstance(damage, JournalDamage)
    assert not damage.torn
    assert [entry for entry, _ in found] == [entry for entry, _ in journal[: len(found)]]


LINES = [
    encode_checksummed(JournalEntry(n, n, AT, "me", ChatCreated("t"))) for n in (1, 2, 3)
]  # records that make no sense together, which framing does not mind


def read_damage(data: bytes) -> JournalDamage:
    *_, damage = read_entries(data)
    assert isinstance(damage, JournalDamage)
    return damage


@pytest.mark.parametrize(
    "torn",
    [
        LINES[2][:-1],
        LINES[2][:40],
        b"\0" * 40_000,
        LINES[2][:40] + b"\0" * 40_000,
        b"\0" * 40_000 + b"\n",
        b"\n",
        LINES[2][:10] + b"\n" + b"\0" * 5000 + b"\n{",
    ],
    ids=["no line end", "half", "NULs", "half and NULs", "NULs and an end", "empty", "several"],
)
def test_an_end_with_nothing_sound_after_it_is_torn(torn):
    damage = read_damage(LINES[0] + LINES[1] + torn)
    assert damage.torn
    assert (damage.line, damage.offset) == (3, len(LINES[0] + LINES[1]))


def test_a_sound_line_after_what_is_not_sound_is_damage_in_the_middle():
    damage = read_damage(LINES[0] + b"\0" * 40_000 + b"\n" + LINES[2])
    assert (damage.line, damage.offset, damage.torn) == (2, len(LINES[0]), False)


def test_a_missing_or_doubled_line_is_damage_in_the_middle():
    for data in (LINES[0] + LINES[2], LINES[0] + LINES[0], LINES[1]):
        damage = read_damage(data)
        assert not damage.torn
        assert "it says it is line" in damage.reason


def test_a_sound_line_of_an_unknown_type_is_never_taken_for_a_torn_end():
    """A newer agentd wrote it: it was acknowledged, and must not be cut off."""
    newer = {"n": 2, "seq": 2, "at": AT, "by": "me", "body": {"type": "chat.frobbed"}}
    damage = read_damage(LINES[0] + encode_checksummed(newer))
    assert not damage.torn
    assert "unknown form" in damage.reason


def test_fields_of_a_newer_agentd_are_passed_over():
    body = {"type": "queue.appended", "prompt": {"id": 1, "text": "x", "at": AT, "new": 1}}
    line = encode_checksummed({"n": 1, "seq": 1, "at": AT, "by": "me", "body": body, "also": "new"})
    [(entry, size)] = read_entries(line)
    assert isinstance(entry.body, QueueAppended)
    assert size == len(line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [(b'{"n":1,"by":"\xf5"', "not UTF-8"), (b'{"n":1,"body":' + b"[" * 100_000, "unknown form")],
)
def test_a_line_that_nobody_writes_is_damage_though_its_checksum_is_valid(
    text: bytes, reason: str
) -> None:
    damage = read_damage(LINES[0] + b'%b,"crc":"%08x"}\n' % (text, crc32(text)))
    assert (damage.line, damage.torn) == (2, False)
    assert reason in damage.reason
