"""Builds, deployments and autofix over HTTP, with real programs.

Specification 4, 'Extended surface': build paths and deploy paths.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import pytest

from agentd.system.process_identity import read_identity
from agentd.workspace.builds.output import MAX_PUBLISHED, BuildTranscript
from agentd.workspace.deployments.runner import VARIABLE
from agentd.workspace.job_store import OUTPUT
from tests.live.test_sse_api import Stream, listening
from tests.support.daemon import HASH, Client, Serving, until
from tests.support.fixtures import Serve

NAMES = ["%3B%20id", "--x", "..%2Fy", "gone", ".", "%00"]
"""Names that are neither a build nor a deployment, however they are written."""

BUILDS = """\
builds:
  good: {command: [echo, "\\e[32mfine\\e[0m"]}
  bad: {command: [sh, -c, "echo a.c:3:7: error: no x; echo b.c:1: warning: w; exit 2"]}
  long: {command: [sh, -c, "echo run >> runs; echo begun; exec sleep 100"]}
  fixed: {command: [sh, -c, "test -e fixed || { echo a.c:1:1: error: broken; exit 1; }"]}
"""
DEPLOYMENTS = """\
deployments:
  web: {command: [sh, -c, "echo up >> ups; echo serving; exec sleep 100"], stop_seconds: 5}
  crash: {command: [sh, -c, "echo no; exit 3"], backoff: 0.05, backoff_max: 0.1}
  talks: {command: [sh, -c, "cat pipe; exec sleep 100"]}
  floods: {command: [sh, -c, "head -c 30000000 /dev/zero; echo last"], restart: never}
  deaf: {command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"], stop_seconds: 0.1}
"""


def write(folder: Path) -> None:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "builds.yml").write_text(BUILDS)
    (folder / "config" / "deployments.yml").write_text(DEPLOYMENTS)


@pytest.fixture
def daemon(serve: Serve, tmp_path: Path) -> Iterator[Serving]:
    """A daemon with builds and deployments; nothing that it started is left."""
    write(tmp_path)
    serving = serve()
    yield serving
    client = serving.client()
    for one in client.get("/api/deploy/status")["deployments"]:
        client.post(f"/api/deploy/stop/{one['name']}", None)
        wait_until_idle(client, one["name"])
    serving.stop()
    serving.join()
    assert find_processes(serving.layout.format) == []


def find_processes(format_file: str) -> list[int]:
    """Return the processes that bear a mark of this state folder."""
    generation = json.loads(Path(format_file).read_text())["generation"].encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if b"=" + generation + b"." in text:
            found.append(int(path.parent.name))
    return found


def wait_for_build(client: Client, name: str) -> Any:
    """Return a build's status, once it does not run."""
    path = f"/api/build/status/{name}"
    return until(lambda: (one := client.get(path).json())["state"] != "running" and one)


def wait_for_deployment(client: Client, name: str, state: str) -> Any:
    """Return a deployment's status, once it is in that state."""
    path = f"/api/deploy/status/{name}"
    return until(lambda: (one := client.get(path).json())["state"] == state and one)


def wait_until_idle(client: Client, name: str) -> None:
    path = f"/api/deploy/status/{name}"
    until(lambda: client.get(path)["state"] in ("stopped", "failed"))


def count_lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


# Builds.


def test_a_build_shows_its_state_its_problems_and_its_output(client: Client) -> None:
    assert client.get("/api/build/status/bad")["state"] == "none"
    triggered = client.post("/api/build/trigger/bad", None)
    assert (triggered.status, triggered["state"]) == (200, "running")
    found = wait_for_build(client, "bad")
    assert (found["state"], found["exitCode"]) == ("failed", 2)
    assert (found["errors"], found["warnings"]) == (1, 1)
    assert [problem["file"] for problem in found["problems"]] == ["a.c", "b.c"]
    assert [problem["path"] for problem in found["problems"]] == ["a.c", "b.c"]
    assert found["startedBy"] == "key:environment"
    assert found["started"] <= found["ended"]
    output = client.get("/api/build/output/bad")
    assert output.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert output.body == b"a.c:3:7: error: no x\nb.c:1: warning: w\n"
    listed = client.get("/api/build/status")["builds"]
    assert [one["name"] for one in listed] == ["good", "bad", "long", "fixed"]
    assert listed[1]["errors"] == 1


def test_colours_are_left_out_on_request(client: Client) -> None:
    client.post("/api/build/trigger/good", None)
    assert wait_for_build(client, "good")["state"] == "succeeded"
    assert client.get("/api/build/output/good").body == b"\x1b[32mfine\x1b[0m\n"
    assert client.get("/api/build/output/good?plain=true").body == b"fine\n"


def test_an_edited_file_holds_for_the_next_request(
    daemon: Serving, client: Client, tmp_path: Path
) -> None:
    """A name saved by hand is known at once, and one taken out is not: a start would do nothing."""
    for number in range(5):
        for kind, file in (("build", BUILDS), ("deploy", DEPLOYMENTS)):
            name, path = f"new{number}", tmp_path / "config" / f"{file.split(':')[0]}.yml"
            path.write_text(f"{file}  {name}: {{command: [echo, hello]}}\n")
            assert client.get(f"/api/{kind}/status/{name}").status == 200
            path.write_text(file)
            assert client.get(f"/api/{kind}/status/{name}").status == 404
    (tmp_path / "config" / "deployments.yml").write_text(
        f"{DEPLOYMENTS}  late: {{command: [sleep, '100']}}\n"
    )
    assert client.post("/api/deploy/start/late", None)["state"] != "unknown"
    wait_for_deployment(client, "late", "running")


def test_who_listens_hears_of_an_edit_of_the_files(daemon: Serving, tmp_path: Path) -> None:
    """Also of one that leaves the file broken: what it said before stays in force."""
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.reader.last_id)

        def list_heard(name: str) -> list[Any]:
            return [json.loads(one.data)[0] for one in stream.events if one.name == name]

        for kind, file in (("builds", BUILDS), ("deployments", DEPLOYMENTS)):
            path = tmp_path / "config" / f"{kind}.yml"
            path.write_text(f"{file}  by-hand: {{command: [echo]}}\n")
            stream.read_until(lambda kind=kind: list_heard(f"{kind}Update"))
            assert list_heard(f"{kind}Update")[-1][-1] == "by-hand"
            path.write_text(f"{file}  broken: {{}}\n")
            stream.read_until(lambda kind=kind: len(list_heard(f"{kind}Update")) > 1)
            assert list_heard(f"{kind}Update")[-1][-1] == "by-hand"


