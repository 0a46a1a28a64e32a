"""Other gateways beside agentd and the least that a gateway can do, in one run.

``python -m tests.benchmarks.peers [--quick] [--rounds N]`` measures the peers that are installed,
which are no dependencies of agentd and no part of the suite:

- ``TENSORZERO``: a Python that has the package ``tensorzero``, whose gateway is compiled Rust.
- ``PORTKEY``: ``build/start-server.js`` of the npm package ``@portkey-ai/gateway``, on Node.js.

All call the same scripted supplier with the same prompt. agentd has everything on, as in
``relaying``; the peers have no keys, limits, prices, masking or records.
"""

import argparse
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from os.path import dirname, join
from statistics import median
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from tests.benchmarks.load import Shot
from tests.benchmarks.measures import QUICK, Size, create_scratch_folder
from tests.benchmarks.relaying import (
    CONNECTIONS,
    LEAST,
    build_chat_body,
    start_bare_relay,
    start_supplier,
    write_gateway,
)
from tests.benchmarks.run import print_now
from tests.benchmarks.servers import (
    Gun,
    Server,
    encode_request,
    read_processor_seconds,
    read_resident,
    running_server,
    start_daemon,
)
from tests.support.ports import find_free_port

KINDS = {"calls of 1 KB": False, "streams of 50 chunks": True}
ALONE = 100
"""Requests over one connection whose median wait counts."""
PATIENCE = 60.0
"""Seconds for the first answer."""


class Contender(NamedTuple):
    """A gateway that answers."""

    name: str
    port: int
    pid: int
    path: str
    model: str
    headers: Mapping[str, str]

    def build_shot(self, *, stream: bool, seconds: float, count: int = 0) -> Shot:
        """Build requests over many connections for some time, or so many over one."""
        body = json.dumps({**build_chat_body(stream=stream), "model": self.model}).encode()
        head = encode_request("POST", self.path, body=body).removesuffix(b"\r\n\r\n" + body)
        more = "".join(f"\r\n{name}: {value}" for name, value in self.headers.items())
        request = b"%b%b\r\n\r\n%b" % (head, more.encode(), body)
        connections = 1 if count else CONNECTIONS
        return Shot(self.port, [request], connections, seconds=seconds, count=count)


Starter: TypeAlias = "Callable[[str, int], AbstractContextManager[Contender]]"
"""Starts a contender in a folder, before the supplier of a port."""


