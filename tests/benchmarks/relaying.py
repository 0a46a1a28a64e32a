"""The model gateway with everything on: beside the least that a gateway can do, and LiteLLM.

LiteLLM is measured where the variable ``LITELLM`` names its program: it is no part of the suite.
"""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from os.path import join
from statistics import median
from typing import Any

from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.layout import Layout
from agentd.disk.licence import LicenceFile
from agentd.proxy.access_key import issue
from tests.benchmarks.bare_supplier import CHUNKS
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, ratio_of_rates, scratch_folder
from tests.benchmarks.servers import MIB, Gun, Server, daemon, request, running
from tests.ports import free_port

LONG_AGO = "2026-01-01T00:00:00.000Z"
CONNECTIONS = 64
PAUSE = 5
"""Milliseconds between the chunks of a spaced stream."""
LEAST = 0.5
"""Seconds in which 64 streams end at least once."""
LITELLM = os.environ.get("LITELLM", "")


def gateway(size: Size, gun: Gun) -> Iterator[Row]:
    """Calls of 1 KB, streams, a long conversation, and what is left of many calls."""
    with scratch_folder() as folder, ExitStack() as stack:
        supplier = stack.enter_context(running(_supplier(folder)))
        open_, key = _gateway(join(folder, "hiding"), supplier.port, hiding=True)
        ours = stack.enter_context(running(open_))
        bare = stack.enter_context(running(_bare(folder, supplier.port)))
        yield from _beside_the_least(size, gun, ours, key, bare)
        yield from _spaced(gun, ours, key)
        if LITELLM:
            yield from _beside_litellm(size, gun, folder, supplier.port, ours, key)
        closed, other = _gateway(join(folder, "open"), supplier.port, hiding=False)
        with running(closed) as unhidden:
            yield from _long(size, gun, (ours, key), (unhidden, other))
        yield from _soaked(size, gun, ours, key)


def _beside_the_least(size: Size, gun: Gun, ours: Server, key: str, bare: Server) -> Iterator[Row]:
    for what, stream, target in (
        ("calls of 1 KB", False, 0.75),
        (f"streams of {CHUNKS} chunks at once", True, 0.5),
    ):
        one = _shot(ours, key, max(size.seconds, LEAST), stream=stream)
        other = _shot(bare, key, max(size.seconds, LEAST), stream=stream)
        rate = ratio_of_rates(gun, one, other, 2 * size.rounds + 1)  # they differ by a tenth
        yield Row(f"gateway, {what}, {CONNECTIONS} connections: rate, of a bare one's", rate,
                  target, at_least=True)  # fmt: skip


def _spaced(gun: Gun, ours: Server, key: str) -> Iterator[Row]:
    spaced = _post(key, _asked(stream=True), f"X-Pause: {PAUSE}\r\n")
    score = gun.fire(Shot(ours.port, [spaced], connections=1, count=5))
    yield Row(f"gateway, stream with {PAUSE} ms between chunks: widest gap", score.gap * 1000, 30,
              unit=" ms")  # fmt: skip


def _long(
    size: Size, gun: Gun, hidden: tuple[Server, str], plain: tuple[Server, str]
) -> Iterator[Row]:
    """400 KB of which the last message is new each time."""
    ratios = []
    for _ in range(size.rounds):
        waits = []
        for server, key in (hidden, plain):
            requests = [_post(key, _conversation(number)) for number in range(20)]
            gun.fire(Shot(server.port, requests, connections=1, count=1))
            waits.append(gun.fire(Shot(server.port, requests, connections=1, count=20)).median)
        ratios.append(waits[0] / waits[1])
    yield Row("gateway, 400 KB conversation: wait with hiding, of without", median(ratios), 1.15)


def _soaked(size: Size, gun: Gun, ours: Server, key: str) -> Iterator[Row]:
    count = size.soak // 2
    shot = _shot(ours, key, 1.0, stream=False)
    shot.count = count // 10
    gun.fire(shot)
    before = ours.resident()
    shot.count = count
    gun.fire(shot)
    yield Row(f"resident memory that {count:,} calls of the gateway add", ours.resident() - before,
              4, unit=" MiB")  # fmt: skip


def _beside_litellm(
    size: Size, gun: Gun, folder: str, supplier: int, ours: Server, key: str
) -> Iterator[Row]:
    with _litellm(folder, supplier) as (port, other, process, took):
        seconds = max(size.seconds * 8, 1)
        for what, stream in (("calls of 1 KB", False), (f"streams of {CHUNKS} chunks", True)):
            mine = gun.fire(_shot(ours, key, seconds, stream=stream)).rate
            theirs = gun.fire(_at(port, other, seconds, stream=stream)).rate
            yield Row(f"gateway, {what}, {CONNECTIONS} connections: rate, of LiteLLM's",
                      mine / theirs, 20, at_least=True)  # fmt: skip
        alone = gun.fire(_at(supplier, "", 0, stream=False, count=200)).median
        mine = gun.fire(_at(ours.port, key, 0, stream=False, count=200)).median - alone
        theirs = gun.fire(_at(port, other, 0, stream=False, count=200)).median - alone
        yield Row("gateway, 1 connection: median wait added, of LiteLLM's", mine / theirs, 1 / 12)
        alone = gun.fire(_at(supplier, "", 0, stream=True, count=50)).first
        mine = gun.fire(_at(ours.port, key, 0, stream=True, count=50)).first - alone
        theirs = gun.fire(_at(port, other, 0, stream=True, count=50)).first - alone
        yield Row("gateway, 1 stream: wait added to the first token, of LiteLLM's",
                  mine / theirs, 1 / 12)  # fmt: skip
        yield Row("gateway: resident memory, of LiteLLM's",
                  ours.resident() / _resident(process.pid), 0.25)  # fmt: skip
        yield Row("gateway: start to first answer, of LiteLLM's", ours.start_seconds / took, 0.1)