def test_a_problem_is_found_in_the_folder_of_its_build(
    daemon: Serving, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    said = (
        f"echo x.c:1:1: error: a; echo {tmp_path}/y.c:1:1: error: b; echo ../../z.c:1:1: error: c"
    )
    (tmp_path / "config" / "builds.yml").write_text(
        f'builds: {{placed: {{folder: sub, command: [sh, -c, "{said}; exit 1"]}}}}\n'
    )
    client.post("/api/build/trigger/placed", None)
    problems = wait_for_build(client, "placed")["problems"]
    assert [problem["path"] for problem in problems] == ["sub/x.c", "y.c", ""]


def test_a_build_that_gets_no_thread_has_failed_and_can_be_built_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse_builds(thread: threading.Thread) -> None:
        if thread.name.startswith("build "):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_builds)
        client.post("/api/build/trigger/good", None)
        failed = wait_for_build(client, "good")
    assert failed["state"] == "failed"
    assert "can't start new thread" in failed["message"]
    client.post("/api/build/trigger/good", None)
    assert wait_for_build(client, "good")["state"] == "succeeded"


def test_a_build_whose_result_cannot_be_stored_is_refused_and_can_be_built_once_it_can(
    daemon: Serving, client: Client
) -> None:
    """A folder is in the place of its file, as a restored copy may have it."""
    place = Path(daemon.layout.get_build_result_path("good"))
    place.mkdir(parents=True)
    refused = client.post("/api/build/trigger/good", None)
    assert refused.status == 503
    assert "result.json: is a folder" in refused["message"]
    assert client.get("/api/build/status/good")["state"] == "failed"
    place.rmdir()
    client.post("/api/build/trigger/good", None)
    assert wait_for_build(client, "good")["state"] == "succeeded"


def test_a_build_whose_output_is_not_understood_has_failed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(transcript: BuildTranscript, data: bytes) -> None:
        raise ValueError("what is this?")

    with monkeypatch.context() as patch:
        patch.setattr(BuildTranscript, "append", append)
        client.post("/api/build/trigger/good", None)
        failed = wait_for_build(client, "good")
    assert (failed["state"], failed["message"]) == ("failed", "ValueError: what is this?")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_build_is_not_found(client: Client, name: str) -> None:
    """Specification 4: an unknown build name answers 404."""
    for method, verb in [
        ("POST", "trigger"), ("POST", "stop"), ("GET", "status"), ("GET", "output")
    ]:  # fmt: skip
        assert client.send(method, f"/api/build/{verb}/{name}").status == 404


