"""The names of this daemon in ``Host`` headers, while the settings change."""

import pytest

from agentd.http import hosts
from agentd.http.hosts import Hosts


def test_a_name_that_is_no_longer_allowed_is_refused_though_it_was_served_before() -> None:
    known = Hosts(["my.box", "your.box"])
    assert known.serves("my.box:80")
    assert known.serves("your.box")
    known.allow(["your.box"])
    assert not known.serves("my.box:80")
    assert known.serves("your.box")
    assert known.serves("localhost")


@pytest.mark.parametrize("name", ["My.Box", "my.box."])
def test_a_name_is_allowed_however_the_settings_spell_it(name: str) -> None:
    assert Hosts([name]).serves("my.box")


def test_only_so_many_headers_are_remembered_and_none_that_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "_MAX_CACHED", 3)
    known = Hosts()
    for port in range(1, 9):
        assert known.serves(f"localhost:{port}")
        assert not known.serves(f"evil.example:{port}")
    assert list(known._known) == ["localhost:1", "localhost:2", "localhost:3"]
    for _ in range(2):  # also those that are looked up anew
        assert known.serves("localhost:1")
        assert known.serves("localhost:8")
        assert not known.serves("evil.example:1")


@pytest.mark.parametrize(
    ("header", "is_served"),
    [
        ("localhost", True),
        ("LocalHost:8750", True),
        ("localhost:", True),
        ("127.9.9.9:1", True),
        ("[::1]", True),
        ("[::1]:8750", True),
        ("[::1", False),
        ("[::1]x", False),
        ("[::1]:x", False),
        ("::1", False),
        ("192.0.2.1", False),
        ("[2001:db8::1]", False),
        ("localhost:x", False),
        ("localhost:\u00b2", False),
        ("localhost:\u0663", False),
        ("localhost:+1", False),
        ("", False),
    ],
)
def test_loopback_is_served_by_each_of_its_spellings(header: str, is_served: bool) -> None:
    assert Hosts().serves(header) is is_served
