"""Keys have the specified form, and nothing repeats."""

import re

from agentd import ids


def test_a_key_has_the_specified_form():
    assert re.fullmatch(r"agent_[A-Za-z0-9]{32}", ids.new_key())


def test_nothing_repeats():
    for make in (ids.new_key, ids.new_salt, ids.new_connection_id, ids.new_request_id):
        assert len({make() for _ in range(1000)}) == 1000


def test_a_salt_is_128_bits_in_lowercase_hexadecimal():
    assert re.fullmatch(r"[0-9a-f]{32}", ids.new_salt())


def test_a_connection_id_needs_no_escape_in_an_address():
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", ids.new_connection_id())
