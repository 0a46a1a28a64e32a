"""The device of a login, read from a header that a client may fill as it likes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.auth.devices import UNKNOWN_DEVICE, describe_device

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("header", "device"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/2010 Firefox/140.0", "Firefox on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT} Chrome/138.0 Safari/537.36", "Chrome on Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT} Chrome/138 Edg/138", "Edge on Windows"),
        (f"Mozilla/5.0 (Linux; Android 16) {WEBKIT} Chrome/138 Mobile", "Chrome on Android"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15"
            " (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Macintosh; Intel) KHTML Version/18 Safari/6", "Safari on macOS"),
        ("Mozilla/5.0 (X11; Linux x86_64) Konqueror", "A browser on Linux"),
        ("curl/8.14.1", "curl"),
        ("python-httpx/0.28", "python-httpx"),
        ("Mozilla/5.0", UNKNOWN_DEVICE),
        ("", UNKNOWN_DEVICE),
        ("<script>alert(1)</script>", UNKNOWN_DEVICE),
    ],
)  # fmt: skip
def test_a_browser_and_its_system_or_a_program_are_told(header: str, device: str) -> None:
    assert describe_device(header) == device


@given(st.text(max_size=3000) | st.from_regex(r"Mozilla/5\.0 .{0,300}"))
def test_whatever_is_sent_becomes_a_few_plain_words(header: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9._+ -]{0,59}", describe_device(header))
