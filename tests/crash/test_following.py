"""A client that follows the live events through ``kill -9`` receives each once, in order."""

import json
import random
import shutil
import signal
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.crash.following import BROKEN, Follower, connect, read_history
from tests.crash.keeper import DaemonProcess, Keeper
from tests.support.waiting import until

ENOUGH = (1, 10, 5, 40, 3, 30)
"""Answers, somewhat after which each of the daemons is killed."""


def _talk(process: DaemonProcess, chance: random.Random, enough: int) -> None:
    """Make events until the daemon is killed, which it is somewhat after so many answers."""
    killer = threading.Timer(chance.uniform(0, 0.05), process.end, [signal.SIGKILL])
    with suppress(*BROKEN):
        chats = []
        for number in count():
            if number == enough:
                killer.start()
            if len(chats) < 3:
                with connect(process, "POST", "/api/remote/chats", {"title": "x"}) as answer:
                    chats.append(json.loads(answer.read())["chatId"])
            path = f"/api/remote/chats/{chance.choice(chats)}/queue"
            with connect(process, "POST", path, {"prompt": "x" * chance.randrange(1, 500)}):
                pass
    killer.join()


def _damage_log(folder: Path, harm: str, chance: random.Random) -> None:
    """Damage the log of events as a crash, or a person, may do."""
    if harm == "deleted":
        shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(folder.glob("*")) if folder.exists() else ():
        data = bytearray(path.read_bytes())
        if harm == "torn":
            del data[chance.randrange(len(data) + 1) :]
        elif harm == "altered" and data:
            data[chance.randrange(len(data))] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("harm", ["none", "torn", "altered", "deleted"])
def test_each_event_is_received_once_and_in_order_through_kills(tmp_path: Path, harm: str) -> None:
    chance = random.Random(harm)  # noqa: S311
    follower = Follower()
    with Keeper(str(tmp_path)) as keeper:
        events = Path(keeper.state, "events")
        for number, enough in enumerate(ENOUGH):
            process = keeper.start()
            assert process.wait_until_answering()
            if number % 3 == 2:
                read_history(process)  # so the log has all of it
            thread = follower.follow(process)
            _talk(process, chance, enough)
            thread.join()
            _damage_log(events, harm, chance)
        process = keeper.start()
        assert process.wait_until_answering()
        thread = follower.follow(process)
        told = read_history(process)
        until(lambda: len(follower.told) >= len(told))
        process.end(signal.SIGKILL)
        thread.join()
        shutil.rmtree(events)
        process = keeper.start()
        assert process.wait_until_answering()
        assert read_history(process)[: len(told)] == told, "the journals say otherwise than the log"
        process.end(signal.SIGKILL)
    assert len(told) > 50
    assert follower.told[: len(told)] == told
