"""One daemon per folder, one format, and no id is used twice, even after a kill or a restore."""

import asyncio
import grp
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentd.app import state as module
from agentd.app.state import DaemonInfo, is_served_by, open_state, read_daemon_info
from agentd.chats.index import read_index
from agentd.chats.service import NewChat
from agentd.core.errors import ConfigError, Conflict, Unavailable
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.conftest import ME, TEST, Services, running_services

ASYNC = pytest.mark.gen_test


async def make_busy_chat(services: Services, prompts: int = 3) -> int:
    """Make a chat with prompts, of which the first was sent and the last was removed again."""
    chat = await services.chats.create(NewChat(), ME)
    made = [await services.chats.append_prompt(chat.id, "x", "", ME) for _ in range(prompts)]
    await services.turns.start_turn(chat.id, TEST)
    await services.turns.end_turn(chat.id, "completed")
    await services.chats.remove_prompt(chat.id, made[-1].id, ME)
    return chat.id


def open_and_close(layout: Layout) -> None:
    state = open_state(layout)
    assert state.lock
    state.lock.release()


def test_a_fresh_folder_is_made_for_nobody_else_to_enter(layout):
    state = open_state(layout)
    state.release()
    for path in (layout.state, layout.chats):
        assert os.stat(path).st_mode & 0o777 == 0o700
    for path in (layout.format, layout.ids, layout.daemon_lock):
        assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_second_daemon_is_refused_and_reported_who_serves(layout):
    state = open_state(layout)
    state.announce(DaemonInfo(4711, "http://127.0.0.1:8750", "2026-01-01T00:00:00.000Z"))
    with pytest.raises(Conflict, match=r"process 4711 on http://127\.0\.0\.1:8750"):
        open_state(layout)
    state.release()
    assert read_daemon_info(layout) is None
    open_and_close(layout)


def test_a_second_daemon_is_refused_also_through_a_symbolic_link(layout, tmp_path):
    state = open_state(layout)
    os.symlink(layout.state, tmp_path / "link")
    with pytest.raises(Conflict):
        open_state(Layout(str(tmp_path / "link"), layout.config))
    state.release()


def test_the_daemon_that_a_copy_names_is_not_the_one_that_serves_it(layout, tmp_path):
    state = open_state(layout)
    state.announce(DaemonInfo(4711, "http://127.0.0.1:8750", "2026-01-01T00:00:00.000Z"))
    assert is_served_by(read_daemon_info(layout), layout)
    shutil.copytree(layout.state, tmp_path / "copy")
    copy = Layout(str(tmp_path / "copy"), layout.config)
    named = read_daemon_info(copy)
    assert named.url == "http://127.0.0.1:8750"
    assert not is_served_by(named, copy)
    starting = open_state(copy)  # it holds the copy's lock, and has not announced itself yet
    assert not is_served_by(read_daemon_info(copy), copy)
    starting.release()
    state.release()
    assert not is_served_by(named, layout)


def test_a_copy_of_a_served_folder_is_free(layout, tmp_path):
    state = open_state(layout)
    shutil.copytree(layout.state, tmp_path / "copy")
    open_and_close(Layout(str(tmp_path / "copy"), layout.config))
    state.release()


def test_a_removed_lock_file_is_noticed(layout):
    state = open_state(layout)
    assert state.holds_lock()
    os.unlink(layout.daemon_lock)
    assert not state.holds_lock()
    Path(layout.daemon_lock).touch()
    assert not state.holds_lock()
    state.release()


