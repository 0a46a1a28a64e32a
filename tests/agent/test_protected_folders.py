"""Protected places are looked up on disk: links, and files that settings name."""

from pathlib import Path

import pytest

from agentd.agent.protected_folders import find_protected_places
from agentd.storage.layout import Layout


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    for name in ("home", "real-config", "state"):
        (tmp_path / name).mkdir()
    (tmp_path / "config").symlink_to("real-config")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


def test_links_are_resolved(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "shared-bots.yml").touch()
    (tmp_path / "real-config" / "bots.yml").symlink_to(tmp_path / "shared-bots.yml")
    places = find_protected_places(layout)
    assert places.config == str(tmp_path / "real-config")
    assert (places.state, places.home) == (str(tmp_path / "state"), str(tmp_path / "home"))
    assert places.check_reading(str(tmp_path / "shared-bots.yml"), str(tmp_path))


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_a_file_that_holds_a_secret_of_the_settings_is_found(
    layout: Layout, tmp_path: Path, quote: str
) -> None:
    key, token = tmp_path / "keys" / "openai", tmp_path / "home" / "token"
    config = tmp_path / "real-config"
    (config / "models.yml").write_text(f"suppliers: {{a: {{key: {quote}file:{key}{quote}}}}}\n")
    (config / "bots.yml").write_text(f"token: {quote}file:~/token{quote} # mine\n")
    places = find_protected_places(layout)
    for path in (key, token):
        assert places.check_reading(str(path), str(tmp_path)), path
    assert places.check_reading(str(tmp_path / "keys" / "other"), str(tmp_path)) is None


def test_a_home_that_is_the_whole_system_is_none(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/")
    assert find_protected_places(layout).home == ""


def test_who_has_no_home_has_none_in_the_working_folder(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "~")  # as it is left where neither HOME nor a user is known
    assert find_protected_places(layout).home == ""


def test_what_cannot_be_read_hinders_nothing(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "real-config" / "models.yml").mkdir()
    (tmp_path / "real-config" / "bots.yml").write_bytes(b"\xff\x00file:/a\x00")
    assert find_protected_places(layout).config