def test_a_hundred_triggers_at_once_start_one(daemon: Serving, tmp_path: Path) -> None:
    """Specification 4: triggering a build that is already running is ignored."""
    clients = [daemon.client() for _ in range(100)]
    with ThreadPoolExecutor(100) as pool:
        result = list(pool.map(lambda one: one.post("/api/build/trigger/long", None), clients))
    assert {one.status for one in result} == {200}
    assert {one["state"] for one in result} == {"running"}
    assert len({one["run"] for one in result}) == 1
    client = clients[0]
    until(lambda: client.get("/api/build/output/long").body == b"begun\n")
    assert count_lines(tmp_path / "runs") == 1
    stopped = client.post("/api/build/stop/long", None)
    assert (stopped["state"], stopped["exitCode"]) == ("stopped", None)
    assert find_processes(daemon.layout.format) == []
    assert client.get("/api/build/output/long").body == b"begun\n"


def test_results_survive_a_restart_and_what_ran_was_interrupted(
    serve: Serve, tmp_path: Path
) -> None:
    write(tmp_path)
    daemon = serve()
    client = daemon.client()
    client.post("/api/build/trigger/bad", None)
    before = wait_for_build(client, "bad")
    client.post("/api/build/trigger/long", None)
    daemon.stop()
    daemon.join()
    again = serve().client()
    assert again.get("/api/build/status/bad").json() == before
    assert b"no x" in again.get("/api/build/output/bad").body
    assert again.get("/api/build/status/long")["state"] == "interrupted"
    again.post("/api/build/trigger/bad", None)
    assert wait_for_build(again, "bad")["run"] != before["run"]


def test_a_build_that_is_written_down_now_can_be_built_now(client: Client, tmp_path: Path) -> None:
    (tmp_path / "config" / "builds.yml").write_text("builds:\n  new: {command: ['true']}\n")
    until(lambda: client.post("/api/build/trigger/new", None).status == 200)
    assert wait_for_build(client, "new")["state"] == "succeeded"
    assert client.post("/api/build/trigger/good", None).status == 404


# Deployments.


def test_starting_a_running_one_changes_nothing_a_hundred_times(
    daemon: Serving, tmp_path: Path
) -> None:
    """Specification 4: starting an already running deployment changes nothing."""
    clients = [daemon.client() for _ in range(100)]
    with ThreadPoolExecutor(100) as pool:
        result = list(pool.map(lambda one: one.post("/api/deploy/start/web", None), clients))
    assert {one.status for one in result} == {200}
    assert len({one["pid"] for one in result}) == 1
    until(lambda: clients[0].get("/api/deploy/output/web").body == b"serving\n")
    assert count_lines(tmp_path / "ups") == 1


def test_stop_start_and_restart_race_and_one_or_none_is_left(
    daemon: Serving, client: Client
) -> None:
    clients = [daemon.client() for _ in range(30)]
    verbs = ["start", "stop", "restart"] * 10

    def ask(pair: tuple[Client, str]) -> int:
        return pair[0].post(f"/api/deploy/{pair[1]}/web", None).status

    with ThreadPoolExecutor(30) as pool:
        assert set(pool.map(ask, zip(clients, verbs, strict=True))) == {200}
    client.post("/api/deploy/start/web", None)
    running = wait_for_deployment(client, "web", "running")
    until(lambda: find_processes(daemon.layout.format) == [running["pid"]])
    client.post("/api/deploy/stop/web", None)
    wait_for_deployment(client, "web", "stopped")
    assert find_processes(daemon.layout.format) == []


def test_restart_is_another_process(client: Client) -> None:
    """Specification 4: restart is stop, a short pause, then start."""
    first = client.post("/api/deploy/start/web", None)["pid"]
    assert client.post("/api/deploy/restart/web", None)["state"] == "stopping"
    assert wait_for_deployment(client, "web", "running")["pid"] not in (0, first)