HOLDER = """
import sys, time
from agentd.storage.layout import Layout
from agentd.app.state import open_state
state = open_state(Layout(sys.argv[1], sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_dies_with_its_holder(layout):
    command = [sys.executable, "-c", HOLDER, layout.state]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        with pytest.raises(Conflict):
            open_state(layout)
        child.send_signal(signal.SIGKILL)
    open_and_close(layout)


def test_a_lock_that_outlives_its_daemon_for_a_moment_is_waited_for(layout, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 100.0)
    open_and_close(layout)
    command = [sys.executable, "-c", HOLDER.replace("60", "0.3"), layout.state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        open_and_close(layout)


def test_a_failed_start_lets_go_of_the_folder(layout):
    open_and_close(layout)
    good = Path(layout.format).read_bytes()
    Path(layout.format).write_bytes(b"{}")
    with pytest.raises(ConfigError):
        open_state(layout)
    Path(layout.format).write_bytes(good)
    open_and_close(layout)


@pytest.mark.parametrize("number", [1, 2])
def test_an_older_format_is_brought_up_to_date_and_its_file_is_kept(layout, number):
    open_and_close(layout)
    older = f'{{"format":{number},"min_reader":{number},"generation":"x"}}\n'
    Path(layout.format).write_text(older)
    state = open_state(layout)
    assert state.generation == "x"
    state.release()
    assert Path(f"{layout.format}.{number}").read_text() == older
    assert Path(layout.format).read_text() == '{"format":3,"min_reader":3,"generation":"x"}\n'


def test_a_newer_format_is_refused_and_nothing_is_touched(layout):
    open_and_close(layout)
    Path(layout.format).write_text('{"format":4,"min_reader":1,"generation":"x"}\n')
    before = sorted(os.listdir(layout.state))
    with pytest.raises(ConfigError, match="is format 4; this version of agentd reads up to 3"):
        open_state(layout)
    assert sorted(os.listdir(layout.state)) == before


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"1", b'{"format":"1"}'], ids=str)
def test_a_format_that_is_none_is_refused(layout, data):
    open_and_close(layout)
    Path(layout.format).write_bytes(data)
    with pytest.raises(ConfigError, match="FORMAT"):
        open_state(layout)
    assert Path(layout.format).read_bytes() == data


def test_the_generation_stays_from_life_to_life(layout):
    open_and_close(layout)
    before = Path(layout.format).read_bytes()
    open_and_close(layout)
    assert Path(layout.format).read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"chat":1,"crc":"00000000"}\n', b"\0" * 80], ids=str
)
def test_damaged_marks_are_refused_with_what_to_do(layout, data):
    open_and_close(layout)
    Path(layout.ids).write_bytes(data)
    with pytest.raises(ConfigError, match=r"restore it, or delete it together with index\.json"):
        open_state(layout)
    assert Path(layout.ids).read_bytes() == data


def read_ids(state: Path) -> set[tuple[str, int]]:
    """Return every id that any journal below this folder ever named."""
    found = set()
    for journal in state.glob("chats/*/journal.jsonl"):
        found.add(("chat", int(journal.parent.name)))
        for line in journal.read_text().splitlines():
            entry = json.loads(line)
            body = entry["body"]
            found.add(("seq", entry["seq"]))
            for prompt in [body.get("prompt"), *body.get("prompts", [])]:
                if isinstance(prompt, dict):
                    found.add(("prompt", prompt["id"]))
            if message := body.get("message"):
                found.add(("message", message["id"]))
    return found


def _change_nothing(layout: Layout, old: Path) -> None:
    pass


def _remove_ids(layout: Layout, old: Path) -> None:
    os.unlink(layout.ids)


def _remove_index(layout: Layout, old: Path) -> None:
    Path(layout.index).unlink(missing_ok=True)


def _remove_both(layout: Layout, old: Path) -> None:
    _remove_ids(layout, old)
    _remove_index(layout, old)


def _restore_ids(layout: Layout, old: Path) -> None:
    shutil.copy(old / "ids.json", layout.ids)


def _restore_ids_and_index(layout: Layout, old: Path) -> None:
    _restore_ids(layout, old)
    shutil.copy(old / "index.json", layout.index)


@ASYNC
@pytest.mark.parametrize("crash", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize(
    "then",
    [
        _change_nothing,
        _remove_ids,
        _remove_index,
        _remove_both,
        _restore_ids,
        _restore_ids_and_index,
    ],
)
async def test_no_id_is_ever_given_out_twice(layout, tmp_path, crash, then):
    old = tmp_path / "old"
    async with running_services(layout) as services:
        await make_busy_chat(services)
    shutil.copytree(layout.state, old)
    async with running_services(layout, crash=crash) as services:
        first = await make_busy_chat(services, 150)
        await services.chats.append_prompt(first, "x", "", ME)
    then(layout, old)
    before = read_ids(Path(layout.state))
    async with running_services(layout) as services:
        second = await make_busy_chat(services)
        made = await services.chats.append_prompt(first, "x", "", ME)
        new = await services.chats.create(NewChat(prompt="x"), ME)
        given = {("chat", second), ("chat", new.id), ("prompt", made.id)}
        given |= {("prompt", prompt.id) for prompt in (await services.chats.get(second)).queue}
        given |= {("message", message.id) for message in await services.history(second)}
        given |= {("seq", event.seq) for event in services.heard}
    assert not given & before


@ASYNC
async def test_the_index_is_believed_only_where_the_size_agrees(layout, monkeypatch):
    async with running_services(layout) as services:
        same, changed = await make_busy_chat(services), await make_busy_chat(services)
    async with running_services(layout, crash=True) as services:
        await services.chats.append_prompt(changed, "x", "", ME)
    looked = []
    real = module.scan_chats.__globals__["_load_at_start"]
    monkeypatch.setitem(
        module.scan_chats.__globals__,
        "_load_at_start",
        lambda layout, chat_id, **how: (looked.append(chat_id), real(layout, chat_id, **how))[1],
    )
    async with running_services(layout) as services:
        assert looked == [changed]
        assert services.chats.get_summary(changed).waiting == 2
        assert services.chats.get_summary(same).waiting == 1


@ASYNC
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\0" * 4096,
        b'{"format":1}',
        encode_checksummed({"format": 1}),
        encode_checksummed({"format": 2}),
    ],
)
async def test_an_index_that_is_not_sound_is_ignored(layout, data):
    async with running_services(layout) as services:
        number = await make_busy_chat(services)
        summary = services.chats.get_summary(number)
    Path(layout.index).write_bytes(data)
    async with running_services(layout) as services:
        assert services.chats.list_summaries() == [summary]


@ASYNC
async def test_something_else_in_the_place_of_the_index_keeps_nobody_from_starting(layout):
    async with running_services(layout) as services:
        number = await make_busy_chat(services)
    os.unlink(layout.index)
    os.mkdir(layout.index)
    async with running_services(layout) as services:
        assert services.chats.get_summary(number).waiting == 1
    assert read_index(layout.index).chats == []


@ASYNC
async def test_the_index_names_a_chat_that_is_gone_and_it_stays_gone(layout):
    async with running_services(layout) as services:
        number = await make_busy_chat(services)
    shutil.rmtree(layout.get_chat_folder(number))
    async with running_services(layout) as services:
        assert services.chats.list_summaries() == []
        assert await make_busy_chat(services) > number


def test_a_folder_that_the_user_s_own_group_may_write_is_served(layout, monkeypatch):
    """So git makes the folder of the sources where new files are for the group (umask 002)."""
    person = pwd.getpwuid(os.geteuid())
    os.makedirs(layout.state)
    Path(layout.state).chmod(0o775)
    group = os.stat(layout.state).st_gid
    primary = pwd.struct_passwd((*person[:3], group, *person[4:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: primary)
    monkeypatch.setattr(
        grp, "getgrgid", lambda gid: grp.struct_group((person.pw_name, "x", gid, []))
    )
    open_and_close(layout)
    assert os.stat(layout.state).st_mode & 0o777 == 0o700


def test_a_new_folder_is_made_private_and_one_in_use_keeps_its_mode(layout):
    os.makedirs(layout.state)
    Path(layout.state).chmod(0o755)
    open_and_close(layout)
    assert os.stat(layout.state).st_mode & 0o777 == 0o700
    Path(layout.state).chmod(0o750)
    open_and_close(layout)
    assert os.stat(layout.state).st_mode & 0o777 == 0o750


@pytest.mark.parametrize("mode", [0o702, 0o722, 0o777])
def test_a_folder_that_others_may_write_is_refused(layout, mode):
    open_and_close(layout)
    os.chmod(layout.state, mode)
    with pytest.raises(ConfigError, match=f"chmod go-w {layout.state}"):
        open_state(layout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused_with_the_chown_to_type(layout):
    open_and_close(layout)
    os.chown(layout.state, 65534, -1)
    with pytest.raises(ConfigError, match=f"chown -R 0 {layout.state}"):
        open_state(layout)


def test_a_file_in_the_place_of_the_folder_is_refused(layout):
    Path(layout.state).write_text("mine")
    with pytest.raises((ConfigError, Unavailable)):
        open_state(layout)
    assert Path(layout.state).read_text() == "mine"


READER = """
import asyncio, os, sys
from agentd.chats.service import NewChat
from agentd.storage.layout import Layout
from agentd.core.errors import Unavailable
from tests.conftest import running_services

