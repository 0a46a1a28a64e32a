"""A full, frozen, read-only or damaged disk, and a clock that jumps: what still works, and how."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentd.app import auth, background, chats, components
from agentd.auth import sessions
from agentd.chats.trash import Trash
from agentd.core.clock import FrozenClock
from tests.support.daemon import Client, Serving
from tests.support.waiting import until

BIG = "x" * 20_000


@contextlib.contextmanager
def mounted(folder: Path, *how: str) -> Iterator[None]:
    """The folder is a mount of its own within the block; skips where that is not allowed."""
    done = subprocess.run(["mount", *how, folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting needs root: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def paused() -> list[dict[str, object]]:
    return [{"prompt": f"waits {n}", "isPaused": True} for n in range(3)]


def build_queue_path(chat: int, *more: object) -> str:
    return "/".join(map(str, (f"/api/remote/chats/{chat}/queue", *more)))


def list_texts(client: Client, chat: int) -> list[str]:
    return [row["prompt"] for row in client.prompts(chat)]


def test_on_a_full_disk_reading_goes_on_and_changes_come_back_with_the_space(
    tmp_path: Path, paused: list[dict[str, object]]
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with mounted(state, "-t", "tmpfs", "-o", "size=512k,mode=700", "tmpfs"):
        ballast = state / "ballast"
        ballast.write_bytes(b"0" * 100_000)
        with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
            chat = client.create_chat()
            client.put(build_queue_path(chat), {"prompts": paused})
            acknowledged = list_texts(client, chat)
            refused = None
            while refused is None:
                wanted = [*client.prompts(chat), {"prompt": f"{len(acknowledged)} {BIG}"}]
                reply = client.put(
                    build_queue_path(chat),
                    {"prompts": [{**row, "isPaused": True} for row in wanted]},
                )
                if reply.status == 200:
                    acknowledged = list_texts(client, chat)
                else:
                    refused = reply
            assert refused.status == 503
            assert "disk full" in refused["message"]
            assert str(state) in refused["message"]
            assert list_texts(client, chat) == acknowledged
            assert client.status(chat)["status"] == "queued"
            ballast.unlink()
            reply = client.put(build_queue_path(chat), {"prompts": paused})
            assert reply.status == 200, reply.body
            assert client.post("/api/remote/chats", {}).status == 201
        with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
            assert list_texts(client, chat) == [row["prompt"] for row in paused]


def test_a_read_only_folder_is_served_for_reading_and_changes_name_it(
    tmp_path: Path, paused: list[dict[str, object]]
) -> None:
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        chat = client.create_chat(prompt="hello")
        said = client.messages(chat)
        client.put(build_queue_path(chat), {"prompts": paused})
    state = tmp_path / "state"
    before = read_contents(state)
    with mounted(state, "--bind", str(state)):
        subprocess.run(["mount", "-o", "remount,bind,ro", state], check=True)
        with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
            assert client.messages(chat) == said
            prompts = client.prompts(chat)
            assert [row["prompt"] for row in prompts] == [row["prompt"] for row in paused]
            for reply in (
                client.post("/api/remote/chats", {"prompt": "x"}),
                client.post(build_queue_path(chat), {"prompt": "x"}),
                client.put(build_queue_path(chat, prompts[0]["id"]), {"prompt": "x"}),
                client.put(build_queue_path(chat), {"prompts": []}),
                client.delete(build_queue_path(chat, prompts[0]["id"])),
            ):
                assert reply.status == 503
                assert "read-only" in reply["message"]
                assert str(state) in reply["message"]
            assert client.prompts(chat) == prompts
    assert read_contents(state) == before


def read_contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _put_folder(path: Path) -> None:
    path.mkdir()


def _put_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def _put_looped_link(path: Path) -> None:
    path.symlink_to(path.name)


def _put_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("put", [_put_folder, _put_dangling_link, _put_looped_link, _put_pipe])
def test_a_journal_that_cannot_be_read_stops_its_chat_alone(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        bad, good = client.create_chat(prompt="bad"), client.create_chat(prompt="good")
        client.messages(bad)
        client.messages(good)
    journal = tmp_path / "state" / "chats" / str(bad) / "journal.jsonl"
    kept = tmp_path / "kept"
    journal.rename(kept)
    put(journal)
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        for path in ("status", "messages", "queue"):
            reply = client.get(f"/api/remote/chats/{bad}/{path}")
            assert reply.status == 503
            assert str(journal) in reply["details"]
        assert client.post(build_queue_path(bad), {"prompt": "x"}).status == 503
        assert client.post(build_queue_path(good), {"prompt": "x"}).status == 201
        assert [said["content"] for said in client.messages(good)][-1] == "echo: x"
    journal.rename(tmp_path / "away")
    kept.rename(journal)
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        assert client.post(build_queue_path(bad), {"prompt": "y"}).status == 201
        assert [said["content"] for said in client.messages(bad)][-1] == "echo: y"


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[int, int, Path, bytes]:
    """A chat whose journal has a damaged line in the middle, another chat, the journal, before."""
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        bad, good = client.create_chat(prompt="one"), client.create_chat(prompt="good")
        client.messages(bad)
        client.post(build_queue_path(bad), {"prompt": "two"})
        client.messages(bad)
    journal = tmp_path / "state" / "chats" / str(bad) / "journal.jsonl"
    sound = journal.read_bytes()
    lines = sound.splitlines(keepends=True)
    lines[3] = lines[3].replace(b"completed", b"Completed")
    journal.write_bytes(b"".join(lines))
    for cache in ("index.json", f"chats/{bad}/checkpoint.json"):
        (tmp_path / "state" / cache).unlink()
    return bad, good, journal, sound


def test_a_damaged_line_makes_its_chat_read_only_and_nothing_is_rewritten(
    tmp_path: Path, damaged: tuple[int, int, Path, bytes]
) -> None:
    bad, good, journal, sound = damaged
    before = journal.read_bytes()
    assert before != sound
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        said = [message["content"] for message in client.messages(bad)]
        assert said == ["one", "echo: one"], "readable up to the damage"
        for reply in (
            client.post(build_queue_path(bad), {"prompt": "x"}),
            client.put(build_queue_path(bad), {"prompts": []}),
        ):
            assert reply.status == 503
            assert f"{journal}:4" in reply["details"]
        assert client.post(build_queue_path(good), {"prompt": "x"}).status == 201
        assert client.messages(good)[-1]["content"] == "echo: x"
    assert journal.read_bytes() == before
    journal.write_bytes(sound)
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        assert len(client.messages(bad)) == 4, "a mended journal is whole again"
        assert client.post(build_queue_path(bad), {"prompt": "x"}).status == 201


@pytest.mark.parametrize(
    "torn",
    [b'{"n":', b"\0" * 100, b'{"n":5}\n', b"\n"],
    ids=["half", "zeros", "unsealed", "empty"],
)
def test_a_torn_end_is_set_aside_and_the_chat_goes_on(tmp_path: Path, torn: bytes) -> None:
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        chat = client.create_chat(prompt="one")
        said = client.messages(chat)
    journal = tmp_path / "state" / "chats" / str(chat) / "journal.jsonl"
    sound = journal.read_bytes()
    journal.write_bytes(sound + torn)
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        assert client.messages(chat) == said
        (aside,) = journal.parent.glob("journal.jsonl.torn-*")
        assert aside.read_bytes() == torn
        assert journal.read_bytes() == sound
        assert client.post(build_queue_path(chat), {"prompt": "two"}).status == 201
        assert client.messages(chat)[-1]["content"] == "echo: two"


@pytest.mark.parametrize("whose", ["another chat's", "a later time's"])
def test_a_checkpoint_from_elsewhere_is_not_believed(tmp_path: Path, whose: str) -> None:
    chats = tmp_path / "state" / "chats"
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        first, second = client.create_chat(prompt="first"), client.create_chat(prompt="other")
        said = client.messages(first)
        client.messages(second)
    journal, checkpoint = (
        chats / str(first) / name for name in ("journal.jsonl", "checkpoint.json")
    )
    earlier = journal.read_bytes()
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        client.post(build_queue_path(first), {"prompt": "later"})
        client.messages(first)
    journal.write_bytes(earlier)
    if whose == "another chat's":
        shutil.copy(chats / str(second) / "checkpoint.json", checkpoint)
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        assert client.messages(first) == said
        assert client.post(build_queue_path(first), {"prompt": "two"}).status == 201
        assert client.messages(first)[-1]["content"] == "echo: two"


def test_a_clock_that_jumps_back_hides_nothing_and_reuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock("2026-06-01T12:00:00.000Z")
    monkeypatch.setattr(components, "SystemClock", lambda: clock)
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        chat = client.create_chat(prompt="one")
        before = client.messages(chat)
        clock.move(-3600)
        client.post(build_queue_path(chat), {"prompt": "two"})
        after = client.messages(chat)
        later = client.create_chat(prompt="three")
        seen = before[-1]["createdAt"]
        since = client.get(f"/api/remote/chats/{chat}/messages?since={seen}")["messages"]
    assert later > chat
    assert [said["id"] for said in after] == sorted({said["id"] for said in after})
    assert [said["createdAt"] for said in after] == sorted(said["createdAt"] for said in after)
    assert [said["content"] for said in since][-2:] == ["two", "echo: two"]
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        assert client.messages(chat) == after
        assert client.post(build_queue_path(chat), {"prompt": "four"})["id"] > len(after) / 2


@pytest.fixture
def purges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let daemons look for old things all the time; the times of the looks at the trash."""
    looks: list[str] = []
    purge = Trash.purge

    async def purge_and_note(trash: Trash, now: str) -> None:
        await purge(trash, now)
        looks.append(now)

    monkeypatch.setattr(Trash, "purge", purge_and_note)
    for module in (chats, background):
        monkeypatch.setattr(module, "PURGE_SECONDS", 0.001)
    monkeypatch.setattr(sessions, "SWEEP_SECONDS", 0.001)
    return looks