def test_what_a_deployment_said_is_within_bounds_once_it_ended(daemon: Serving) -> None:
    client = daemon.client()
    client.post("/api/deploy/start/floods", None)
    wait_for_deployment(client, "floods", "stopped")
    log, older, _ = daemon.layout.get_deployment_output_paths("floods")
    assert os.path.getsize(log) + os.path.getsize(older) <= 2 * OUTPUT + 64 * 1024
    said = client.get("/api/deploy/output/floods?tail=1")
    assert said.body.endswith(b"last\n")
    assert OUTPUT < int(said.headers["X-Output-Next"]) <= 30_000_000 + len("last\n")


def test_what_does_not_heed_the_request_to_end_is_made_to(client: Client) -> None:
    client.post("/api/deploy/start/deaf", None)
    client.post("/api/deploy/stop/deaf", None)
    assert wait_for_deployment(client, "deaf", "stopped")["exitCode"] in (
        -signal.SIGKILL,
        -signal.SIGTERM,
    )


def test_one_that_crashes_at_once_is_tried_ever_slower_and_reported_as_a_loop(
    client: Client,
) -> None:
    client.post("/api/deploy/start/crash", None)
    path = "/api/deploy/status/crash"
    found = until(lambda: (one := client.get(path).json())["crashLoop"] and one)
    assert found["failures"] >= 5
    assert client.get("/api/deploy/output/crash").body.startswith(b"no\nno\n")
    assert client.post("/api/deploy/stop/crash", None)["wanted"] is False


@pytest.fixture
def pipe(client: Client, tmp_path: Path) -> Iterator[BinaryIO]:
    """Yield a pipe: what is written into it is the output of the running deployment ``talks``."""
    os.mkfifo(tmp_path / "pipe")
    client.post("/api/deploy/start/talks", None)
    with open(tmp_path / "pipe", "wb", buffering=0) as opened:
        yield opened


def test_one_whose_log_cannot_be_written_is_tried_again_and_can_be_stopped(
    daemon: Serving, client: Client
) -> None:
    """A link in the place of a log is never followed: anybody could have put it there."""
    log = Path(daemon.layout.get_deployment_output_paths("web")[0])
    log.parent.mkdir(parents=True)
    log.symlink_to("/dev/null")
    client.post("/api/deploy/start/web", None)
    waiting = client.get("/api/deploy/status/web")
    assert waiting["state"] == "waiting"
    assert "output.log: is a symbolic link" in waiting["message"]
    log.unlink()
    wait_for_deployment(client, "web", "running")
    client.post("/api/deploy/stop/web", None)
    wait_for_deployment(client, "web", "stopped")


def test_one_whose_status_cannot_be_stored_is_refused_and_starts_once_it_can(
    daemon: Serving, client: Client
) -> None:
    place = Path(daemon.layout.get_deployment_path("web"))
    place.mkdir(parents=True)
    refused = client.post("/api/deploy/start/web", None)
    assert refused.status == 503
    assert "deployment.json: is a folder" in refused["message"]
    place.rmdir()
    wait_for_deployment(client, "web", "running")


def test_an_output_is_read_part_by_part_and_no_character_is_torn(
    client: Client, pipe: BinaryIO
) -> None:
    path = "/api/deploy/output/talks"
    pipe.write("one\ntwo\n\N{SNOWMAN}".encode()[:-1])
    first = until(lambda: (one := client.get(f"{path}?offset=0")).body and one)
    assert first.body == b"one\ntwo\n"
    assert (first.headers["X-Output-Offset"], first.headers["X-Output-Next"]) == ("0", "8")
    pipe.write("\N{SNOWMAN}".encode()[-1:])
    second = until(lambda: (one := client.get(f"{path}?offset=8")).body and one)
    assert second.body == "\N{SNOWMAN}".encode()
    assert second.headers["X-Output-Next"] == "11"
    assert client.get(f"{path}?offset=11").body == b""
    assert client.get(f"{path}?offset=12").headers["X-Output-Offset"] == "0"
    last = client.get(f"{path}?tail=2")
    assert last.body == "two\n\N{SNOWMAN}".encode()
    assert (last.headers["X-Output-Offset"], last.headers["X-Output-Next"]) == ("4", "11")
    assert client.get(f"{path}?offset=2&tail=1").body == "\N{SNOWMAN}".encode()
    assert client.get(path).body == "one\ntwo\n\N{SNOWMAN}".encode()


@pytest.mark.parametrize("query", ["tail=0", "tail=-1", "tail=x", "offset=-1", "offset=1e3"])
def test_what_is_no_number_of_lines_and_no_offset_is_refused(client: Client, query: str) -> None:
    assert client.get(f"/api/deploy/output/web?{query}").status == 400