async def main():
    async with running_services(Layout(sys.argv[1], sys.argv[1])) as services:
        assert services.state.lock is None
        await services.turns.end_interrupted()
        for chat in services.chats.list_summaries():
            print(chat.id, chat.status, len((await services.chats.get(chat.id)).queue))
        chats = services.chats
        for act in (chats.append_prompt(1, "x", "", "me"), chats.create(NewChat(), "me")):
            try:
                await act
            except Unavailable as error:
                print(error.message)

asyncio.run(main())
"""


@ASYNC
async def test_a_folder_that_cannot_be_written_is_served_for_reading(layout):
    async with running_services(layout, crash=True) as services:
        await make_busy_chat(services)
    before = {path: path.read_bytes() for path in Path(layout.state).rglob("*") if path.is_file()}
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", layout.state, sys.executable, READER]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await child.communicate()
    if b"unshare" in err or b"mount:" in err:
        pytest.skip(f"no read-only mount can be made here: {err.decode().splitlines()[0]}")
    result = out.decode().splitlines()
    assert child.returncode == 0, err.decode()
    assert result[0] == "1 queued 1"
    assert [line.endswith("read-only file system") for line in result[1:]] == [True, True]
    assert before == {p: p.read_bytes() for p in Path(layout.state).rglob("*") if p.is_file()}
