"""Audio as bytes: what kind it is by its beginning, and plain WAV in and out.

Engines take 16,000 samples a second of 16 bits on one channel; such audio without a header is
called raw here.
"""

import struct
from typing import Literal, TypeAlias

AudioKind: TypeAlias = Literal["wav", "ogg", "webm", "mp3", "flac"]

RATE = 16_000
"""Samples in a second of raw audio."""
SECOND = 2 * RATE
"""Bytes of it."""

_PCM = 1
_FORMAT = struct.Struct("<HHIIHH")
_MOST_CHUNKS = 1000
"""Chunks of a WAV file that are looked at. Recorders write a handful; millions of empty ones, in a
file that is made for it, would take seconds."""


def detect_kind(data: bytes) -> AudioKind | None:
    """Detect the format by the first bytes; None for anything unsupported."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "wav"
    if data[:4] == b"OggS":
        return "ogg"
    if data[:4] == b"\x1a\x45\xdf\xa3":
        return "webm"
    if data[:4] == b"fLaC":
        return "flac"
    frame = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2  # MPEG audio, layer III
    return "mp3" if data[:3] == b"ID3" or frame else None


def extract_raw(wav: bytes) -> bytes | None:
    """Return the raw audio of a WAV file in the engines' format; None for any other."""
    at, fits = 12, False
    for _ in range(_MOST_CHUNKS):
        if at + 8 > len(wav):
            break
        name, size = wav[at : at + 4], int.from_bytes(wav[at + 4 : at + 8], "little")
        body = wav[at + 8 : at + 8 + size]
        if name == b"fmt " and len(body) >= _FORMAT.size:
            kind, channels, rate, _, _, bits = _FORMAT.unpack_from(body)
            fits = (kind, channels, rate, bits) == (_PCM, 1, RATE, 16)
        elif name == b"data":
            if not size:  # written as it was recorded, by a program that could not go back
                body = wav[at + 8 :]
            return body[: len(body) // 2 * 2] if fits else None
        at += 8 + size + size % 2
    return None


def build_wav(raw: bytes) -> bytes:
    """Build a WAV file of raw audio."""
    form = _FORMAT.pack(_PCM, 1, RATE, SECOND, 2, 16)
    head = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data"
    return (
        b"RIFF"
        + struct.pack("<I", len(head) + 4 + len(raw))
        + head
        + struct.pack("<I", len(raw))
        + raw
    )
