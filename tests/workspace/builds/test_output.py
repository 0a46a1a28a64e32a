"""Both ends of an output are kept, the middle is counted, and what is new is told once."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.workspace.builds.output import (
    MAX_PUBLISHED,
    BuildTranscript,
    decode_part,
    take_last_lines,
)


@given(st.lists(st.binary(max_size=60), max_size=30))
def test_nothing_is_lost_without_being_counted(portions):
    transcript, whole = BuildTranscript(kept=40), b"".join(portions)
    for portion in portions:
        transcript.append(portion)
    transcript.close()
    said, output = transcript.get_progress(), transcript.get_output().data
    assert said.size == len(whole)
    assert said.omitted == max(len(whole) - 80, 0)
    if said.omitted:
        gap = b"\n[agentd: %d bytes are left out here]\n" % said.omitted
        assert output == whole[:40] + gap + whole[-40:]
    else:
        assert output == whole


def test_small_portions_take_no_more_room_than_large_ones():
    transcript = BuildTranscript(kept=1000)
    for _ in range(100_000):
        transcript.append(b"x")
    assert len(transcript._tail) <= 2000
    assert len(transcript.get_output().data) < 4000


def test_news_are_reported_once_and_old_ones_are_passed_over():
    transcript = BuildTranscript()
    assert transcript.take_news() is None
    transcript.append("gr\u00fc\u00df".encode()[:3])
    first = transcript.take_news()
    assert first
    assert first == ("gr", 0, 0, 2)
    transcript.append("gr\u00fc\u00df".encode()[3:])
    second = transcript.take_news()
    assert second
    assert second == ("\u00fc\u00df", 0, 2, 6)
    transcript.append(b"a" * 5 * MAX_PUBLISHED + b"end")
    news = transcript.take_news()
    assert news
    assert news.text.endswith("aend")
    assert len(news.text) == MAX_PUBLISHED
    assert news.skipped == 4 * MAX_PUBLISHED + 3
    assert news.offset == 6 + news.skipped
    assert news.end == transcript.get_output().size == news.offset + MAX_PUBLISHED
    assert transcript.take_news() is None


@given(st.text(alphabet="a\n", max_size=60).map(str.encode), st.integers(1, 8))
def test_the_last_lines_are_as_a_reader_counts_them(data, count):
    assert take_last_lines(data, count) == b"".join(data.splitlines(keepends=True)[-count:])


@given(st.text(max_size=20), st.integers(0, 100))
def test_a_part_that_ends_inside_a_character_leaves_it_to_the_next(text, cut):
    data = text.encode()
    begin, rest = decode_part(data[:cut])
    after, nothing = decode_part(data[max(min(cut, len(data)) - rest, 0) :])
    assert (begin + after, nothing) == (text, 0)
    assert rest < 4
