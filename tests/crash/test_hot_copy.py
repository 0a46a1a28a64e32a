"""``cp -r`` of the state folder, while the daemon works, is a backup of all acknowledged before."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentd.storage.layout import Layout
from tests.crash import keeping, reading
from tests.crash.callers import Caller, NotedWorld, Wire, replay_notes
from tests.crash.keeper import Keeper
from tests.support.copies import copy_state
from tests.support.waiting import until

COPIES = 12
CALLERS = 4

Notes = list[tuple[Any, ...]]


class Load:
    """Callers at work on a daemon, and the notes of all that they asked and were told."""

    def __init__(self, seed: int) -> None:
        self.notes: Notes = []
        self.world = NotedWorld(lambda *what: self.notes.append(what))
        self.callers = [Caller(f"c{n}", self.world, seed) for n in range(CALLERS)]

    @contextlib.contextmanager
    def going_on(self, url: str) -> Iterator[None]:
        """They work for as long as the block lasts."""
        stop = threading.Event()
        threads = [
            threading.Thread(target=caller.run_until_death, args=(url, stop))
            for caller in self.callers
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def find_problems(copy: Path, before: Notes, meanwhile: Notes) -> list[str]:
    """Return the problems of a copy: requests that were sent while it was taken are in doubt."""
    world, _ = replay_notes(before)
    for chat, name, what, named in meanwhile:
        if chat in (0, *world.chats) and name in ("ask", "ask_chat"):
            getattr(world.chats[chat] if chat else world, name)(*what, **named)
    found = reading.read_chats(str(copy))
    asked = {what[0] for _, name, what, _ in [*before, *meanwhile] if name == "ask_chat"}
    for chat in world.chats:
        if chat in found:
            world.complain(f"chat {chat}", world.chats[chat].find_violations(found[chat]))
        else:
            world.complain(f"chat {chat}", ["it is lost"])
    world.complain("new", (str(chat) for chat in found.keys() - world.chats.keys() if not asked))
    world.complain("damage", (one.damage for one in found.values() if one.damage))
    return world.violations


def test_every_copy_under_load_opens_with_all_acknowledged_before_it_began(tmp_path: Path) -> None:
    with Keeper(str(tmp_path)) as keeper:
        process = keeper.start()
        assert process.wait_until_answering()
        load = Load(seed=40)
        taken = []
        with load.going_on(process.url):
            for number in range(10 * COPIES):
                copy = tmp_path / f"copy-{number}"
                until(lambda target=50 * (number + 1): load.world.answers >= target)
                began = len(load.notes)
                copy_state(keeper.state, copy)
                taken.append((copy, load.notes[:began], load.notes[began:]))
                going_on = sum(len(meanwhile) for _, _, meanwhile in taken) > COPIES
                if len(taken) >= COPIES and going_on:
                    break
        assert going_on, "nothing was going on"
        for copy, before, meanwhile in taken:
            assert not find_problems(copy, before, meanwhile)
        with contextlib.closing(Wire(process.url)) as wire:
            for chat in load.world.chats:
                load.world.check(chat, wire.read_chat(chat))
        assert not load.world.violations


def test_a_copy_that_lacks_what_was_acknowledged_would_be_noticed(tmp_path: Path) -> None:
    with Keeper(str(tmp_path)) as keeper:
        process = keeper.start()
        assert process.wait_until_answering()
        load = Load(seed=41)
        copy = tmp_path / "copy"
        with load.going_on(process.url):
            until(lambda: load.world.answers > 50)
            copy_state(keeper.state, copy)
            copied = len(load.notes)
            until(lambda: len(load.notes) > copied + 100)
    assert find_problems(copy, load.notes, [])


@pytest.mark.parametrize("cache", ["index.json", "chats/*/checkpoint.json"])
def test_a_cache_from_another_moment_than_the_journals_is_not_believed(
    tmp_path: Path, cache: str
) -> None:
    """A copy takes files one after another: an older cache meets a newer journal."""
    with Keeper(str(tmp_path)) as keeper:
        process = keeper.start()
        assert process.wait_until_answering()
        load = Load(seed=42)
        with load.going_on(process.url):
            until(lambda: load.world.answers > 100)
        process.end(signal.SIGTERM)
        older = {path: path.read_bytes() for path in Path(keeper.state).glob(cache)}
        assert older
        process = keeper.start()
        assert process.wait_until_answering()
        before = load.world.answers
        with load.going_on(process.url):
            until(lambda: load.world.answers > before + 100)
        process.end(signal.SIGTERM)
        for path, data in older.items():
            path.write_bytes(data)
        assert not find_problems(Path(keeper.state), load.notes, [])


def test_every_copy_has_the_browsers_that_are_notified(tmp_path: Path) -> None:
    with Keeper(str(tmp_path)) as keeper:
        layout = Layout(keeper.state, str(tmp_path / "config"))
        keeping.settle(layout)
        process = keeper.start()
        assert process.wait_until_answering()
        with contextlib.closing(Wire(process.url)) as wire:
            first, second = (keeping.sign_in(wire) for _ in range(2))
            keeping.subscribe(wire, first, "kept")
        changes, stop = [0], threading.Event()

        def change() -> None:
            with contextlib.closing(Wire(process.url)) as wire:
                while not stop.is_set():
                    keeping.subscribe(wire, second, f"n{changes[0]}")
                    changes[0] += 1

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for number in range(COPIES):
                copy = tmp_path / f"copy-{number}"
                until(lambda least=10 * number + 1: changes[0] >= least)
                least = changes[0] - 1
                copy_state(keeper.state, copy)
                names = keeping.list_notified(Layout(str(copy), ""))
                assert names[0] == "kept"
                assert int(names[1].removeprefix("n")) >= least
        finally:
            stop.set()
            thread.join()
