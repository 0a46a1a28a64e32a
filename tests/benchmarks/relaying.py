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

from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.model import issue
from agentd.gateway.licence.store import LicenceFile
from agentd.storage.layout import Layout
from tests.benchmarks.bare_supplier import CHUNKS
from tests.benchmarks.load import Shot
from tests.benchmarks.measures import Row, Size, compare_rates, create_scratch_folder
from tests.benchmarks.servers import (
    Gun,
    Server,
    encode_request,
    read_resident,
    running_server,
    start_daemon,
)
from tests.support.ports import find_free_port

LONG_AGO = "2026-01-01T00:00:00.000Z"
CONNECTIONS = 64
PAUSE = 5
"""Milliseconds between the chunks of a spaced stream."""
LEAST = 0.5
"""Seconds in which 64 streams end at least once."""
LITELLM = os.environ.get("LITELLM", "")


def measure_gateway(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure calls of 1 KB, streams, a long conversation, and the memory that calls leave."""
    with create_scratch_folder() as folder, ExitStack() as stack:
        supplier = stack.enter_context(running_server(start_supplier(folder)))
        open_, key = _start_gateway(join(folder, "masking"), supplier.port, masking=True)
        ours = stack.enter_context(running_server(open_))
        bare = stack.enter_context(running_server(start_bare_relay(folder, supplier.port)))
        yield from _compare_with_bare_relay(size, gun, ours, key, bare)
        yield from _measure_gaps(gun, ours, key)
        if LITELLM:
            yield from _compare_with_litellm(size, gun, folder, supplier.port, ours, key)
        closed, other = _start_gateway(join(folder, "open"), supplier.port, masking=False)
        with running_server(closed) as unhidden:
            yield from _measure_long_conversation(size, gun, (ours, key), (unhidden, other))
        yield from _measure_memory(size, gun, ours, key)


def measure_synced_ledger(size: Size, gun: Gun) -> Iterator[Row]:
    """Measure calls whose records are safe on disk before the answer ends, beside others."""
    with create_scratch_folder() as folder, ExitStack() as stack:
        supplier = stack.enter_context(running_server(start_supplier(folder)))
        shots = []
        for name, synced in (("synced", True), ("unsynced", False)):
            place = join(folder, name)
            layout, key = write_gateway(place, supplier.port, masking=True, synced=synced)
            server = stack.enter_context(running_server(start_daemon(layout)))
            shots.append(_build_shot(server, key, max(size.seconds, LEAST), stream=False))
        one, other = shots
        rate = compare_rates(gun, one, other, 2 * size.rounds + 1)
        what = f"gateway, calls of 1 KB, {CONNECTIONS} connections, sync_ledger: rate, of without"
        yield Row(what, rate, 0.9, at_least=True)


def _compare_with_bare_relay(
    size: Size, gun: Gun, ours: Server, key: str, bare: Server
) -> Iterator[Row]:
    for what, stream, target in (
        ("calls of 1 KB", False, 0.75),
        (f"streams of {CHUNKS} chunks at once", True, 0.5),
    ):
        one = _build_shot(ours, key, max(size.seconds, LEAST), stream=stream)
        other = _build_shot(bare, key, max(size.seconds, LEAST), stream=stream)
        rate = compare_rates(gun, one, other, 2 * size.rounds + 1)  # they differ by a tenth
        yield Row(f"gateway, {what}, {CONNECTIONS} connections: rate, of a bare one's", rate,
                  target, at_least=True)  # fmt: skip


def _measure_gaps(gun: Gun, ours: Server, key: str) -> Iterator[Row]:
    spaced = _encode_post(key, build_chat_body(stream=True), f"X-Pause: {PAUSE}\r\n")
    score = gun.fire(Shot(ours.port, [spaced], connections=1, count=5))
    yield Row(f"gateway, stream with {PAUSE} ms between chunks: widest gap", score.gap * 1000, 30,
              unit=" ms")  # fmt: skip


def _measure_long_conversation(
    size: Size, gun: Gun, hidden: tuple[Server, str], plain: tuple[Server, str]
) -> Iterator[Row]:
    """Measure 400 KB of which the last message is new each time."""
    ratios = []
    for _ in range(size.rounds):
        waits = []
        for server, key in (hidden, plain):
            requests = [_encode_post(key, _build_conversation(number)) for number in range(20)]
            gun.fire(Shot(server.port, requests, connections=1, count=1))
            waits.append(gun.fire(Shot(server.port, requests, connections=1, count=20)).median)
        ratios.append(waits[0] / waits[1])
    yield Row("gateway, 400 KB conversation: wait with masking, of without", median(ratios), 1.15)


def _measure_memory(size: Size, gun: Gun, ours: Server, key: str) -> Iterator[Row]:
    count = size.soak // 2
    shot = _build_shot(ours, key, 1.0, stream=False)
    shot.count = count // 10
    gun.fire(shot)
    before = ours.get_resident()
    shot.count = count
    gun.fire(shot)
    added = ours.get_resident() - before
    yield Row(f"resident memory that {count:,} calls of the gateway add", added, 4, unit=" MiB")


def _compare_with_litellm(
    size: Size, gun: Gun, folder: str, supplier: int, ours: Server, key: str
) -> Iterator[Row]:
    with _running_litellm(folder, supplier) as (port, other, process, took):
        seconds = max(size.seconds * 8, 1)
        for what, stream in (("calls of 1 KB", False), (f"streams of {CHUNKS} chunks", True)):
            mine = gun.fire(_build_shot(ours, key, seconds, stream=stream)).rate
            theirs = gun.fire(_build_shot_at(port, other, seconds, stream=stream)).rate
            yield Row(f"gateway, {what}, {CONNECTIONS} connections: rate, of LiteLLM's",
                      mine / theirs, 20, at_least=True)  # fmt: skip
        alone = gun.fire(_build_shot_at(supplier, "", 0, stream=False, count=200)).median
        mine = gun.fire(_build_shot_at(ours.port, key, 0, stream=False, count=200)).median - alone
        theirs = gun.fire(_build_shot_at(port, other, 0, stream=False, count=200)).median - alone
        yield Row("gateway, 1 connection: median wait added, of LiteLLM's", mine / theirs, 1 / 12)
        alone = gun.fire(_build_shot_at(supplier, "", 0, stream=True, count=50)).first
        mine = gun.fire(_build_shot_at(ours.port, key, 0, stream=True, count=50)).first - alone
        theirs = gun.fire(_build_shot_at(port, other, 0, stream=True, count=50)).first - alone
        yield Row("gateway, 1 stream: wait added to the first token, of LiteLLM's",
                  mine / theirs, 1 / 12)  # fmt: skip
        yield Row("gateway: resident memory, of LiteLLM's",
                  ours.get_resident() / read_resident(process.pid), 0.25)  # fmt: skip
        yield Row("gateway: start to first answer, of LiteLLM's", ours.start_seconds / took, 0.1)


@contextmanager
def _running_litellm(
    folder: str, supplier: int
) -> "Iterator[tuple[int, str, subprocess.Popen[bytes], float]]":
    port, key, config = (
        find_free_port(),
        f"sk-{secrets.token_hex(24)}",
        join(folder, "litellm.yaml"),
    )
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
        Server.wait_for_answer(process, port, encode_request("GET", "/health/liveliness"), log.name)
        yield port, key, process, time.perf_counter() - began
    finally:
        process.kill()
        process.wait()


def start_supplier(folder: str) -> Server:
    """Start the supplier that responds at once."""
    port = find_free_port()
    probe = _encode_post("", build_chat_body(stream=False))
    return Server(["-m", "tests.benchmarks.bare_supplier", str(port)], port, probe,
                  join(folder, "supplier.log"))  # fmt: skip


def start_bare_relay(folder: str, supplier: int) -> Server:
    """Start the least that a gateway can do."""
    port, to = find_free_port(), f"http://127.0.0.1:{supplier}"
    command = ["-m", "tests.benchmarks.bare_relay", str(port), to]
    return Server(command, port, encode_request("GET", "/"), join(folder, "relay.log"))


def _start_gateway(folder: str, supplier: int, *, masking: bool) -> tuple[Server, str]:
    layout, key = write_gateway(folder, supplier, masking=masking)
    return start_daemon(layout), key


def write_gateway(
    folder: str, supplier: int, *, masking: bool, synced: bool = False
) -> tuple[Layout, str]:
    """Write the files of a gateway with one channel; return its folders, and an access key."""
    layout = Layout(join(folder, "state"), join(folder, "config"))
    for path in (layout.state, layout.config):
        os.makedirs(path, mode=0o700)
    channel = {"name": "fast", "dialects": ["openai-chat"], "local": True, "key": "sk-0123456789"}
    model = {"name": "fast", "routes": [{"channel": "fast"}], "prices": {"input": 1, "output": 2}}
    _write(layout.channels, {"channels": [{**channel, "url": f"http://127.0.0.1:{supplier}"}]})
    _write(layout.models, {"proxy": [model]})
    _write(layout.gateway_settings, {"mask_secrets": masking, "sync_ledger": synced})
    LicenceFile(layout).install_own(LONG_AGO)
    key, kept = issue("benchmark", LONG_AGO)
    AccessKeyFile(layout).add(kept)
    return layout, key


def _write(path: str, content: dict[str, Any]) -> None:
    with open(path, "w") as file:
        json.dump(content, file)  # which is YAML
    os.chmod(path, 0o600)


def _build_shot(server: Server, key: str, seconds: float, *, stream: bool) -> Shot:
    return _build_shot_at(server.port, key, seconds, stream=stream, connections=CONNECTIONS)


def build_single_shot(port: int, key: str, count: int, *, stream: bool) -> Shot:
    """Build so many requests over one connection, one at a time."""
    return _build_shot_at(port, key, 0, stream=stream, count=count)


def _build_shot_at(
    port: int,
    key: str,
    seconds: float,
    *,
    stream: bool,
    connections: int = CONNECTIONS,
    count: int = 0,
) -> Shot:
    asked = _encode_post(key, build_chat_body(stream=stream))
    return Shot(port, [asked], connections=1 if count else connections, seconds=seconds,
                count=count)  # fmt: skip


def build_chat_body(*, stream: bool) -> dict[str, Any]:
    """Return a request with a prompt of 1 KB."""
    said = {"model": "fast", "messages": [{"role": "user", "content": "hello " * 150}]}
    streamed = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return {**said, "max_tokens": 100, **streamed}


def _build_conversation(number: int) -> dict[str, Any]:
    with open(__file__) as file:
        text = file.read()[:8000]
    messages = [
        {"role": "assistant" if at % 2 else "user", "content": f"{at} {text}"} for at in range(50)
    ]
    last = {"role": "user", "content": f"{number} {text[:2000]}"}
    return {"model": "fast", "messages": [*messages, last], "max_tokens": 100}


def _encode_post(key: str, said: dict[str, Any], more: str = "") -> bytes:
    body = json.dumps(said).encode()
    head = encode_request("POST", "/v1/chat/completions", body=body).partition(b"\r\n\r\n")[0]
    return b"%b\r\nAuthorization: Bearer %b\r\n%b\r\n%b" % (head, key.encode(), more.encode(), body)
