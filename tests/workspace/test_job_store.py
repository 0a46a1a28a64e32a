"""The records of builds and deployments are read strictly, and their outcomes stay."""

import itertools
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import ConfigError
from agentd.storage.document import replace_document
from agentd.storage.layout import Layout
from agentd.system.process_identity import Process
from agentd.workspace.autofix.rules import AutofixStatus, BuildFix
from agentd.workspace.builds.build import BuildStatus
from agentd.workspace.builds.problems import Problem
from agentd.workspace.definitions import Build, Deployment, HealthCheck
from agentd.workspace.deployments import output_log
from agentd.workspace.deployments.deployment import DeploymentStatus
from agentd.workspace.job_store import (
    AutofixFile,
    BuildFiles,
    DeploymentFiles,
    load_builds,
    load_deployments,
)


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text)


def test_a_build_as_a_person_writes_it(layout):
    write(
        layout.builds_settings,
        "builds:\n  app: {command: [make, -j4], folder: src, environment: {CC: clang},"
        " timeout: 60, patterns: [gcc]}\n",
    )
    expected = Build(("make", "-j4"), "src", {"CC": "clang"}, 60, ("gcc",))
    assert load_builds(layout) == {"app": expected}


def test_a_deployment_as_a_person_writes_it(layout):
    write(
        layout.deployments_settings,
        "deployments:\n  web: {command: [serve], health: {port: 80, start_seconds: 5},"
        " restart: always}\n",
    )
    expected = Deployment(
        ("serve",), health=HealthCheck(port=80, start_seconds=5), restart="always"
    )
    assert load_deployments(layout) == {"web": expected}


def test_without_a_file_there_is_none(layout):
    assert load_builds(layout) == {}
    assert load_deployments(layout) == {}


def test_a_file_whose_last_entry_was_deleted_or_commented_out_has_none(layout):
    write(layout.builds_settings, "builds:\n#  app: {command: [make]}\n")
    write(layout.deployments_settings, "deployments:\n")
    assert load_builds(layout) == {}
    assert load_deployments(layout) == {}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('"; id": {command: [x]}', "is not a valid name"),
        ("--x: {command: [x]}", "is not a valid name"),
        ("../y: {command: [x]}", "is not a valid name"),
        (".: {command: [x]}", "is not a valid name"),
        ("a: {command: [x]}\n  A: {command: [x]}", "upper and lower case"),
        ("a: {command: make all}", "expected a list"),
        ("a: {command: []}", "is empty"),
        ("a: {command: [x], folder: /etc}", "leads out of the workspace"),
        ("a: {command: [x], folder: b/../../c}", "leads out of the workspace"),
        ("a: {command: [x], environment: {AGENTD_TURN: x}}", "agentd itself"),
        ("a: {command: [x], environment: {A-B: x}}", "not a valid variable name"),
        ("a: {command: [x], patterns: [gc]}", 'did you mean "gcc"'),
        ("a: {command: [x], timeout: .nan}", "a number"),
        ("a: {comand: [x]}", 'did you mean "command"'),
    ],
)
def test_a_wrong_build_is_refused_with_its_line(layout, text, what):
    write(layout.builds_settings, f"builds:\n  {text}\n")
    with pytest.raises(ConfigError) as refused:
        load_builds(layout)
    assert what in refused.value.message
    assert refused.value.problems[0].line >= 2


@pytest.mark.parametrize("health", ["{}", "{port: 80, url: 'http://x/'}", "{url: 'file:///x'}"])
def test_health_is_one_thing_that_can_be_looked_at(layout, health):
    text = f"deployments:\n  a: {{command: [x], health: {health}}}\n"
    write(layout.deployments_settings, text)
    with pytest.raises(ConfigError):
        load_deployments(layout)


def test_no_value_of_a_variable_is_reported(layout):
    write(layout.builds_settings, "builds:\n  a: {command: [x], environment: {A: [kettle]}}\n")
    with pytest.raises(ConfigError) as refused:
        load_builds(layout)
    assert "kettle" not in refused.value.message


def test_results_and_outputs_stay_and_are_private(layout):
    files = BuildFiles(layout)
    problems = (Problem("error", "x", "a.c", 1, 2, "gcc"),)
    status = BuildStatus("app", "failed", "r", "me", exit_code=1, errors=1, problems=problems)
    files.save(status, b"said")
    assert BuildFiles(layout).load() == [status]
    assert files.read_output("app") == b"said"
    for path in Path(layout.builds).rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_a_damaged_file_takes_nothing_else_down(layout, caplog):
    files = DeploymentFiles(layout)
    files.save(DeploymentStatus("a", process=Process(1, 2, "b")))
    files.save(DeploymentStatus("b"))
    Path(layout.get_deployment_path("b")).write_text('{"format": 99, "deployment": {"name": "b"}}')
    os.makedirs(layout.get_deployment_folder("c"))
    Path(layout.get_deployment_folder("c"), ".tmp-x").write_text("half")
    assert files.load() == [DeploymentStatus("a", process=Process(1, 2, "b"))]
    assert "format 99" in caplog.text
    assert os.listdir(layout.get_deployment_folder("c")) == []


