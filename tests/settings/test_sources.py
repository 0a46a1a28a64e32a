"""The sources of settings and folders, with real files."""

import os
import pwd
from pathlib import Path

import pytest

from agentd.core.errors import ConfigError
from agentd.settings import sources
from agentd.settings.model import VARIABLES, Settings
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY


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


def load(folder: Path, options=None, environ=None) -> sources.ResolvedConfig:
    return sources.load(options or {}, environ or {}, str(folder))


def test_without_any_file_the_defaults_hold_and_the_folders_are_the_users_own(home, folder):
    place = load(folder)
    assert place.layout.state == place.settings.state == str(home / ".local/state/agentd")
    assert place.layout.config == str(home / ".config/agentd")
    assert place.settings == Settings(workspace=str(folder), state=place.settings.state)


def test_xdg_folders_are_honoured_when_absolute(home, folder):
    environ = {"XDG_STATE_HOME": "/x/state", "XDG_CONFIG_HOME": "relative"}
    layout = load(folder, environ=environ).layout
    assert (layout.state, layout.config) == ("/x/state/agentd", str(home / ".config/agentd"))


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user be a number without a name, as in a container, and HOME not be set."""

    def find_none(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", find_none)


@pytest.mark.parametrize("read", [sources.load, sources.locate])
@pytest.mark.parametrize("options", [{}, {"state": "/x"}, {"config": "/x"}])
def test_without_a_home_the_folders_are_to_be_named_and_none_is_called_tilde(
    home, folder, homeless, read, options
):
    with pytest.raises(ConfigError, match=r"(?s)HOME is not set.*--state, --config"):
        read(options, {}, str(folder))
    named = read({"state": "/x/state", "config": "config"}, {}, str(folder))
    layout = named if isinstance(named, Layout) else named.layout
    assert (layout.state, layout.config) == ("/x/state", str(folder / "config"))


def test_the_home_of_nobody_is_no_folder(home, folder):
    with pytest.raises(ConfigError, match="~no-such-user stands for no user's home"):
        load(folder, {"state": "~no-such-user/state"})
    assert load(folder, {"state": "./~no-such-user"}).layout.state == str(folder / "~no-such-user")


def as_checkout(folder: Path) -> Path:
    """Make the folder look like a clone of agentd, and return it."""
    (folder / "agentd").mkdir()
    (folder / "agentd" / "__init__.py").touch()
    (folder / "setup.cfg").write_text("[metadata]\nname = agentd-workstation\n")
    return folder


def test_in_the_checkout_that_runs_the_folders_are_there(home, folder, monkeypatch):
    assert load(REPOSITORY).layout.state == str(REPOSITORY / "state")
    assert load(REPOSITORY).layout.config == str(REPOSITORY / "config")
    (folder.parent / "link").symlink_to(REPOSITORY)
    assert load(folder.parent / "link").layout.state == str(folder.parent / "link" / "state")


def test_a_strangers_repository_is_not_taken_for_the_checkout(home, folder):
    """Whatever stands in it: its keys would open this daemon, its commands would run."""
    (as_checkout(folder) / "config").mkdir()
    (folder / "config" / "agentd.yml").write_text("acp_command: [./evil]\nhost: 0.0.0.0\n")
    place = load(folder)
    assert place.layout.state == str(home / ".local/state/agentd")
    assert place.layout.config == str(home / ".config/agentd")
    assert place.settings == Settings(workspace=str(folder), state=place.layout.state)


def test_a_folder_of_installed_packages_is_no_checkout(home, monkeypatch):
    monkeypatch.setattr(sources, "PACKAGE", str(home / "agentd"))
    (home / "agentd").mkdir()
    assert load(home).layout.config == str(home / ".config/agentd")
    (home / "setup.cfg").touch()
    assert load(home).layout.config == str(home / "config")


@pytest.mark.parametrize("variable", sorted({*VARIABLES, "AGENTD_CONFIG"}))
def test_from_dotenv_only_what_the_specifications_name_is_taken(home, folder, variable):
    """The remote-control specification, section 5.3: ``AGENT_API_KEY``; the proxy's, 5.2."""
    value = "4711" if variable == "AGENTD_PORT" else "a" * 64
    (folder / ".env").write_text(f"export {variable}={value}\n{variable} again\n"[:-1])
    if variable in ("AGENT_API_KEY", "PROXY_APP_HASH"):
        with pytest.raises(ConfigError, match="expected"):
            load(folder)
        (folder / ".env").write_text(f"{variable}='{value}'")
        place = load(folder)
        assert getattr(place.settings, variable.lower()) == value
        assert f"{folder}/.env ({variable})" in place.sources
        assert not sources.describe_unused(place.overrides)
        return
    place = load(folder)
    assert place.settings == load(home).settings.__class__(
        workspace=str(folder), state=place.layout.state
    )
    assert place.layout.config == str(home / ".config/agentd")
    result = sources.describe_unused(place.overrides)
    assert result.startswith(f"{folder}/.env: {variable} not taken from here")
    assert value not in result


