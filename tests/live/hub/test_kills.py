"""``kill -9`` of a real daemon process, and its restart: what each real client gets through it."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.crash.keeper import DaemonProcess, Keeper
from tests.crash.keys import KEY
from tests.live.hub.support import (
    HUB,
    JAVASCRIPT,
    PYSIGNALR,
    SIGNALRCORE,
    ListeningClient,
    Wire,
    explain_missing,
)
from tests.support.daemon import Client, until

KILLS = 2


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """Starts daemon processes over one state folder."""
    with Keeper(str(tmp_path)) as made:
        yield made


def start_daemon(keeper: Keeper, wire: Wire) -> DaemonProcess:
    """Start a daemon process that the line leads to."""
    process = keeper.start()
    assert process.wait_until_answering()
    wire.target = urlsplit(process.url).port or 0
    return process


def talk(process: DaemonProcess, text: str) -> None:
    """Create a chat with this prompt and wait for the echo."""
    with closing(Client(process.url, KEY)) as client:
        client.messages(client.create_chat(prompt=text))


@pytest.mark.parametrize(
    ("name", "wish"),
    [
        (JAVASCRIPT, {"stateful": True, "reconnect": True}),
        (JAVASCRIPT, {"reconnect": True}),
        (PYSIGNALR, {}),
    ],
    ids=["javascript, stateful", "javascript", "pysignalr"],
)
def test_clients_come_back_by_themselves_and_are_shown_what_they_missed(
    keeper: Keeper, name: str, wish: dict[str, Any]
) -> None:
    """Specification 6: a break does not lose the subscription."""
    if why := explain_missing(name):
        pytest.skip(why)
    with closing(Wire(0)) as wire:
        process = start_daemon(keeper, wire)
        address = f"{wire.url}{HUB}?api_key={KEY}"
        with closing(ListeningClient(name, address, catchUp=True, **wish)) as listening:
            listening.wait("open")
            talk(process, "before")
            texts = ["before"]
            for number in range(KILLS):
                wait_for_twice(listening, texts)
                until(lambda: listening.list_events("chatUpdate")[-1][0]["reason"] == "turn.ended")
                wire.through.clear()
                process.end(signal.SIGKILL)
                wire.cut()  # as the system resets whatever is sent to a dead process
                process = start_daemon(keeper, wire)
                texts += [f"missed {number}", f"after {number}"]
                talk(process, texts[-2])
                wire.through.set()
                listening.wait("caught up", number + 1)
                talk(process, texts[-1])
            wait_for_twice(listening, texts)
            assert not listening.list_lines("unhandled")


def test_signalrcore_comes_back_by_itself(keeper: Keeper) -> None:
    """It does not tell its user when it is back, so that it could ask for what it missed."""
    if why := explain_missing(SIGNALRCORE):
        pytest.skip(why)
    with closing(Wire(0)) as wire:
        process = start_daemon(keeper, wire)
        address = f"{wire.url}{HUB}?api_key={KEY}"
        with closing(ListeningClient(SIGNALRCORE, address, reconnect=True)) as listening:
            listening.wait("open")
            talk(process, "before")
            wait_for_twice(listening, ["before"])
            wire.through.clear()
            process.end(signal.SIGKILL)
            wire.cut()
            process = start_daemon(keeper, wire)
            wire.through.set()

            def list_heard() -> bool:
                talk(process, "after")
                return "after" in listening.list_contents()

            until(list_heard)


def wait_for_twice(listening: ListeningClient, texts: list[str]) -> None:
    """Wait for each prompt once, and the reply that repeats it: no more, in order."""
    wanted = [text for text in texts for _ in range(2)]

    def list_heard() -> list[str]:
        return [text for text in listening.list_contents() if text in texts]

    try:
        until(lambda: list_heard() == wanted)
    except AssertionError:
        raise AssertionError(f"{list_heard()} in {listening.lines[-20:]}") from None