def test_a_clock_that_is_ten_years_ahead_for_a_while_destroys_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purges: list[str]
) -> None:
    clock = FrozenClock("2026-06-01T12:00:00.000Z")
    for module in (components, auth):
        monkeypatch.setattr(module, "SystemClock", lambda: clock)

    def wait_for_purges() -> None:
        count = len(purges) + 2
        until(lambda: len(purges) > count)

    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        old, young = client.create_chat(), client.create_chat()
        client.delete(f"/api/chats/{old}")
        clock.move(29 * 86400)
        ada = serving.administrator()
        client.delete(f"/api/chats/{young}")
        body = Path(serving.layout.bodies, "2026-06-30", "r-1.json")
        body.parent.mkdir(mode=0o700, parents=True)
        body.write_text("{}")
        clock.move(2 * 86400)
        until(lambda: len(client.get("/api/chats/trash")["chats"]) == 1)
    with Serving(tmp_path) as serving:
        ada = Client(serving.url, None, ada.headers)
        assert ada.get("/api/session")["user"] == "ada"
        clock.jump(3650 * 86400)
        assert ada.get("/api/session").status == 401
        wait_for_purges()
        ada.close()
    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        wait_for_purges()
        clock.jump(-3650 * 86400)
        assert client.post(f"/api/chats/{young}/restore", {}).status == 200
        assert body.exists()
        ada = Client(serving.url, None, ada.headers)
        assert ada.get("/api/session")["user"] == "ada"
        ada.close()


def test_a_frozen_disk_keeps_changes_waiting_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thaw, stuck = threading.Event(), threading.Event()
    real = os.fdatasync

    def sync_when_thawed(fd: int) -> None:
        stuck.set()
        assert thaw.wait(100)
        real(fd)

    with Serving(tmp_path) as serving, contextlib.closing(serving.client()) as client:
        chat, other = client.create_chat(prompt="one"), client.create_chat(prompt="other")
        said = client.messages(other)
        client.messages(chat)
        monkeypatch.setattr(os, "fdatasync", sync_when_thawed)
        answers: list[int] = []

        def append() -> None:
            with contextlib.closing(serving.client()) as late:
                answers.append(late.post(build_queue_path(chat), {"prompt": "two"}).status)

        waiting = threading.Thread(target=append)
        waiting.start()
        assert stuck.wait(100)
        for _ in range(20):
            assert client.status(chat)["status"] == "completed", "shows what a cut could undo"
            assert client.get("/healthz").status == 200
        assert client.get(f"/api/remote/chats/{other}/messages")["messages"] == said
        assert not answers
        thaw.set()
        waiting.join(100)
        assert answers == [201]
        until(lambda: client.messages(chat)[-1]["content"] == "echo: two")
