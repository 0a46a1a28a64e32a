"""Audio as bytes."""

import io
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.speech.audio import build_wav, detect_kind, extract_raw


def encode_wav(
    rate: int = 16_000, channels: int = 1, width: int = 2, frames: bytes = b"ab" * 8
) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setframerate(rate)
        sound.setnchannels(channels)
        sound.setsampwidth(width)
        sound.writeframes(frames)
    return file.getvalue()


@given(st.binary(max_size=100).map(lambda data: data[: len(data) // 2 * 2]))
def test_raw_audio_goes_through_wav_and_back(raw: bytes) -> None:
    assert extract_raw(build_wav(raw)) == raw
    with wave.open(io.BytesIO(build_wav(raw))) as sound:
        assert sound.getparams()[:3] == (1, 2, 16_000)
        assert sound.readframes(1000) == raw


def test_only_wav_as_engines_hear_it_is_taken_as_it_is() -> None:
    assert extract_raw(encode_wav()) == b"ab" * 8
    assert extract_raw(encode_wav(rate=44_100)) is None
    assert extract_raw(encode_wav(channels=2)) is None
    assert extract_raw(encode_wav(width=1)) is None


def test_what_stands_before_the_sound_is_passed_over() -> None:
    plain = build_wav(b"abcd")
    listed = plain[:36] + b"LIST\x03\0\0\0xyz\0" + plain[36:]
    assert extract_raw(listed) == b"abcd"


def test_a_file_of_empty_chunks_is_given_up() -> None:
    """Millions of them would stop the daemon for seconds."""
    plain = build_wav(b"abcd")
    for chunks, taken in ((900, b"abcd"), (100_000, None)):
        assert extract_raw(plain[:36] + b"junk\0\0\0\0" * chunks + plain[36:]) == taken


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_sound_that_was_written_while_it_was_recorded_goes_to_the_end(size: int) -> None:
    plain = build_wav(b"abcd")
    assert extract_raw(plain[:40] + size.to_bytes(4, "little") + plain[44:]) == b"abcd"


@given(st.binary(max_size=80))
def test_anything_else_is_no_wav_and_does_no_harm(data: bytes) -> None:
    detect_kind(data)
    extract_raw(data)
    extract_raw(b"RIFF\0\0\0\0WAVEfmt " + data)


@pytest.mark.parametrize(
    ("begins", "kind"),
    [
        (b"RIFF\0\0\0\0WAVE", "wav"),
        (b"RIFF\0\0\0\0AVI ", None),
        (b"OggS", "ogg"),
        (b"\x1a\x45\xdf\xa3", "webm"),
        (b"ID3\x04", "mp3"),
        (b"\xff\xfb\x90", "mp3"),
        (b"\xff\xd8\xff", None),
        (b"fLaC", "flac"),
        (b"#EXTM3U\n", None),
        (b"ffconcat version 1.0", None),
        (b"", None),
    ],
)
def test_the_kind_is_reported_by_the_beginning(begins: bytes, kind: str | None) -> None:
    assert detect_kind(begins + b"\0" * 10) == kind
