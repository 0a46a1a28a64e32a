"""The daemon is killed at any moment: what was said is neither lost nor doubled."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bots.bot_api import TOKEN, BotApi
from tests.bots.test_telegram import configure
from tests.support.daemon import Beats, until
from tests.test_daemon import Process

ROUNDS = 6
DELAYS = (0.0, 0.004, 0.02)
"""Seconds between the message, or its being acknowledged, and the end."""


@pytest.fixture
def api() -> Iterator[BotApi]:
    with BotApi() as server:
        yield server


def read_user_messages(process: Process) -> list[str]:
    """Return the user's messages in all chats."""
    client = process.client()
    try:
        number = len(list(Path(process.layout.chats).iterdir()))
        return [
            message["content"]
            for chat in range(1, number + 1)
            for message in client.messages(chat)
            if message["role"] == "user"
        ]
    finally:
        client.close()


def test_kill_9_between_an_update_and_its_answer_loses_and_doubles_nothing(
    tmp_path: Path, api: BotApi
) -> None:
    configure(tmp_path, api)
    killed: list[Process] = []
    for number in range(ROUNDS):
        process = Process(tmp_path).up()
        killed.append(process)
        try:
            until(lambda: api.offsets)
            polls = len(api.offsets)
            api.say(f"message {number}")
            if number % 2:
                until(lambda polls=polls: len(api.offsets) > polls)  # it is acknowledged
            time.sleep(DELAYS[number % 3])  # where it dies is the test's matter
        finally:
            process.end(signal.SIGKILL)
            api.offsets.clear()
    last = Process(tmp_path).up()
    try:
        until(lambda: not api.waiting)
        until(
            lambda: (
                sorted(read_user_messages(last))
                == [f"message {number}" for number in range(ROUNDS)]
            )
        )
        assert read_user_messages(last) == [f"message {number}" for number in range(ROUNDS)]
        assert len(list(Path(last.layout.chats).iterdir())) == 1
    finally:
        assert last.end(signal.SIGTERM) == 0
    for process in (*killed, last):
        assert TOKEN not in process.log
        assert "agentd/bots" not in process.log, "a traceback goes through the bots"


def test_a_daemon_that_is_asked_to_stop_does_so_at_once(tmp_path: Path, api: BotApi) -> None:
    configure(tmp_path, api)
    process = Process(tmp_path).up()
    try:
        until(lambda: api.offsets)
        with Beats() as beats:
            assert process.end(signal.SIGTERM) == 0
            assert beats.seconds < 5
        assert "agentd/bots" not in process.log
    finally:
        process.child.kill()
