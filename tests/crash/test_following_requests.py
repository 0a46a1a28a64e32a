"""A client that follows the request log through ``kill -9`` receives each request once."""

import json
import signal
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from agentd.core.sse import SseReader
from agentd.gateway.ledger.day_file import decode_record
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Answer, Say, Tokens
from tests.supplier.supplier import Supplier
from tests.support.waiting import until
from tests.test_daemon import Process

KILLED_AFTER = (3, 12, 1, 25)
"""Answers, somewhat after which each of the daemons is killed."""
CALLERS = 4
BROKEN = (OSError, HTTPException)


class Follower:
    """Comes back after each break with the last id that it saw."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.names: set[str] = set()
        self.last = "2020-01-01.0"

    def listen(self, url: str) -> None:
        """Listen until the connection breaks."""
        reader = SseReader()
        headers = {"X-API-Key": MANAGEMENT_KEY, "Last-Event-ID": self.last}
        with suppress(*BROKEN), closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as client:
            client.request("GET", "/api/agent/requests/stream", headers=headers)
            answer = client.getresponse()
            assert answer.status == 200
            while data := answer.read1(65536):
                for event in reader.feed(data):
                    self.names.add(event.name)
                    self.told.append(json.loads(event.data)["id"])
                self.last = reader.last_id or self.last


def read_ledger(setup: GatewaySetup) -> list[str]:
    """Return the ids of all requests in the files."""
    folder = Path(setup.layout.ledger)
    return [
        decode_record(line).id
        for path in sorted(folder.glob("[0-9]*.jsonl"))
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]


def call_until_killed(process: Process, url: str, keys: list[str], enough: int) -> None:
    """Send requests from several callers until the daemon is killed."""
    answered, killed = threading.Semaphore(0), threading.Event()

    def call(key: str) -> None:
        with suppress(*BROKEN, AssertionError):
            caller = Caller(urlsplit(url).port or 0, key)
            while not killed.is_set():
                caller.ask("openai-chat", "by-chat")
                answered.release()

    threads = [threading.Thread(target=call, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for _ in range(enough):
        assert answered.acquire(timeout=60)
    process.child.send_signal(signal.SIGKILL)
    process.child.wait(60)
    killed.set()
    for thread in threads:
        thread.join()


def test_who_comes_back_misses_and_repeats_no_recorded_request(tmp_path: Path) -> None:
    with Supplier() as supplier:
        supplier.answer_always(Answer((Say("Hello."),), Tokens(input=1000, output=100)))
        setup = GatewaySetup(tmp_path, supplier)
        keys = [setup.add_key() for _ in range(CALLERS)]
        setup.write()
        follower = Follower()
        for enough in KILLED_AFTER:
            process = Process(tmp_path, PROXY_APP_HASH=HASH).up()
            url = str(process.announced()["url"])
            listening = threading.Thread(target=follower.listen, args=(url,))
            listening.start()
            call_until_killed(process, url, keys, enough)
            listening.join()
        process = Process(tmp_path, PROXY_APP_HASH=HASH).up()
        listening = threading.Thread(
            target=follower.listen, args=(str(process.announced()["url"]),)
        )
        listening.start()
        recorded = read_ledger(setup)
        until(lambda: len(follower.told) >= len(recorded))
        process.child.send_signal(signal.SIGKILL)
        process.child.wait(60)
        listening.join()
    assert sorted(follower.told) == sorted(recorded)
    assert follower.names == {"request"}
    assert len(recorded) >= sum(KILLED_AFTER)
