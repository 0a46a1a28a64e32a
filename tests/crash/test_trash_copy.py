"""A copy that is taken while chats are deleted and restored has each of them exactly once."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentd.app.state import open_state
from agentd.chats.load import load
from agentd.storage.layout import Layout
from tests.crash.callers import Wire
from tests.crash.keeper import Keeper
from tests.support.copies import copy_state
from tests.support.waiting import until

MOVERS = 3
CHATS = 12
"""Each mover has some of them, and nobody else moves those."""
COPIES = 6

Copy = Callable[[str, Path, "Moves"], None]


class Moves:
    """Chats that are deleted and restored, over and over, and what was acknowledged of that."""

    def __init__(self, chats: list[int]) -> None:
        self.chats = chats
        self.count = 0
        """Moves that were acknowledged."""
        self.deleted: dict[int, set[bool]] = {chat: {False} for chat in chats}
        """By chat: whether it is deleted; both while nobody can know."""
        self._seen: list[dict[int, set[bool]]] = []
        self._lock = threading.Lock()
        self._failed: list[object] = []

    @contextlib.contextmanager
    def going_on(self, url: str) -> Iterator[None]:
        """They go on for as long as the block lasts."""
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._move, args=(url, self.chats[n::MOVERS], stop))
            for n in range(MOVERS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            assert not self._failed

    @contextlib.contextmanager
    def watched(self) -> Iterator[dict[int, set[bool]]]:
        """Yield the states that each chat may have in a copy that is taken within the block."""
        with self._lock:
            seen = {chat: set(states) for chat, states in self.deleted.items()}
            self._seen.append(seen)
        yield seen
        with self._lock:
            self._seen.remove(seen)

    def _move(self, url: str, chats: list[int], stop: threading.Event) -> None:
        with contextlib.closing(Wire(url)) as wire:
            while not stop.is_set():
                for chat in chats:
                    for deleted in (True, False):
                        self._settle(chat, {True, False})
                        way = ("DELETE", "") if deleted else ("POST", "/restore")
                        status, body, _ = wire.call(way[0], f"/api/chats/{chat}{way[1]}")
                        if status != 200:
                            self._failed.append((chat, status, body))
                            return
                        self._settle(chat, {deleted})
                        self.count += 1

    def _settle(self, chat: int, states: set[bool]) -> None:
        with self._lock:
            self.deleted[chat] = states
            for seen in self._seen:
                seen[chat] |= states


def copy_by_cp(state: str, target: Path, _: Moves) -> None:
    """Copy with ``cp -r``, the documented way."""
    copy_state(state, target)


def copy_by_tar(state: str, target: Path, _: Moves) -> None:
    """Through ``tar``; exit code 1 is a file that grew meanwhile."""
    target.mkdir()
    archive = target.with_suffix(".tar")
    done = subprocess.run(["tar", "-cf", archive, "-C", state, "."], check=False)
    assert done.returncode in (0, 1)
    subprocess.run(["tar", "-xf", archive, "-C", target], check=True)


def copy_slowly(state: str, target: Path, moves: Moves) -> None:
    """Copy as a program that lists each folder, then takes its time over every file in it."""
    target.mkdir(mode=0o700)
    for name in sorted(os.listdir(state)):
        path = os.path.join(state, name)
        if os.path.isdir(path):
            copy_slowly(path, target / name, moves)
            continue
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(path, target / name)
        until(lambda target=moves.count + 1: moves.count >= target)


def find_problems(copy: Path, may_be: dict[int, set[bool]], said: str) -> Iterator[str]:
    """Yield the problems of a copy, each of whose chats may be in one of these states."""
    places = sorted(int(path.parent.name) for path in copy.glob("chats/*/journal.jsonl"))
    if places != sorted(may_be):
        yield f"it has the chats {places}"
    layout = Layout(str(copy), str(copy))
    state = open_state(layout)
    try:
        if sorted(state.chats) != sorted(may_be):
            yield f"a start knows of {sorted(state.chats)}"
        for chat, summary in state.chats.items():
            if summary.damage:
                yield f"chat {chat}: {summary.damage}"
            if bool(summary.deleted_at) not in may_be[chat]:
                yield f"chat {chat}: deleted is {bool(summary.deleted_at)}, not {may_be[chat]}"
            if said not in [prompt.text for prompt in load(layout, chat).chat.queue]:
                yield f"chat {chat} lacks its prompt"
    finally:
        state.release()


@pytest.mark.parametrize("take", [copy_by_cp, copy_by_tar, copy_slowly])
def test_a_copy_taken_while_chats_are_deleted_and_restored_has_each_exactly_once(
    tmp_path: Path, take: Copy
) -> None:
    rows = {"prompts": [{"prompt": "waits", "isPaused": True}]}
    with Keeper(str(tmp_path)) as keeper:
        process = keeper.start()
        assert process.wait_until_answering()
        with contextlib.closing(Wire(process.url)) as wire:
            chats = [wire.send("POST", "", {})[1]["chatId"] for _ in range(CHATS)]
            for chat in chats:
                assert wire.send("PUT", f"/{chat}/queue", rows)[0] == 200
        moves = Moves(chats)
        with moves.going_on(process.url):
            for number in range(COPIES):
                until(lambda target=moves.count + MOVERS: moves.count >= target)
                copy = tmp_path / f"copy-{number}"
                with moves.watched() as may_be:
                    take(keeper.state, copy, moves)
                assert not list(find_problems(copy, may_be, "waits")), copy
        copied = Keeper(str(tmp_path / "restored"))
        (tmp_path / "restored").mkdir()
        copy.rename(copied.state)
        with copied:
            assert copied.start().wait_until_answering()
