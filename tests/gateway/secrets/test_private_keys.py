"""Nothing of a private key is left, wherever it stands and however the text is cut."""

import base64
import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.detect import Detector
from agentd.gateway.secrets.rules import SecretRules
from tests.gateway.secrets.bodies import mask_body
from tests.gateway.secrets.private_key_forms import (
    KINDS,
    WRITTEN,
    list_secret_lines,
    make_private_key,
)
from tests.gateway.secrets.samples import make_letters
from tests.support.processor import assert_linear

BUILT = Detector(SecretRules(BUILT_IN))

MOST_LEFT = 20
"""Characters of a line in a row that may stay where a text is cut within it."""

OFFSETS = st.one_of(st.integers(0, 200), st.integers(0, 9000))


def remove_found(text: str) -> str:
    raw = text.encode()
    at, left = 0, []
    for hit in BUILT.find(raw):
        left.append(raw[at : hit.start])
        at = hit.end
    return b"\0".join([*left, raw[at:]]).decode()


def find_leaked(text: str, rows: Iterable[str]) -> list[str]:
    left = remove_found(text)
    size = MOST_LEFT + 1
    return [
        row[at : at + size]
        for row in rows
        for at in range(max(len(row) - size + 1, 1))
        if len(row) > MOST_LEFT and row[at : at + size] in left
    ]


@pytest.mark.parametrize("written", WRITTEN)
def test_nothing_is_left_of_a_key_however_it_is_written(written):
    for kind in KINDS:
        key = make_private_key(kind)
        text = f"before\n{WRITTEN[written](key)}\nand after it"
        assert not find_leaked(text, list_secret_lines(key)), kind
        left = remove_found(text)
        assert left.startswith("before")
        assert "after it" in left