def test_the_last_lines_of_a_build_can_be_asked_for(client: Client) -> None:
    client.post("/api/build/trigger/bad", None)
    wait_for_build(client, "bad")
    assert client.get("/api/build/output/bad?tail=1").body == b"b.c:1: warning: w\n"
    assert client.get("/api/build/output/bad?tail=9").body.count(b"\n") == 2
    assert client.get("/api/build/output/bad?tail=0").status == 400


def list_outputs(stream: Stream) -> list[Any]:
    """Return the live events of deployments' outputs."""
    named = [one for one in stream.events if one.name == "deploymentOutput"]
    return [json.loads(one.data)[0] for one in named]


def test_what_a_build_says_live_goes_on_where_its_output_ended(
    daemon: Serving, client: Client
) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.reader.last_id)
        client.post("/api/build/trigger/bad", None)
        until(lambda: client.get("/api/build/status/bad")["state"] == "failed")
        stream.read_until(lambda: [one for one in stream.events if one.name == "buildOutput"])
        [*result] = [json.loads(one.data)[0] for one in stream.events if one.name == "buildOutput"]
    output = client.get("/api/build/output/bad")
    assert "".join(one["text"] for one in result) == output.body.decode()
    assert [one["offset"] for one in result] == [0, *(one["end"] for one in result[:-1])]
    assert output.headers["X-Output-Next"] == str(result[-1]["end"]) == str(len(output.body))


def test_what_a_deployment_says_is_published_live_also_its_last_words(
    daemon: Serving, client: Client
) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.reader.last_id)
        client.post("/api/deploy/start/crash", None)

        stream.read_until(lambda: len(list_outputs(stream)) >= 2)
        first, second, *_ = list_outputs(stream)
    assert (first["name"], first["text"], first["skipped"]) == ("crash", "no\n", 0)
    assert (first["offset"], first["end"]) == (0, 3)
    assert (second["text"], second["offset"], second["end"]) == ("no\n", 3, 6)
    assert first["run"] != second["run"]


def test_of_much_that_a_deployment_says_the_end_is_reported(
    daemon: Serving, client: Client, pipe: BinaryIO
) -> None:
    with listening(daemon) as stream:
        stream.read_until(lambda: stream.reader.last_id)
        pipe.write(b"x" * 60_000)
        pipe.write(b"the end")
        stream.read_until(
            lambda: (found := list_outputs(stream)) and found[-1]["text"].endswith("end")
        )
        found = list_outputs(stream)
    assert found[-1]["end"] == 60_007
    assert sum(one["skipped"] + len(one["text"]) for one in found) == 60_007
    assert all(len(one["text"]) <= MAX_PUBLISHED for one in found)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_name_succeeds_starts_nothing_and_has_no_status(
    client: Client, daemon: Serving, name: str
) -> None:
    """Specification 4: the result must be checked through the status path."""
    for verb in ("start", "stop", "restart"):
        answer = client.post(f"/api/deploy/{verb}/{name}", None)
        assert (answer.status, answer["state"]) == (200, "unknown")
    assert client.get(f"/api/deploy/status/{name}").status == 404
    assert client.get(f"/api/deploy/output/{name}").status == 404
    assert find_processes(daemon.layout.format) == []


# A daemon of its own process, killed.


def _drain(stream: TextIO) -> None:
    with suppress(ValueError):  # it may be closed before it is read
        stream.read()


