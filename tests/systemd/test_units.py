"""The units say what the daemon does, are valid, and give a reason for each line."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "systemd"
USER_UNIT = FOLDER / "agentd.service"
SYSTEM_UNIT = FOLDER / "agentd@.service"
BOTH = pytest.mark.parametrize("unit", [USER_UNIT, SYSTEM_UNIT], ids=lambda unit: unit.name)

needs_systemd_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine"
)

DRAIN_SECONDS = 30
ENGINE_END_SECONDS = 10

NEEDS_PRIVILEGE = re.compile(
    "Protect|Private|ReadOnly|ReadWrite|Inaccessible|Bind|TemporaryFileSystem|Root|ProcSubset"
    "|Capabilit|AmbientCap|Device|User=|Group=|RestrictFileSystems|IPAddress|MountFlags"
)
"""Options that an unprivileged user manager cannot carry out, or not on every system."""


def iter_assignments(unit: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each assignment: its section, the line before it, and its line."""
    section, before = "", ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            yield section, before, line
        before = line


def read_directives(unit: Path) -> dict[str, str]:
    """Return the ``[Service]`` and ``[Unit]`` lines; no name occurs twice in these units."""
    pairs = [line.split("=", 1) for _, _, line in iter_assignments(unit)]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def parse_seconds(value: str) -> int:
    """Parse ``60`` or ``5min``."""
    return int(value.removesuffix("min")) * (60 if value.endswith("min") else 1)