def test_what_is_no_folder_of_a_job_takes_no_start_down(layout, caplog):
    builds, deployments = BuildFiles(layout), DeploymentFiles(layout)
    builds.save(BuildStatus("app", "failed", "r", "me", exit_code=1), b"")
    Path(layout.builds, "notes.txt").write_text("mine")
    Path(layout.deployments).write_text("no folder")
    assert [build.name for build in builds.load()] == ["app"]
    assert deployments.load() == []
    assert f"{layout.deployments} is passed over: Not a directory" in caplog.text


def test_an_output_is_moved_aside_while_the_program_writes_on(layout):
    files = DeploymentFiles(layout, limit=100)
    descriptor = files.open_output("web")
    try:
        os.write(descriptor, b"a" * 90 + b"b" * 60)
        files.trim("web")
        os.write(descriptor, b"c" * 30)
        files.trim("web")
    finally:
        os.close(descriptor)
    assert files.read_output("web").data == b"a" * 10 + b"b" * 60 + b"c" * 30
    assert os.stat(layout.get_deployment_output_paths("web")[0]).st_size == 30


@pytest.mark.parametrize("writes", [1, 3, 100])
def test_what_is_written_while_a_log_is_moved_aside_is_kept(layout, monkeypatch, writes):
    """It takes a moment, as 10 MiB are copied and synced; here the program writes in each step."""
    files = DeploymentFiles(layout, limit=1000)
    descriptor = files.open_output("web")
    late = iter(range(writes))

    def replace_and_write(path: str, data: bytes) -> None:
        replace_document(path, data)
        for number in itertools.islice(late, 1):
            os.write(descriptor, b"%03d " % number)

    monkeypatch.setattr(output_log, "replace_document", replace_and_write)
    try:
        os.write(descriptor, b"a" * 1001)
        files.trim("web")
    finally:
        os.close(descriptor)
    kept = min(writes, 21)
    told = b"".join(b"%03d " % number for number in range(kept))
    found = files.read_output("web", 0)
    assert found.data == (b"a" * 1000 + told)[-1000:]
    assert found.end == 1001 + len(told)


@given(
    pieces=st.lists(st.integers(0, 60), max_size=20),
    cuts=st.sets(st.integers(0, 20)),
    restarts=st.sets(st.integers(0, 20)),
    most=st.integers(1, 200),
    data=st.data(),
)
def test_an_offset_means_the_same_byte_however_often_the_log_is_cut(
    pieces, cuts, restarts, most, data
):
    with TemporaryDirectory() as folder:
        layout = Layout(folder, folder)
        files = DeploymentFiles(layout, limit=50)
        said = b""
        for number, size in enumerate(pieces):
            descriptor = files.open_output("web")
            piece = bytes((len(said) + at) % 251 for at in range(size))
            os.write(descriptor, piece)
            os.close(descriptor)
            said += piece
            if number in cuts:
                files.trim("web")
            if number in restarts:
                files = DeploymentFiles(layout, limit=50)
        offset = data.draw(st.none() | st.integers(0, len(said) + 5))
        found = files.read_output("web", offset, most)
        assert found.end == len(said)
        assert found.data == said[found.offset :]
        assert len(found.data) <= min(most, 50)
        if offset is not None and offset <= len(said):
            assert found.offset >= offset
            assert found.offset == offset or len(found.data) <= min(most, 50)


def test_offsets_go_on_behind_a_log_of_an_earlier_version(layout):
    files = DeploymentFiles(layout, limit=100)
    os.close(files.open_output("web"))
    log, older, _ = layout.get_deployment_output_paths("web")
    Path(older).write_bytes(b"before")
    Path(log).write_bytes(b"now")
    assert files.read_output("web") == (0, b"beforenow")
    assert files.read_output("web", 4) == (4, b"renow")


def test_autofix_stays(layout):
    os.makedirs(layout.state)
    file, status = AutofixFile(layout), AutofixStatus(True, (BuildFix("app", True, 3),))
    assert file.load() == AutofixStatus()
    file.save(status)
    assert file.load() == status