@contextmanager
def _litellm(
    folder: str, supplier: int
) -> "Iterator[tuple[int, str, subprocess.Popen[bytes], float]]":
    port, key, config = free_port(), f"sk-{secrets.token_hex(24)}", join(folder, "litellm.yaml")
    model = {"model": "openai/fast", "api_base": f"http://127.0.0.1:{supplier}/v1", "api_key": "x"}
    said = {
        "model_list": [{"model_name": "fast", "litellm_params": model}],
        "general_settings": {"master_key": key},
    }
    with open(config, "w") as file:
        json.dump(said, file)
    command = [LITELLM, "--config", config, "--host", "127.0.0.1", "--port", str(port)]
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    began = time.perf_counter()
    with open(join(folder, "litellm.log"), "wb") as log:
        process = subprocess.Popen([*command, "--num_workers", "1"], stdout=log, stderr=log,
                                   env=environ)  # fmt: skip
    try:
        Server.wait_for_answer(process, port, request("GET", "/health/liveliness"), log.name)
        yield port, key, process, time.perf_counter() - began
    finally:
        process.kill()
        process.wait()


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def _supplier(folder: str) -> Server:
    port = free_port()
    probe = _post("", _asked(stream=False))
    return Server(["-m", "tests.benchmarks.bare_supplier", str(port)], port, probe,
                  join(folder, "supplier.log"))  # fmt: skip


def _bare(folder: str, supplier: int) -> Server:
    port, to = free_port(), f"http://127.0.0.1:{supplier}"
    return Server(["-m", "tests.benchmarks.bare_relay", str(port), to], port, request("GET", "/"),
                  join(folder, "relay.log"))  # fmt: skip


def _gateway(folder: str, supplier: int, *, hiding: bool) -> tuple[Server, str]:
    """A daemon with one channel, and a key with limits that are far away."""
    layout = Layout(join(folder, "state"), join(folder, "config"))
    for path in (layout.state, layout.config):
        os.makedirs(path, mode=0o700)
    channel = {"name": "fast", "dialects": ["openai-chat"], "local": True, "key": "sk-0123456789"}
    model = {"name": "fast", "ways": [{"channel": "fast"}], "prices": {"input": 1, "output": 2}}
    _write(layout.channels, {"channels": [{**channel, "url": f"http://127.0.0.1:{supplier}"}]})
    _write(layout.models, {"proxy": [model]})
    _write(layout.gateway_settings, {"hiding": hiding, "sync_ledger": False})
    LicenceFile(layout).install_own(LONG_AGO)
    key, kept = issue("benchmark", LONG_AGO)
    AccessKeyFile(layout).add(kept)
    return daemon(layout), key


def _write(path: str, content: dict[str, Any]) -> None:
    with open(path, "w") as file:
        json.dump(content, file)  # which is YAML
    os.chmod(path, 0o600)


def _shot(server: Server, key: str, seconds: float, *, stream: bool) -> Shot:
    return _at(server.port, key, seconds, stream=stream, connections=CONNECTIONS)


def _at(
    port: int,
    key: str,
    seconds: float,
    *,
    stream: bool,
    connections: int = CONNECTIONS,
    count: int = 0,
) -> Shot:
    asked = _post(key, _asked(stream=stream))
    return Shot(port, [asked], connections=1 if count else connections, seconds=seconds,
                count=count)  # fmt: skip


def _asked(*, stream: bool) -> dict[str, Any]:
    said = {"model": "fast", "messages": [{"role": "user", "content": "hello " * 150}]}
    streamed = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return {**said, "max_tokens": 100, **streamed}


def _conversation(number: int) -> dict[str, Any]:
    with open(__file__) as file:
        text = file.read()[:8000]
    messages = [
        {"role": "assistant" if at % 2 else "user", "content": f"{at} {text}"} for at in range(50)
    ]
    last = {"role": "user", "content": f"{number} {text[:2000]}"}
    return {"model": "fast", "messages": [*messages, last], "max_tokens": 100}


def _post(key: str, said: dict[str, Any], more: str = "") -> bytes:
    body = json.dumps(said).encode()
    head = request("POST", "/v1/chat/completions", body=body).partition(b"\r\n\r\n")[0]
    return b"%b\r\nAuthorization: Bearer %b\r\n%b\r\n%b" % (head, key.encode(), more.encode(), body)
