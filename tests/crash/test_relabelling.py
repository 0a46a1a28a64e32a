"""A label that many chats bear is renamed or deleted in all of them, or in none."""

import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.crash.callers import NoAnswer, Wire
from tests.crash.keeper import Keeper
from tests.support.waiting import until

CHATS = 150
"""More than are changed at a time."""


def read_labels(wire: Wire, chats: list[int]) -> set[tuple[str, ...]]:
    """Return the labels of the chats."""
    rows = wire.call("GET", "/api/chats?limit=200")[1]["chats"]
    found = {row["chatId"]: tuple(row["labels"]) for row in rows}
    return {found[chat] for chat in chats}


@pytest.mark.parametrize(
    ("method", "body", "after"),
    [("PUT", {"name": "new"}, ("new",)), ("DELETE", None, ())],
    ids=["renamed", "deleted"],
)
def test_what_kill_9_leaves_half_done_is_finished_at_the_next_start(
    tmp_path: Path, method: str, body: object, after: tuple[str, ...]
) -> None:
    with Keeper(str(tmp_path)) as keeper:
        process = keeper.start()
        assert process.wait_until_answering()
        with contextlib.closing(Wire(process.url)) as wire:
            assert wire.call("POST", "/api/chat-labels", {"name": "old"})[0] == 201
            chats = [wire.send("POST", "", {})[1]["chatId"] for _ in range(CHATS)]
            for chat in chats:
                assert wire.call("PUT", f"/api/chats/{chat}/labels", {"labels": ["old"]})[0] == 200
            assert read_labels(wire, chats) == {("old",)}

        def ask() -> None:
            with contextlib.closing(Wire(process.url)) as wire, contextlib.suppress(NoAnswer):
                wire.call(method, "/api/chat-labels/old", body)

        asking = threading.Thread(target=ask)
        asking.start()
        intent = os.path.join(keeper.state, "relabelling.json")
        until(lambda: os.path.exists(intent))
        process.end(signal.SIGKILL)
        asking.join()
        process = keeper.start()
        assert process.wait_until_answering()
        with contextlib.closing(Wire(process.url)) as wire:
            assert read_labels(wire, chats) == {after}
            listed = [row["name"] for row in wire.call("GET", "/api/chat-labels")[1]["labels"]]
            assert listed == list(after)
        assert not os.path.exists(intent)
