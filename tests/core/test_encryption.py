"""What is encrypted opens with its key and its context alone."""

import pytest

from agentd.core.encryption import decrypt, encrypt

KEY, CONTENT, CONTEXT = bytes(range(32)), b"a supplier's old key", b"7"


def test_what_was_encrypted_is_decrypted_with_the_same_key_and_context():
    data = encrypt(KEY, CONTENT, CONTEXT)
    assert CONTENT not in data
    assert decrypt(KEY, data, CONTEXT) == CONTENT


def test_the_same_content_is_never_encrypted_alike():
    assert encrypt(KEY, CONTENT, CONTEXT) != encrypt(KEY, CONTENT, CONTEXT)


@pytest.mark.parametrize("change", ["key", "context", "altered", "cut", "empty"])
def test_what_does_not_fit_is_a_value_error(change: str):
    data = encrypt(KEY, CONTENT, CONTEXT)
    altered = {
        "altered": data[:-1] + bytes([data[-1] ^ 1]),
        "cut": data[:13],
        "empty": b"",
    }.get(change, data)
    key = bytes(32) if change == "key" else KEY
    context = b"8" if change == "context" else CONTEXT
    with pytest.raises(ValueError, match=r"."):
        decrypt(key, altered, context)
