"""Where settings and folders come from, with real files."""

import os
from pathlib import Path

import pytest

from agentd.catalog.settings import Settings
from agentd.disk import settings
from agentd.errors import Misconfigured


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def load(folder: Path, options=None, environ=None) -> settings.Place:
    return settings.load(options or {}, environ or {}, str(folder))


def test_without_any_file_the_defaults_hold_and_the_folders_are_the_users_own(home, folder):
    place = load(folder)
    assert place.layout.state == place.settings.state == str(home / ".local/state/agentd")
    assert place.layout.config == str(home / ".config/agentd")
    assert place.settings == Settings(workspace=str(folder), state=place.settings.state)


def test_xdg_folders_are_honoured_when_absolute(home, folder):
    environ = {"XDG_STATE_HOME": "/x/state", "XDG_CONFIG_HOME": "relative"}
    layout = load(folder, environ=environ).layout
    assert (layout.state, layout.config) == ("/x/state/agentd", str(home / ".config/agentd"))


def test_in_a_checkout_the_folders_are_there(home, folder):
    (folder / "agentd").mkdir()
    (folder / "setup.cfg").touch()
    layout = load(folder).layout
    assert (layout.state, layout.config) == (str(folder / "state"), str(folder / "config"))


def test_under_systemd_they_are_the_ones_it_made(home, folder):
    (folder / "agentd").mkdir()
    (folder / "setup.cfg").touch()
    environ = {"STATE_DIRECTORY": "/var/lib/agentd:/b", "CONFIGURATION_DIRECTORY": "/etc/agentd"}
    layout = load(folder, environ=environ).layout
    assert (layout.state, layout.config) == ("/var/lib/agentd", "/etc/agentd")


def test_named_folders_win_and_are_taken_from_the_working_folder(home, folder):
    environ = {"STATE_DIRECTORY": "/var/lib/agentd", "AGENTD_STATE": "s", "AGENTD_CONFIG": "~/c"}
    place = load(folder, {"config": "../c"}, environ)
    assert place.layout.state == str(folder / "s")
    assert place.layout.config == str(folder.parent / "c")
    assert load(folder, environ=environ).layout.config == str(home / "c")


def test_the_four_sources_together(home, folder):
    config = folder / "config"
    config.mkdir()
    (config / "agentd.yml").write_text("host: file\nport: 1\nworkspace: file\nstate: kept\n")
    (folder / ".env").write_text("AGENTD_CONFIG=config\nAGENTD_HOST=env\nAGENTD_PORT=2\n")
    place = load(folder, {"port": "4"}, {"AGENTD_HOST": "environ"})
    assert place.settings.port == 4
    assert place.settings.host == "environ"
    assert place.settings.workspace == str(folder / "file")
    assert place.layout.state == str(folder / "kept")


def test_the_workspace_is_the_units_only_where_nobody_names_one(home, folder):
    environ = {"AGENTD_DEFAULT_WORKSPACE": str(home / "agentd")}
    assert load(folder, environ=environ).settings.workspace == str(home / "agentd")
    config = home / ".config" / "agentd"
    config.mkdir(parents=True)
    (config / "agentd.yml").write_text("workspace: .\n")
    assert load(folder, environ=environ).settings.workspace == str(folder)
    environ["AGENTD_WORKSPACE"] = "src"
    assert load(folder, environ=environ).settings.workspace == str(folder / "src")


@pytest.mark.parametrize(
    ("workspace", "why"),
    [
        ("/", "the whole system"),
        ("s", "state folder"),
        ("s/chats", "state folder"),
        ("in", "state"),
    ],
)
def test_what_can_be_no_workspace_is_refused_with_the_reason(home, folder, workspace, why):
    (folder / "s").mkdir()
    (folder / "in").symlink_to("s")
    with pytest.raises(Misconfigured, match=why) as caught:
        load(folder, {"state": "s", "workspace": workspace})
    assert caught.value.mistakes[0].where == "--workspace"
    assert load(folder, {"state": "s", "workspace": "."}).settings.workspace == str(folder)


def test_the_mistakes_of_every_source_come_at_once(home, folder):
    config = folder / "config"
    config.mkdir()
    (config / "agentd.yml").write_text("# mine\nprot: 1\n")
    (folder / ".env").write_text("AGENT_API_KEY oops\n")
    with pytest.raises(Misconfigured) as caught:
        load(folder, {"config": "config"}, {"AGENTD_PORT": "x"})
    assert [str(mistake).removeprefix(str(folder)) for mistake in caught.value.mistakes] == [
        "/.env:1: expected AGENT_API_KEY=value on one line",
        '/config/agentd.yml:2: "prot" is not known here; did you mean "port"?',
        "AGENTD_PORT: found no port; expected a whole number 0 to 65535",
    ]


@pytest.mark.parametrize("name", ["AGENT_API_KEY", "PROXY_APP_HASH"])
def test_a_hash_in_upper_case_is_refused_whatever_its_source(home, folder, name):
    """The proxy specification, section 5.2: the sum is in lowercase."""
    for file, environ in ((f"{name}={'A' * 64}\n", {}), ("", {name: "A" * 64})):
        (folder / ".env").write_text(file)
        with pytest.raises(Misconfigured, match="upper case") as caught:
            load(folder, environ=environ)
        assert "AAAA" not in caught.value.message


def test_a_settings_file_that_is_a_link_is_told(home, folder):
    os.symlink("/dev/null", folder / "agentd.yml")
    with pytest.raises(Misconfigured, match="symbolic link"):
        load(folder, {"config": "."})


def test_a_mistake_elsewhere_keeps_nobody_from_finding_the_keys(home, folder):
    (folder / "agentd.yml").write_text("prot: 1\n")
    named = {"config": ".", "state": "s"}
    with pytest.raises(Misconfigured):
        load(folder, named)
    assert settings.locate(named, {}, str(folder)).state == str(folder / "s")
    with pytest.raises(Misconfigured, match="prot"):
        settings.locate({"config": "."}, {}, str(folder))
    (folder / "agentd.yml").write_text("state: t\n")
    assert settings.locate({"config": "."}, {}, str(folder)).state == str(folder / "t")
