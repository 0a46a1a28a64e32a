"""Both ends of an output are kept, the middle is counted, and what is new is told once."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.workspace.transcript import TOLD, Transcript, decode_part, last_lines


@given(st.lists(st.binary(max_size=60), max_size=30))
def test_nothing_is_lost_without_being_counted(portions):
    transcript, whole = Transcript(kept=40), b"".join(portions)
    for portion in portions:
        transcript.take(portion)
    transcript.end()
    said, output = transcript.said(), transcript.output()
    assert said.size == len(whole)
    assert said.omitted == max(len(whole) - 80, 0)
    if said.omitted:
        gap = b"\n[agentd: %d bytes are left out here]\n" % said.omitted
        assert output == whole[:40] + gap + whole[-40:]
    else:
        assert output == whole


def test_small_portions_take_no_more_room_than_large_ones():
    transcript = Transcript(kept=1000)
    for _ in range(100_000):
        transcript.take(b"x")
    assert len(transcript._tail) <= 2000
    assert len(transcript.output()) < 4000


def test_news_are_told_once_and_old_ones_are_passed_over():
    transcript = Transcript()
    assert transcript.news() is None
    transcript.take("gr\u00fc\u00df".encode()[:3])
    first = transcript.news()
    assert first
    assert (first.text, first.skipped) == ("gr", 0)
    transcript.take("gr\u00fc\u00df".encode()[3:])
    second = transcript.news()
    assert second
    assert second.text == "\u00fc\u00df"
    transcript.take(b"a" * 5 * TOLD + b"end")
    news = transcript.news()
    assert news
    assert news.text.endswith("aend")
    assert len(news.text) == TOLD
    assert news.skipped == 4 * TOLD + 3
    assert transcript.news() is None


@given(st.text(alphabet="a\n", max_size=60).map(str.encode), st.integers(1, 8))
def test_the_last_lines_are_as_a_reader_counts_them(data, count):
    assert last_lines(data, count) == b"".join(data.splitlines(keepends=True)[-count:])


@given(st.text(max_size=20), st.integers(0, 100))
def test_a_part_that_ends_inside_a_character_leaves_it_to_the_next(text, cut):
    data = text.encode()
    begin, rest = decode_part(data[:cut])
    after, nothing = decode_part(data[max(min(cut, len(data)) - rest, 0) :])
    assert (begin + after, nothing) == (text, 0)
    assert rest < 4
