"""Lines that break and daemons that restart: what each real client gets through it."""

from pathlib import Path
from typing import Any

import pytest

from tests.live.hub.conftest import Listen
from tests.live.hub.support import JAVASCRIPT, PYSIGNALR, SIGNALRCORE, ListeningClient, Wire
from tests.support.daemon import Client, Serving, until
from tests.support.fixtures import Serve

BREAKS = 3

Wish = dict[str, Any]


def talk(client: Client, *texts: str) -> None:
    """Chats with these prompts, each answered."""
    for text in texts:
        client.messages(client.create_chat(prompt=text))


def assert_received_once(listening: ListeningClient, texts: list[str]) -> None:
    """Assert that these prompts and their answers were received, each once and in order."""
    wanted = [one for text in texts for one in (text, f"echo: {text}")]
    listening.wait_for_texts(*wanted)
    assert listening.list_contents() == wanted


@pytest.mark.parametrize("half", [False, True], ids=["broken", "half-open"])
def test_rule_9_javascript_with_stateful_reconnect_loses_nothing_and_hears_nothing_twice(
    listen: Listen, wire: Wire, client: Client, half: bool
) -> None:
    """Rules 6 to 9."""
    listening = listen(JAVASCRIPT, url=wire.url, stateful=True)
    listening.wait("open")
    talk(client, "first")
    listening.wait_for_texts("echo: first")
    texts = ["first"]
    for number in range(BREAKS):
        made = wire.made
        wire.cut(half=half)
        texts += [f"{number}.{part}" for part in range(4)]
        talk(client, *texts[-4:])
        until(lambda made=made: wire.made > made)
        assert_received_once(listening, texts)
    assert {line["what"] for line in listening.lines} == {"open", "event"}


def test_rule_10_pysignalr_dials_the_same_id_and_receives_what_it_missed(
    listen: Listen, wire: Wire, client: Client
) -> None:
    """Rule 10."""
    listening = listen(PYSIGNALR, url=wire.url)
    listening.wait("open")
    talk(client, "first")
    listening.wait_for_texts("echo: first")
    texts = ["first"]
    for number in range(BREAKS):
        wire.through.clear()
        wire.cut()
        texts += [f"{number}.{part}" for part in range(4)]
        talk(client, *texts[-4:])
        wire.through.set()
        listening.wait("open", 2 + number)
        assert_received_once(listening, texts)


def test_rule_10_pysignalr_takes_over_a_half_open_line(
    listen: Listen, wire: Wire, client: Client
) -> None:
    """Rule 10."""
    listening = listen(PYSIGNALR, url=wire.url)
    listening.wait("open")
    wire.cut(half=True)
    listening.wait("open", 2)
    talk(client, "after")
    assert_received_once(listening, ["after"])


@pytest.mark.parametrize("transport", ["WebSockets", "ServerSentEvents", "LongPolling"])
def test_a_plain_javascript_client_comes_back_after_a_break(
    listen: Listen, wire: Wire, client: Client, transport: str
) -> None:
    listening = listen(JAVASCRIPT, url=wire.url, transport=transport, reconnect=True)
    listening.wait("open")
    talk(client, "before")
    listening.wait_for_texts("echo: before")
    wire.cut()
    listening.wait("reconnected")
    talk(client, "after")
    assert_received_once(listening, ["before", "after"])


def test_signalrcore_comes_back_after_a_break(listen: Listen, wire: Wire, client: Client) -> None:
    listening = listen(SIGNALRCORE, url=wire.url, reconnect=True)
    listening.wait("open")
    wire.cut()
    listening.wait("reconnecting")
    talk(client, "after")
    assert_received_once(listening, ["after"])


RESTARTS = pytest.mark.parametrize(
    ("name", "wish"),
    [
        (JAVASCRIPT, {"stateful": True, "reconnect": True}),
        (JAVASCRIPT, {"reconnect": True}),
        (JAVASCRIPT, {"reconnect": True, "transport": "ServerSentEvents"}),
        (JAVASCRIPT, {"reconnect": True, "transport": "LongPolling"}),
        (PYSIGNALR, {}),
        (SIGNALRCORE, {"reconnect": True}),
    ],
    ids=lambda wished: "-".join(map(str, wished)) if isinstance(wished, dict) else wished,
)


@RESTARTS
def test_rule_12_clients_come_back_by_themselves_after_a_restart(
    daemon: Serving, serve: Serve, tmp_path: Path, listen: Listen, wire: Wire, name: str, wish: Wish
) -> None:
    """Rule 12."""
    listening = listen(name, url=wire.url, **wish)
    listening.wait("open")
    talk(daemon.client(), "before")
    listening.wait_for_texts("echo: before")
    if name != JAVASCRIPT:  # after a goodbye these dial only once, or ten times at short intervals
        wire.through.clear()
    daemon.stop()
    daemon.join()
    again = serve(tmp_path)
    wire.target = again.port
    wire.through.set()
    client = again.client()
    said = ["before"]

    def talk_and_check() -> bool:
        said.append(f"after {len(said)}")
        talk(client, said[-1])
        return any(text.startswith("echo: after") for text in listening.list_contents())

    until(talk_and_check)
    assert not listening.list_lines("unhandled")
    contents = listening.list_contents()
    assert len(contents) == len(set(contents))
