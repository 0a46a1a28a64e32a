"""One daemon per folder, one format, and no id twice, whatever was killed, deleted or restored."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentd.chats.service import NewChat
from agentd.disk import state as module
from agentd.disk.index import read_index
from agentd.disk.layout import Layout
from agentd.disk.lines import seal
from agentd.disk.state import Daemon, announced, open_state
from agentd.errors import Conflict, Misconfigured, Unavailable
from tests.conftest import ME, TEST, Life, living

ASYNC = pytest.mark.gen_test


async def busy(life: Life, prompts: int = 3) -> int:
    """A chat with prompts, of which the first was sent and the last was removed again."""
    chat = await life.chats.create(NewChat(), ME)
    made = [await life.chats.append(chat.id, "x", "", ME) for _ in range(prompts)]
    await life.turns.start(chat.id, TEST)
    await life.turns.end(chat.id, "completed")
    await life.chats.remove(chat.id, made[-1].id, ME)
    return chat.id


def opened(layout: Layout) -> None:
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


def test_a_second_daemon_is_refused_and_told_who_serves(layout):
    state = open_state(layout)
    state.announce(Daemon(4711, "http://127.0.0.1:8750", "2026-01-01T00:00:00.000Z"))
    with pytest.raises(Conflict, match=r"process 4711 on http://127\.0\.0\.1:8750"):
        open_state(layout)
    state.release()
    assert announced(layout) is None
    opened(layout)


def test_a_second_daemon_is_refused_also_through_a_symbolic_link(layout, tmp_path):
    state = open_state(layout)
    os.symlink(layout.state, tmp_path / "link")
    with pytest.raises(Conflict):
        open_state(Layout(str(tmp_path / "link"), layout.config))
    state.release()


def test_a_copy_of_a_served_folder_is_free(layout, tmp_path):
    state = open_state(layout)
    shutil.copytree(layout.state, tmp_path / "copy")
    opened(Layout(str(tmp_path / "copy"), layout.config))
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
from agentd.disk.layout import Layout
from agentd.disk.state import open_state
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
    opened(layout)


def test_a_lock_that_outlives_its_daemon_for_a_moment_is_waited_for(layout, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 100.0)
    opened(layout)
    command = [sys.executable, "-c", HOLDER.replace("60", "0.3"), layout.state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "held\n"
        opened(layout)


def test_a_failed_start_lets_go_of_the_folder(layout):
    opened(layout)
    good = Path(layout.format).read_bytes()
    Path(layout.format).write_bytes(b"{}")
    with pytest.raises(Misconfigured):
        open_state(layout)
    Path(layout.format).write_bytes(good)
    opened(layout)


def test_an_older_format_is_brought_up_to_date_and_its_file_is_kept(layout):
    opened(layout)
    older = '{"format":1,"min_reader":1,"generation":"x"}\n'
    Path(layout.format).write_text(older)
    state = open_state(layout)
    assert state.generation == "x"
    state.release()
    assert Path(layout.format + ".1").read_text() == older
    assert Path(layout.format).read_text() == '{"format":2,"min_reader":2,"generation":"x"}\n'


def test_a_newer_format_is_refused_and_nothing_is_touched(layout):
    opened(layout)
    Path(layout.format).write_text('{"format":3,"min_reader":1,"generation":"x"}\n')
    before = sorted(os.listdir(layout.state))
    with pytest.raises(Misconfigured, match="is format 3; this version of agentd reads up to 2"):
        open_state(layout)
    assert sorted(os.listdir(layout.state)) == before


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"1", b'{"format":"1"}'], ids=str)
def test_a_format_that_is_none_is_refused(layout, data):
    opened(layout)
    Path(layout.format).write_bytes(data)
    with pytest.raises(Misconfigured, match="FORMAT"):
        open_state(layout)
    assert Path(layout.format).read_bytes() == data


def test_the_generation_stays_from_life_to_life(layout):
    opened(layout)
    before = Path(layout.format).read_bytes()
    opened(layout)
    assert Path(layout.format).read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"chat":1,"crc":"00000000"}\n', b"\0" * 80], ids=str
)
def test_damaged_marks_are_refused_with_what_to_do(layout, data):
    opened(layout)
    Path(layout.ids).write_bytes(data)
    with pytest.raises(Misconfigured, match=r"restore it, or delete it together with index\.json"):
        open_state(layout)
    assert Path(layout.ids).read_bytes() == data


def ids_in(state: Path) -> set[tuple[str, int]]:
    """Every id that any journal below ever named."""
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


def _nothing(layout: Layout, old: Path) -> None:
    pass


def _no_ids(layout: Layout, old: Path) -> None:
    os.unlink(layout.ids)


def _no_index(layout: Layout, old: Path) -> None:
    Path(layout.index).unlink(missing_ok=True)


def _neither(layout: Layout, old: Path) -> None:
    _no_ids(layout, old)
    _no_index(layout, old)


def _older_ids(layout: Layout, old: Path) -> None:
    shutil.copy(old / "ids.json", layout.ids)


def _older_ids_and_index(layout: Layout, old: Path) -> None:
    _older_ids(layout, old)
    shutil.copy(old / "index.json", layout.index)


@ASYNC
@pytest.mark.parametrize("crash", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize(
    "then", [_nothing, _no_ids, _no_index, _neither, _older_ids, _older_ids_and_index]
)
async def test_no_id_is_ever_given_out_twice(layout, tmp_path, crash, then):
    old = tmp_path / "old"
    async with living(layout) as life:
        await busy(life)
    shutil.copytree(layout.state, old)
    async with living(layout, crash=crash) as life:
        first = await busy(life, 150)
        await life.chats.append(first, "x", "", ME)
    then(layout, old)
    before = ids_in(Path(layout.state))
    async with living(layout) as life:
        second = await busy(life)
        made = await life.chats.append(first, "x", "", ME)
        new = await life.chats.create(NewChat(prompt="x"), ME)
        given = {("chat", second), ("chat", new.id), ("prompt", made.id)}
        given |= {("prompt", prompt.id) for prompt in (await life.chats.get(second)).queue}
        given |= {("message", message.id) for message in await life.history(second)}
        given |= {("seq", event.seq) for event in life.heard}
    assert not given & before


@ASYNC
async def test_the_index_is_believed_only_where_the_size_agrees(layout, monkeypatch):
    async with living(layout) as life:
        same, changed = await busy(life), await busy(life)
    async with living(layout, crash=True) as life:
        await life.chats.append(changed, "x", "", ME)
    looked = []
    real = module.take_stock.__globals__["_look_into"]
    monkeypatch.setitem(
        module.take_stock.__globals__,
        "_look_into",
        lambda layout, chat_id, **how: (looked.append(chat_id), real(layout, chat_id, **how))[1],
    )
    async with living(layout) as life:
        assert looked == [changed]
        assert life.chats.summary(changed).waiting == 2
        assert life.chats.summary(same).waiting == 1


@ASYNC
@pytest.mark.parametrize(
    "data", [b"", b"{", b"\0" * 4096, b'{"format":1}', seal({"format": 1}), seal({"format": 2})]
)
async def test_an_index_that_is_not_sound_is_ignored(layout, data):
    async with living(layout) as life:
        number = await busy(life)
        summary = life.chats.summary(number)
    Path(layout.index).write_bytes(data)
    async with living(layout) as life:
        assert life.chats.summaries() == [summary]


@ASYNC
async def test_something_else_in_the_place_of_the_index_keeps_nobody_from_starting(layout):
    async with living(layout) as life:
        number = await busy(life)
    os.unlink(layout.index)
    os.mkdir(layout.index)
    async with living(layout) as life:
        assert life.chats.summary(number).waiting == 1
    assert read_index(layout.index).chats == []


@ASYNC
async def test_the_index_names_a_chat_that_is_gone_and_it_stays_gone(layout):
    async with living(layout) as life:
        number = await busy(life)
    shutil.rmtree(layout.chat(number))
    async with living(layout) as life:
        assert life.chats.summaries() == []
        assert await busy(life) > number


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_refused(layout, mode):
    opened(layout)
    os.chmod(layout.state, mode)
    with pytest.raises(Misconfigured, match=f"chmod go-w {layout.state}"):
        open_state(layout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused_with_the_chown_to_type(layout):
    opened(layout)
    os.chown(layout.state, 65534, -1)
    with pytest.raises(Misconfigured, match=f"chown -R 0 {layout.state}"):
        open_state(layout)


def test_a_file_in_the_place_of_the_folder_is_refused(layout):
    Path(layout.state).write_text("mine")
    with pytest.raises((Misconfigured, Unavailable)):
        open_state(layout)
    assert Path(layout.state).read_text() == "mine"


READER = """
import asyncio, os, sys
from agentd.chats.service import NewChat
from agentd.disk.layout import Layout
from agentd.errors import Unavailable
from tests.conftest import living

async def main():
    async with living(Layout(sys.argv[1], sys.argv[1])) as life:
        assert life.state.lock is None
        await life.turns.end_interrupted()
        for chat in life.chats.summaries():
            print(chat.id, chat.status, len((await life.chats.get(chat.id)).queue))
        for act in (life.chats.append(1, "x", "", "me"), life.chats.create(NewChat(), "me")):
            try:
                await act
            except Unavailable as error:
                print(error.message)

asyncio.run(main())
"""


@ASYNC
async def test_a_folder_that_cannot_be_written_is_served_for_reading(layout):
    async with living(layout, crash=True) as life:
        await busy(life)
    before = {path: path.read_bytes() for path in Path(layout.state).rglob("*") if path.is_file()}
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", layout.state, sys.executable, READER]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await child.communicate()
    if b"unshare" in err or b"mount:" in err:
        pytest.skip(f"no read-only mount can be made here: {err.decode().splitlines()[0]}")
    told = out.decode().splitlines()
    assert child.returncode == 0, err.decode()
    assert told[0] == "1 queued 1"
    assert [line.endswith("read-only file system") for line in told[1:]] == [True, True]
    assert before == {p: p.read_bytes() for p in Path(layout.state).rglob("*") if p.is_file()}
