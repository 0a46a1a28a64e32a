"""An encoding hides a secret from nobody: it is undone, and the secret taken where it stands."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.decoding import decode
from agentd.gateway.secrets.detect import Detector
from agentd.gateway.secrets.rules import SecretRules
from tests.gateway.secrets.samples import TOKENS
from tests.support.processor import assert_linear

BUILT = Detector(SecretRules(BUILT_IN))
SECRET = TOKENS["github"]


def _encode_each(form: str, between: str = "") -> Callable[[str], str]:
    return lambda text: between.join(form.format(ord(one)) for one in text)


def _encode_wrapped(text: str) -> str:
    around = "the quick brown fox jumps over the lazy dog\n" * 4
    return base64.encodebytes(f"{around}{text}\n{around}".encode()).decode().strip()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "percent": _encode_each("%{:02x}"),
    "percent twice": lambda text: quote(_encode_each("%{:02X}")(text)),
    "JSON": _encode_each("\\u{:04x}"),
    "JSON in JSON": lambda text: json.dumps(_encode_each("\\u{:04x}")(text))[1:-1],
    "braces": _encode_each("\\u{{{:x}}}"),
    "long": _encode_each("\\U{:08x}"),
    "bytes": _encode_each("\\x{:02x}"),
    "decimal references": _encode_each("&#{};"),
    "hexadecimal references": _encode_each("&#x{:X};"),
    "references twice": _encode_each("&amp;#{};"),
    "hex": _encode_each("{:02x}"),
    "hex in capitals": _encode_each("{:02X}"),
    "hex with blanks": _encode_each("{:02x}", " "),
    "hex with colons": _encode_each("{:02x}", ":"),
    "a list of bytes": _encode_each("0x{:02x}", ", "),
    "zero-width spaces": "\u200b".join,
    "joiners": "\u200d".join,
    "soft hyphens": lambda text: f"{text[:9]}\xad{text[9:]}",
    "byte order marks": lambda text: f"{text[:2]}\ufeff{text[2:]}",
    "full width": lambda text: "".join(chr(ord(one) + 0xFEE0) for one in text),
    "monospaced": lambda text: "".join(
        chr(ord(one) - ord("a") + 0x1D68A) if one.islower() else one for one in text
    ),
    "base64": lambda text: base64.b64encode(f"user: {text}".encode()).decode(),
    "base64 without padding": lambda text: (
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    ),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base64 of UTF-16": lambda text: base64.b64encode(f"$x='{text}'".encode("utf-16-le")).decode(),
    "base64 of a line with tabs": lambda text: base64.b64encode(f"user:\t{text}".encode()).decode(),
    "wrapped base64": _encode_wrapped,
    "hex of base64": lambda text: base64.b64encode(text.encode()).hex(),
}


def find_secrets(text: str) -> list[str]:
    raw = text.encode()
    return [raw[hit.start : hit.end].decode() for hit in BUILT.find(raw)]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(before=st.integers(0, 1200), rows=st.integers(0, 3))
def test_an_encoded_secret_is_taken_whole_and_nothing_beside_it(encoding, before, rows):
    encoded = ENCODINGS[encoding](SECRET)
    padding = ("ten words " * 120)[:before] + "\n" * rows
    assert find_secrets(f"{padding} {encoded} and more {padding}") == [encoded]
    assert find_secrets(f"{padding} {encoded}") == [encoded]


@pytest.mark.parametrize("quoted", ['"', "&quot;", "&#34;", "\\u0022", "%22"])
def test_a_value_is_reported_by_a_name_whose_quotes_are_encoded(quoted):
    for text in (f"password={quoted}hunter22!xy{quoted}", f"api_key: {quoted}0a1b2c3d4e{quoted}"):
        (hit,) = find_secrets(text)
        assert "hunter22!xy" in hit or "0a1b2c3d4e" in hit


def test_a_known_value_is_found_in_every_encoding_of_a_whole_text():
    for encoding, encode in ENCODINGS.items():
        views = [view.text for view in decode(f"x {encode('say correcthorse to me')} y".encode())]
        twice = [inner.text for view in views for inner in decode(view)]
        assert any(b"correcthorse" in text for text in (*views, *twice)), encoding


@given(st.text(max_size=300) | st.text(alphabet="\\u0041x%&#;A{}4\u200bＡ", max_size=60))
def test_every_place_in_what_was_decoded_is_one_in_the_text(text):
    raw = text.encode("utf-8", "surrogatepass")
    for view in decode(raw):
        for start in range(0, len(view.text), 7):
            for end in (start + 1, len(view.text)):
                begin, stop = view.locate(start, end)
                assert 0 <= begin <= stop <= len(raw)


HOSTILE = {
    "percent": "%41",
    "half a percent": "%4",
    "references": "&amp;",
    "half a reference": "&#1111111",
    "escapes": "\\u0041",
    "backslashes": "\\",
    "zero width": "\u200b",
    "full width": "Ａ",
    "base64 of text": "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8g\n",
    "base64 of text, then of bytes": "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQg////\n",
    "base64 on one line": "aGVsbG8g",
    "base64 of base64": "YUdWc2JHOGdkMjl5YkdR",
    "hex": "41",
    "hex with blanks": "41 ",
    "hex of hex": "3431",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_the_time_for_a_hostile_text_is_linear_in_it(text):
    small, large = (
        (HOSTILE[text] * (size // len(HOSTILE[text]))).encode() for size in (25_000, 100_000)
    )
    assert_linear(BUILT.find, small, large, times=4)