@contextmanager
def served(folder: Path, workspace: str = ".") -> Iterator[tuple["subprocess.Popen[str]", Client]]:
    """The command ``agentd serve``; killed with -9 at the end."""
    command = [sys.executable, "-m", "agentd", "serve", "--port", "0"]
    command += ["--workspace", str(folder / workspace)]
    command += ["--state", str(folder / "state"), "--config", str(folder / "config")]
    environment = {**os.environ, "AGENT_API_KEY": HASH}
    with subprocess.Popen(
        command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr
            line = next(one for one in process.stderr if "serving" in one)
            threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
            client = Client(line.split()[-1])
            yield process, client
            client.close()
        finally:
            process.kill()


def test_after_kill_9_a_deployment_goes_on_and_is_found_again(tmp_path: Path) -> None:
    write(tmp_path)
    with served(tmp_path) as (_, client):
        started = client.post("/api/deploy/start/web", None).json()
        client.post("/api/build/trigger/long", None)
        until(lambda: count_lines(tmp_path / "runs"))
    assert read_identity(started["pid"])
    with served(tmp_path) as (_, client):
        found = client.get("/api/deploy/status/web").json()
        assert (found["state"], found["pid"]) == ("running", started["pid"])
        assert client.get("/api/build/status/long")["state"] == "interrupted"
        until(lambda: find_processes(str(tmp_path / "state" / "FORMAT")) == [started["pid"]])
        os.kill(started["pid"], signal.SIGKILL)  # while a daemon looks after it
        again = until(
            lambda: (one := wait_for_deployment(client, "web", "running"))["restarts"] and one
        )
        assert again["pid"] != started["pid"]
    os.kill(again["pid"], signal.SIGKILL)  # while none does
    with served(tmp_path) as (_, client):
        third = wait_for_deployment(client, "web", "running")
        assert third["pid"] not in (started["pid"], again["pid"])
        client.post("/api/deploy/stop/web", None)
        wait_for_deployment(client, "web", "stopped")
    assert find_processes(str(tmp_path / "state" / "FORMAT")) == []


def make_programs(folder: Path) -> None:
    """Write two workspaces that have another program of the same name, and a deployment of it."""
    write(folder)
    for name in ("ours", "theirs"):
        program = folder / name / "serve.sh"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho >> '{folder}/{name}.runs'\nexec sleep 100\n")
        program.chmod(0o755)
    kept = "deployments:\n  app: {command: [./serve.sh], backoff: 0.1, backoff_max: 0.1}\n"
    (folder / "config" / "deployments.yml").write_text(kept)


def test_a_deployment_of_one_workspace_does_not_run_another_ones_program(tmp_path: Path) -> None:
    make_programs(tmp_path)
    ours, theirs = tmp_path / "ours.runs", tmp_path / "theirs.runs"
    with served(tmp_path, "ours") as (_, client):
        pid = client.post("/api/deploy/start/app", None)["pid"]
        until(lambda: count_lines(ours) == 1)
    with served(tmp_path, "theirs") as (_, client):
        assert client.get("/api/deploy/status/app")["pid"] == pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: client.get("/api/deploy/status/app")["failures"] > 2)
        found = client.get("/api/deploy/status/app").json()
        assert f"it was started for {tmp_path / 'ours'}" in found["message"]
        assert not theirs.exists()
    with served(tmp_path, "theirs"):
        pass
    with served(tmp_path, "ours") as (_, client):
        pid = wait_for_deployment(client, "app", "running")["pid"]
        until(lambda: count_lines(ours) == 2)
    assert not theirs.exists()
    with served(tmp_path, "theirs") as (_, client):
        client.post("/api/deploy/restart/app", None)
        until(lambda: count_lines(theirs) == 1)
        assert wait_for_deployment(client, "app", "running")["pid"] != pid
        client.post("/api/deploy/stop/app", None)
        wait_for_deployment(client, "app", "stopped")