def analyze(tmp_path: Path, unit: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze in the unit's own mode, for a user manager with a scratch home."""
    scope = [] if unit == SYSTEM_UNIT else ["--user"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ["systemd-analyze", *scope, *arguments],
        env=environment | {"XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def verify(tmp_path: Path, unit: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Verify a copy of the unit.

    The daemon is not installed where the tests run and systemd-analyze rightly misses it, so the
    copy names a program that exists in its place. Everything else is as it is shipped.
    """
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text))
    return analyze(tmp_path, unit, "verify", "--man=no", str(copy))


@needs_systemd_analyze
@BOTH
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    found = verify(tmp_path, unit, unit.read_text())
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


@needs_systemd_analyze
@BOTH
@pytest.mark.parametrize(("right", "wrong"), [("OOMPolicy", "OOMPolizy"), ("mixed", "mixt")])
def test_the_verification_would_show_of_a_mistake(
    unit: Path, right: str, wrong: str, tmp_path: Path
) -> None:
    found = verify(tmp_path, unit, unit.read_text().replace(right, wrong))
    assert wrong in found.stderr


@needs_systemd_analyze
def test_the_system_units_exposure_is_at_most_4(tmp_path: Path) -> None:
    found = analyze(
        tmp_path, SYSTEM_UNIT, "security", "--offline=yes", "--no-pager", str(SYSTEM_UNIT)
    )
    overall = re.search(r"Overall exposure level.*: (\d+\.\d+)", found.stdout)
    assert overall is not None, found.stderr
    assert float(overall[1]) <= 4.0


@BOTH
def test_each_service_line_has_its_reason_above(unit: Path) -> None:
    bare = [
        line for section, before, line in iter_assignments(unit) if lacks_reason(section, before)
    ]
    assert bare == []


def lacks_reason(section: str, before: str) -> bool:
    """Return whether a service line follows anything but a comment of some words."""
    return section == "Service" and not re.match(r"# \S+( \S+){3}", before)


@BOTH
def test_systemd_waits_for_the_daemons_own_word_and_signs_of_life(unit: Path) -> None:
    result = read_directives(unit)
    assert result["Type"] == "notify"
    assert result["NotifyAccess"] == "main"
    assert parse_seconds(result["WatchdogSec"]) > DRAIN_SECONDS
    assert result["Restart"] == "on-failure"


@BOTH
def test_the_daemon_is_started_as_it_is_by_hand(unit: Path) -> None:
    program, *arguments = read_directives(unit)["ExecStart"].split()
    assert Path(program).name == "agentd"
    assert arguments == ["serve"]


@BOTH
def test_a_stop_leaves_time_to_drain_and_leaves_nothing_running(unit: Path) -> None:
    result = read_directives(unit)
    assert parse_seconds(result["TimeoutStopSec"]) >= DRAIN_SECONDS + ENGINE_END_SECONDS + 10
    assert result["KillMode"] == "mixed"
    assert "KillSignal" not in result


@BOTH
def test_no_core_file_and_no_file_for_others(unit: Path) -> None:
    result = read_directives(unit)
    assert result["LimitCORE"] == "0"
    assert result["UMask"] == "0077"
    assert result["ConfigurationDirectoryMode"] == "0700"


@BOTH
def test_compilers_debuggers_and_sandboxes_keep_working(unit: Path) -> None:
    result = read_directives(unit)
    assert not result.keys() & {
        "MemoryDenyWriteExecute",
        "RestrictNamespaces",
        "ProtectKernelTunables",
        "ProtectKernelLogs",
        "ProcSubset",
        "NoExecPaths",
    }
    denied = result["SystemCallFilter"]
    assert denied.startswith("~")
    assert not {"@mount", "@debug", "@process", "@resources"} & set(denied[1:].split())


def test_the_system_unit_keeps_state_and_configuration_per_person() -> None:
    result = read_directives(SYSTEM_UNIT)
    assert result["User"] == "%i"
    assert result["StateDirectory"] == result["ConfigurationDirectory"] == "agentd/%i"
    assert result["StateDirectoryMode"] == "0700"
    assert "RemoveIPC" not in result


def test_the_user_unit_never_makes_the_state_a_part_of_the_configuration() -> None:
    result = read_directives(USER_UNIT)
    assert result["ConfigurationDirectory"] == "agentd"
    assert "StateDirectory" not in result


def test_the_user_unit_asks_for_nothing_that_needs_privilege() -> None:
    asked = [line for _, _, line in iter_assignments(USER_UNIT) if NEEDS_PRIVILEGE.match(line)]
    assert asked == []


@BOTH
def test_the_workspace_of_who_names_none_is_no_folder_that_holds_keys(unit: Path) -> None:
    """Neither the home, nor the system, nor the folders of the daemon's own files."""
    result = read_directives(unit)
    environment = dict(one.split("=", 1) for one in result["Environment"].split())
    home = "%h" if unit == USER_UNIT else "/home/%i"
    assert environment["AGENTD_DEFAULT_WORKSPACE"] == f"{home}/agentd"


@BOTH
def test_secrets_come_from_a_file_and_never_from_the_unit(unit: Path) -> None:
    result = read_directives(unit)
    assert result["EnvironmentFile"].startswith("-")
    assert result["Environment"].startswith("PATH=")


def test_the_readme_names_only_files_of_this_folder() -> None:
    named = set(re.findall(r"systemd/([\w@.]+\.service)\b", (FOLDER / "README.md").read_text()))
    there = {unit.name for unit in FOLDER.glob("*.service")}
    assert there <= named
    assert all((FOLDER / name).exists() for name in named)


def test_the_lines_for_a_home_elsewhere_replace_all_that_names_the_usual_one() -> None:
    readme = (FOLDER / "README.md").read_text()
    row = re.search(r"^\| have a home elsewhere .*$", readme, re.MULTILINE)
    assert row
    lines = dict(re.findall(r"`(\w+)=([^`]+)`", row[0]))
    unit = read_directives(FOLDER / "agentd@.service")
    usual = {name for name, value in unit.items() if "/home/%i" in value}
    # The mount point of the usual home is a dependency only, and may be absent.
    assert usual - {"RequiresMountsFor"} == set(lines)
    for name, value in lines.items():
        assert value == unit[name].replace("/home/%i", "/data/alice")