@pytest.mark.parametrize("variable", ["AGENT_API_KEY", "PROXY_APP_HASH"])
def test_no_key_is_taken_from_a_dotenv_that_others_can_write(folder, variable):
    """Whoever else may write to a shared folder would be given the daemon."""
    file = folder / ".env"
    file.write_text(f"OTHER=1\n{variable}={'a' * 64}\n")
    for mode in (0o666, 0o646):
        file.chmod(mode)
        with pytest.raises(ConfigError, match=f"can be written by others; chmod go-w {file}"):
            load(folder)
    file.chmod(0o644)
    assert getattr(load(folder).settings, variable.lower()) == "a" * 64


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_no_key_is_taken_from_a_dotenv_of_another_user(folder):
    file = folder / ".env"
    file.write_text(f"PROXY_APP_HASH={'a' * 64}\n")
    os.chown(file, 12345, -1)
    with pytest.raises(ConfigError, match=f"chown 0 {file}"):
        load(folder)
    file.write_text("OTHER=1\nAGENT_API_KEY=\n")
    assert not load(folder).settings.agent_api_key


def test_the_sources_are_reported_without_any_value(home, folder):
    (folder / ".env").write_text(f"PROXY_APP_HASH={'e' * 64}\n")
    (folder / "agentd.yml").write_text("port: 4711\n")
    environ = {"AGENT_API_KEY": "d" * 64, "AGENTD_HOST": "::1"}
    result = load(folder, {"config": ".", "state": "s"}, environ).sources
    assert result == (
        f"settings from command line (--config, --state), environment (AGENTD_HOST, AGENT_API_KEY),"
        f" {folder}/.env (PROXY_APP_HASH), {folder}/agentd.yml;"
        f" config {folder}, state {folder}/s, workspace {folder}"
    )


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
    hashes = {name: name * 64 for name in "abc"}
    (folder / ".env").write_text(f"AGENT_API_KEY={hashes['a']}\nPROXY_APP_HASH={hashes['b']}\n")
    environ = {"AGENTD_HOST": "environ", "AGENT_API_KEY": hashes["c"], "AGENTD_CONFIG": "config"}
    place = load(folder, {"port": "4"}, environ)
    assert place.settings.agent_api_key == hashes["c"]
    assert place.settings.proxy_app_hash == hashes["b"]
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
    with pytest.raises(ConfigError, match=why) as caught:
        load(folder, {"state": "s", "workspace": workspace})
    assert caught.value.problems[0].where == "--workspace"
    assert load(folder, {"state": "s", "workspace": "."}).settings.workspace == str(folder)


def test_the_mistakes_of_every_source_come_at_once(home, folder):
    config = folder / "config"
    config.mkdir()
    (config / "agentd.yml").write_text("# mine\nprot: 1\n")
    (folder / ".env").write_text("AGENT_API_KEY oops\n")
    with pytest.raises(ConfigError) as caught:
        load(folder, {"config": "config"}, {"AGENTD_PORT": "x"})
    assert [str(problem).removeprefix(str(folder)) for problem in caught.value.problems] == [
        "/.env:1: expected AGENT_API_KEY=value on one line",
        '/config/agentd.yml:2: "prot" is not known here; did you mean "port"?',
        "AGENTD_PORT: is not a port; expected a whole number 0 to 65535",
    ]


@pytest.mark.parametrize(
    ("text", "environ", "told"),
    [
        ("# mine\n\nbudget_per_day: -1\n", {}, "3: budget_per_day: found -1"),
        ("hosts:\n- a.example\n- a b\n", {}, "1: hosts: 'a b'"),
        ("port: 1\ntrusted_proxies: [x]\n", {}, "2: trusted_proxies: "),
        ("port: 1\nagent_api_key: zz\n", {}, "2: agent_api_key: "),
        ("port: 1\nadmin_user: ann\nadmin_password_hash: x\n", {}, "3: admin_password_hash: "),
        ("port: 1\nworkspace: /\n", {}, "2: "),
        ("port: 1\nagent_api_key: zz\n", {"AGENT_API_KEY": "y"}, ""),
    ],
)
def test_a_value_of_the_file_that_cannot_be_is_told_with_its_line(
    home, folder, text, environ, told
):
    file = folder / "agentd.yml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(folder, {"config": str(folder)}, environ)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{file}:{told}" if told else "AGENT_API_KEY: agent_api_key: ")


@pytest.mark.parametrize("name", ["AGENT_API_KEY", "PROXY_APP_HASH"])
def test_a_hash_in_upper_case_is_refused_whatever_its_source(home, folder, name):
    """The proxy specification, section 5.2: the sum is in lowercase."""
    for file, environ in ((f"{name}={'A' * 64}\n", {}), ("", {name: "A" * 64})):
        (folder / ".env").write_text(file)
        with pytest.raises(ConfigError, match="upper case") as caught:
            load(folder, environ=environ)
        assert "AAAA" not in caught.value.message


def test_a_settings_file_that_is_a_link_is_reported(home, folder):
    os.symlink("/dev/null", folder / "agentd.yml")
    with pytest.raises(ConfigError, match="symbolic link"):
        load(folder, {"config": "."})


def test_a_mistake_elsewhere_keeps_nobody_from_finding_the_keys(home, folder):
    (folder / "agentd.yml").write_text("prot: 1\n")
    named = {"config": ".", "state": "s"}
    with pytest.raises(ConfigError):
        load(folder, named)
    assert sources.locate(named, {}, str(folder)).state == str(folder / "s")
    with pytest.raises(ConfigError, match="prot"):
        sources.locate({"config": "."}, {}, str(folder))
    (folder / "agentd.yml").write_text("state: t\n")
    assert sources.locate({"config": "."}, {}, str(folder)).state == str(folder / "t")