class Figures(NamedTuple):
    """One contender's figures of one kind of request."""

    rate: float
    """Answers per second."""
    processor: float
    """Milliseconds of processor time per answer."""
    wait: float
    """Milliseconds of an answer over one connection, those of the supplier included."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only see that the program runs")
    parser.add_argument("--rounds", type=int, default=Size().rounds, help="the median counts")
    options = parser.parse_args()
    size = QUICK if options.quick else Size(rounds=options.rounds)
    with closing(Gun()) as gun, create_scratch_folder() as folder, ExitStack() as stack:
        supplier = stack.enter_context(running_server(start_supplier(folder)))
        contenders = [
            stack.enter_context(start(folder, supplier.port)) for start in _list_starters()
        ]
        for what, stream in KINDS.items():
            able = [one for one in contenders if _answers(one, stream=stream)]
            measured = _measure_in_turn(gun, able, size, stream=stream)
            for line in _format_table(what, able, measured):
                print_now(line)
            for one in contenders:
                if one not in able:
                    print_now(f"{'fails':>12}  {one.name}")
        print_now("\nresident memory after all that")
        for one in contenders:
            print_now(f"{read_resident(one.pid):>10.0f} MiB  {one.name}")
    return 0


def _list_starters() -> Sequence[Starter]:
    peers = {"TENSORZERO": _running_tensorzero, "PORTKEY": _running_portkey}
    installed = [start for name, start in peers.items() if os.environ.get(name)]
    return [_running_agentd, _running_bare_relay, *installed]


def _answers(one: Contender, *, stream: bool) -> bool:
    """Return whether it answers this kind of request well."""
    (request,) = one.build_shot(stream=stream, seconds=0).requests
    with socket.create_connection(("127.0.0.1", one.port)) as caller:
        caller.settimeout(PATIENCE)
        caller.sendall(request)
        return caller.recv(12).startswith(b"HTTP/1.1 200")


def _measure_in_turn(
    gun: Gun, contenders: Sequence[Contender], size: Size, *, stream: bool
) -> list[Figures]:
    """Return the median figures of each contender; each round measures all of them."""
    rounds: list[list[Figures]] = [[] for _ in contenders]
    for number in range(size.rounds):
        order = list(enumerate(contenders))
        for index, one in order if number % 2 else reversed(order):
            rounds[index].append(_measure(gun, one, size, stream=stream))
    return [Figures(*map(median, zip(*of_one, strict=True))) for of_one in rounds]


def _measure(gun: Gun, one: Contender, size: Size, *, stream: bool) -> Figures:
    before = read_processor_seconds(one.pid)
    score = gun.fire(one.build_shot(stream=stream, seconds=max(size.seconds, LEAST)))
    used = read_processor_seconds(one.pid) - before
    wait = gun.fire(one.build_shot(stream=stream, seconds=0, count=ALONE)).median
    return Figures(score.rate, used / score.answers * 1000, wait * 1000)


def _format_table(
    what: str, contenders: Sequence[Contender], measured: Sequence[Figures]
) -> Iterator[str]:
    yield f"\n{what}, {CONNECTIONS} connections; the wait: over one"
    yield f"{'per second':>12} {'of agentd':>10} {'CPU ms each':>12} {'wait ms':>9}"
    for one, found in zip(contenders, measured, strict=True):
        ratio = found.rate / measured[0].rate
        yield (
            f"{found.rate:>12,.0f} {ratio:>9.2f}x {found.processor:>12.3f} {found.wait:>9.2f}"
            f"  {one.name}"
        )


@contextmanager
def _running_agentd(folder: str, supplier: int) -> Iterator[Contender]:
    layout, key = write_gateway(join(folder, "agentd"), supplier, masking=True)
    with running_server(start_daemon(layout)) as server:
        headers = {"Authorization": f"Bearer {key}"}
        path = "/v1/chat/completions"
        yield Contender("agentd, all on", server.port, server.pid, path, "fast", headers)


@contextmanager
def _running_bare_relay(folder: str, supplier: int) -> Iterator[Contender]:
    with running_server(start_bare_relay(folder, supplier)) as server:
        path = "/v1/chat/completions"
        yield Contender("bare relay (Tornado)", server.port, server.pid, path, "fast", {})


@contextmanager
def _running_tensorzero(folder: str, supplier: int) -> Iterator[Contender]:
    config = join(folder, "tensorzero.toml")
    with open(config, "w") as file:
        file.write(
            "[gateway]\nobservability.enabled = false\n"
            '[models.fast]\nrouting = ["local"]\n'
            '[models.fast.providers.local]\ntype = "openai"\nmodel_name = "fast"\n'
            f'api_base = "http://127.0.0.1:{supplier}/v1/"\napi_key_location = "none"\n'
        )
    program = join(dirname(__file__), "embedded_tensorzero.py")
    written = join(folder, "tensorzero.url")
    command = [os.environ["TENSORZERO"], program, config, written]
    with _running(command, join(folder, "tensorzero.log")) as process:
        address = ""
        while process.poll() is None and not address.endswith("\n"):
            time.sleep(0.01)
            with suppress(FileNotFoundError), open(written) as file:
                address = file.read()
        url = urlsplit(address.strip())
        if url.port is None:
            raise SystemExit("TensorZero's gateway did not start")
        path, model = f"{url.path.rstrip('/')}/chat/completions", "tensorzero::model_name::fast"
        yield Contender("TensorZero, embedded (Rust)", url.port, process.pid, path, model, {})


@contextmanager
def _running_portkey(folder: str, supplier: int) -> Iterator[Contender]:
    port, log = find_free_port(), join(folder, "portkey.log")
    command = ["node", os.environ["PORTKEY"], f"--port={port}", "--headless"]
    with _running(command, log) as process:
        Server.wait_for_answer(process, port, encode_request("GET", "/"), log)
        headers = {
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": f"http://127.0.0.1:{supplier}/v1",
            "Authorization": "Bearer sk-0123456789",
        }
        path = "/v1/chat/completions"
        yield Contender("Portkey (Node.js)", port, process.pid, path, "fast", headers)


@contextmanager
def _running(command: Sequence[str], log: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a program that writes to a file, as long as the block lasts."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with (
        open(log, "wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    raise SystemExit(main())