@given(kind=st.sampled_from(KINDS), written=st.sampled_from(sorted(WRITTEN)), before=OFFSETS)
def test_nor_wherever_it_stands(kind, written, before):
    key = make_private_key(kind)
    padding = ("ten words " * (before // 10 + 1))[:before]
    assert not find_leaked(f"{padding}{WRITTEN[written](key)}", list_secret_lines(key))
    assert not find_leaked(f"{padding}\n{WRITTEN[written](key)}\n{padding}", list_secret_lines(key))


ROWS_KEPT = sorted(set(WRITTEN) - {"on one line with blanks", "in an address", "in a form"})


@given(
    kind=st.sampled_from([kind for kind in KINDS if kind != "OpenVPN"]),
    written=st.sampled_from(ROWS_KEPT),
    start=st.integers(0, 4000),
    size=st.integers(320, 5000),
    before=OFFSETS,
)
def test_nor_of_a_part_of_it(kind, written, start, size, before):
    key = make_private_key(kind)
    text = WRITTEN[written](key)
    start %= max(len(text) - 320, 1)
    part = text[start : start + size]
    whole = sum(row in part for row in list_secret_lines(key) if len(row) >= 64)
    if whole < 3 and "----" not in part:
        return  # too little to tell it from other base64
    assert not find_leaked("." * before + "\n" + part, list_secret_lines(key))


@pytest.mark.parametrize("written", ROWS_KEPT)
def test_a_key_that_two_messages_share_is_hidden_in_both(written):
    for kind in KINDS:
        key = make_private_key(kind)
        text = WRITTEN[written](key)
        rows = [row for row in list_secret_lines(key) if len(row) > MOST_LEFT]
        first, last = text.index(rows[0]) + 60, text.index(rows[-1]) + len(rows[-1]) - 60
        for at in range(first, last, 197):
            assert not find_leaked(text[:at], rows), (kind, at)
            assert not find_leaked(text[at:], rows), (kind, at)


def test_a_key_without_its_begin_and_end_lines_is_reported_by_its_first_bytes():
    for kind in ("RSA-2048", "RSA-4096", "P-256 in PKCS8", "Ed25519", "Ed25519 of OpenSSH"):
        body = "".join(list_secret_lines(make_private_key(kind)))
        assert remove_found(f"der: '{body}', 1") == "der: '\0', 1", kind


def test_a_key_in_base64_is_hidden_with_its_base64():
    for kind in ("RSA-2048", "Ed25519 of OpenSSH"):
        encoded = base64.b64encode(make_private_key(kind).encode()).decode()
        assert remove_found(f"tls.key: {encoded}\nb: 1") == "tls.key: \0\nb: 1"


def test_the_keys_of_a_request_do_not_reach_a_supplier():
    keys = [make_private_key(kind) for kind in KINDS]
    messages = [{"content": text} for text in (*keys, json.dumps(keys))]
    body = mask_body({"messages": messages}).body
    sent = json.dumps(json.loads(body))
    assert not [
        row for key in keys for row in list_secret_lines(key) if len(row) > 20 and row in sent
    ]


def test_of_the_words_after_a_key_that_was_cut_none_is_taken():
    for kind in ("RSA-2048", "Ed25519 of OpenSSH", "PGP"):
        key = make_private_key(kind)
        for at in range(200, len(key) - 60, 13):
            for after in ("\nwhat is it?", "... and so on", "\n[12 lines more]"):
                assert remove_found(key[:at] + after).endswith(after), (kind, at)
                assert not find_leaked(key[:at] + after, list_secret_lines(key))


CERTIFICATE = "\n".join(
    (
        "-----BEGIN CERTIFICATE-----",
        *(make_letters(64) for _ in range(9)),
        "-----END CERTIFICATE-----",
    )
)


@pytest.mark.parametrize(
    "text",
    [
        CERTIFICATE,
        CERTIFICATE.replace("CERTIFICATE", "PUBLIC KEY"),
        CERTIFICATE.replace("CERTIFICATE", "PGP PUBLIC KEY BLOCK"),
        CERTIFICATE[: CERTIFICATE.index("-----END")],
        "<X509Certificate>MIIDpzCCA1Gg" + "\n".join(map(make_letters, (52, *[64] * 9))),
        '"-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text',
        "if (!pem.startsWith('-----BEGIN RSA PRIVATE KEY-----')) {\n  throw new Error()\n}",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\n<your key>\n-----END RSA PRIVATE KEY-----",
        "openssl writes -----BEGIN ENCRYPTED PRIVATE KEY----- when it is asked for a password",
        '.replace("-----BEGIN PRIVATE KEY-----", "").replace("-----END PRIVATE KEY-----", "")',
        "\n".join("0123456789abcdef" * 4 for _ in range(9)),
        "\n".join(base64.encodebytes(bytes(range(256)) * 9).decode().split("\n")),
    ],
)
def test_what_is_no_private_key_is_left_alone(text):
    assert remove_found(text) == text


def test_a_certificate_beside_a_key_is_left_alone():
    key = make_private_key("RSA-2048")
    assert (
        remove_found(f"{CERTIFICATE}\n{key}\n{CERTIFICATE}") == f"{CERTIFICATE}\n\0\n{CERTIFICATE}"
    )


ROW = make_letters(64)
HOSTILE = {
    "many beginnings": "-----BEGIN RSA PRIVATE KEY-----",
    "many beginnings with a line": f"-----BEGIN RSA PRIVATE KEY-----\n{ROW}\n",
    "many beginnings with headers": "-----BEGIN RSA PRIVATE KEY-----\nVersion: 1\n",
    "many ends": "-----END RSA PRIVATE KEY-----\n",
    "many ends after a line": f"{ROW}\n-----END RSA PRIVATE KEY-----\n",
    "dashes": "-",
    "half a beginning": "-----BEGIN ",
    "words of a beginning": "-----BEGIN A A A A A A A A A A A A A A",
    "lines": f"{ROW}\n",
    "lines and others": f"{ROW}\n{ROW[:40]}\n",
    "heads": "MIIEowIBAAKCAQEA ",
    "heads that touch": "MIIEowIBAAKCAQEA",
    "PuTTY": "Private-Lines: 14\n",
    "one letter": "A",
    "backslashes": "\\",
    "escaped line ends": "\\\\n",
    "blanks": " ",
    "a line, then backslashes": "\\" * 200 + ROW,
}


@pytest.mark.parametrize("begins", ["", f"-----BEGIN PRIVATE KEY-----\n{ROW}\n", f"{ROW}\n" * 3])
@pytest.mark.parametrize("text", HOSTILE)
def test_the_time_for_a_hostile_text_is_linear_in_it(begins, text):
    small, large = (
        (begins + HOSTILE[text] * (size // len(HOSTILE[text]))).encode()
        for size in (25_000, 100_000)
    )
    assert_linear(BUILT.find, small, large, times=4)