def test_a_strangers_pid_in_the_file_is_never_signalled(tmp_path: Path) -> None:
    """After a reboot, the number is another process's."""
    write(tmp_path)
    (tmp_path / "config" / "deployments.yml").write_text(
        DEPLOYMENTS.replace("stop_seconds: 5", "stop_seconds: 5, restart: never")
    )
    with served(tmp_path) as (_, client):
        pid = client.post("/api/deploy/start/web", None)["pid"]
    os.kill(pid, signal.SIGKILL)
    file = tmp_path / "state" / "deployments" / "web" / "deployment.json"
    kept = json.loads(file.read_text())
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as stranger:
        try:
            kept["deployment"]["process"]["pid"] = stranger.pid
            file.write_text(json.dumps(kept))
            with served(tmp_path) as (_, client):
                found = wait_for_deployment(client, "web", "failed")
                assert (found["pid"], found["exitCode"]) == (0, None)
                client.post("/api/deploy/stop/web", None)
                client.post("/api/deploy/restart/web", None)
                assert wait_for_deployment(client, "web", "running")["pid"] != stranger.pid
                client.post("/api/deploy/stop/web", None)
                wait_for_deployment(client, "web", "stopped")
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_deployments_program_does_not_see_the_daemons_secrets(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", "hidden")
    pid = client.post("/api/deploy/start/web", None)["pid"]
    variables = Path(f"/proc/{pid}/environ").read_bytes()
    assert f"{VARIABLE}=".encode() in variables
    assert b"hidden" not in variables
    assert b"AGENTD_TURN" not in variables


# Autofix.


def switch_on(client: Client, **wish: Any) -> int:
    chat = client.create_chat()
    assert client.post("/api/autofix/toggle", {"on": True})["on"] is True
    answer = client.post("/api/autofix/toggle/fixed", {"on": True, "chatId": chat, **wish})
    assert answer.status == 200, answer.body
    return chat


def test_a_failing_build_is_given_to_the_agent_until_it_is_green(
    daemon: Serving, client: Client, tmp_path: Path
) -> None:
    chat = switch_on(client)
    says = daemon.engine.says

    def fix(assignment: Any) -> Any:
        if len(daemon.engine.given) == 2:
            (tmp_path / "fixed").touch()
        return says(assignment)

    daemon.engine.says = fix
    client.post("/api/build/trigger/fixed", None)
    until(lambda: client.get("/api/build/status/fixed")["state"] == "succeeded")
    prompts = [one["content"] for one in client.messages(chat) if one["role"] == "user"]
    assert len(prompts) == 2
    assert "- a.c:1:1: broken" in prompts[0]
    assert "try 2 of 3" in prompts[1]
    until(lambda: client.get("/api/autofix/status")["builds"][0]["tried"] == 0)
    assert client.get("/api/build/status/fixed")["startedBy"] == "autofix"


def test_a_fix_that_waits_over_a_restart_is_built_after_it(serve: Serve, tmp_path: Path) -> None:
    write(tmp_path)
    daemon = serve()
    client = daemon.client()
    chat = switch_on(client)
    client.post(f"/api/MessageQueue/{chat}/hold", {})
    client.post("/api/build/trigger/fixed", None)
    until(lambda: client.prompts(chat))
    daemon.stop()
    daemon.join()
    daemon = serve()
    client = daemon.client()
    (tmp_path / "fixed").touch()
    client.post(f"/api/MessageQueue/{chat}/release", {})
    until(lambda: client.get("/api/build/status/fixed")["state"] == "succeeded")
    assert client.get("/api/build/status/fixed")["startedBy"] == "autofix"


def test_it_is_tried_so_often_in_a_row_and_no_more(client: Client) -> None:
    chat = switch_on(client, tries=2)
    client.post("/api/build/trigger/fixed", None)
    until(lambda: client.get("/api/autofix/status")["builds"][0]["tried"] == 2)
    until(lambda: client.get(f"/api/chat/{chat}")["state"] == "completed")
    until(lambda: len(client.messages(chat)) == 4)
    wait_for_build(client, "fixed")
    assert client.prompts(chat) == []


def test_a_failed_build_does_not_set_going_what_a_person_stopped(
    daemon: Serving, client: Client
) -> None:
    chat = switch_on(client)
    daemon.engine.hold()
    for prompt in ("a", "b"):
        client.post(f"/api/remote/chats/{chat}/queue", {"prompt": prompt})
    until(lambda: len(client.prompts(chat)) == 1)
    client.post(f"/api/chat/{chat}/stop", None)
    client.post("/api/build/trigger/fixed", None)
    until(lambda: len(client.prompts(chat)) == 2)
    assert client.get(f"/api/chat/{chat}")["held"] == "The turn was stopped by a person."


def test_a_try_in_a_chat_that_was_deleted_is_none(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.delete(f"/api/chats/{switch_on(client)}")
    client.post("/api/build/trigger/fixed", None)
    until(lambda: "the build fixed is not fixed: Chat" in caplog.text)
    assert client.get("/api/autofix/status")["builds"][0]["tried"] == 0


def test_it_is_off_unless_it_is_on_over_all_and_for_the_build(client: Client) -> None:
    chat = switch_on(client)
    assert client.post("/api/autofix/toggle", {})["on"] is False
    client.post("/api/build/trigger/fixed", None)
    wait_for_build(client, "fixed")
    assert client.messages(chat) == []


def test_what_is_switched_wrongly_is_refused(client: Client) -> None:
    path = "/api/autofix/toggle/fixed"
    assert client.post(path, {"on": True}).status == 400
    assert client.post(path, {"on": True, "chatId": 99}).status == 404
    assert client.post("/api/autofix/toggle/gone", {"on": True}).status == 404
    assert client.get("/api/autofix/status").json() == {"on": False, "builds": []}
