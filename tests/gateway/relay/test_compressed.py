"""Requests may come compressed; how large they become is bounded, and told in the dialect."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator

import pytest

from agentd.llm.dialects.value_count import MAX_PARTS
from agentd.llm.endpoint import ChannelDialect
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import (
    CHANNELS,
    CallResult,
    RunningGateway,
    build_call,
    every_dialect,
    read_answer,
    running_gateway,
)
from tests.supplier.steps import Say
from tests.support.processor import busy_for_less_than

MOST = 64 * 1024


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    def prepare(setup: GatewaySetup) -> None:
        setup.settings["max_body"] = MOST

    with running_gateway(tmp_path_factory.mktemp("gateway"), prepare) as made:
        yield made


@pytest.fixture(scope="module")
def spacious(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that takes bodies as large as the settings' default."""
    with running_gateway(tmp_path_factory.mktemp("spacious")) as made:
        yield made


def send_compressed(
    gateway: RunningGateway, dialect: ChannelDialect, data: bytes, coding: str
) -> CallResult:
    caller = gateway.add_caller()
    path, _ = build_call(dialect, f"by-{CHANNELS[dialect]}")
    with caller.connect() as line:
        line.sendall(caller.build_request(path, data, f"Content-Encoding: {coding}"))
        return read_answer(line, dialect)


def build_body(dialect: ChannelDialect, text: str = "hello") -> bytes:
    return json.dumps(build_call(dialect, f"by-{CHANNELS[dialect]}", text=text)[1]).encode()


def _compress_in_two_members(data: bytes) -> bytes:
    return gzip.compress(data[:9]) + gzip.compress(data[9:])


@every_dialect
@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", _compress_in_two_members),
        ("deflate", zlib.compress),
        ("identity", bytes),
    ],
)
def test_a_compressed_request_is_taken_as_any_other(
    gateway: RunningGateway,
    dialect: ChannelDialect,
    coding: str,
    compress: Callable[[bytes], bytes],
) -> None:
    gateway.supplier.script(Say("well"))
    result = send_compressed(
        gateway, dialect, compress(build_body(dialect, "compressed, please")), coding
    )
    assert (result.status, result.text()) == (200, "well")
    assert gateway.supplier.requests[-1].prompt == "compressed, please"
    assert "content-encoding" not in gateway.supplier.requests[-1].headers


@every_dialect
def test_what_becomes_too_large_is_refused_at_the_cost_of_the_limit(
    gateway: RunningGateway, dialect: ChannelDialect
) -> None:
    bomb = gzip.compress(b" " * (48 * 2**20), 9)
    assert len(bomb) < MOST
    with busy_for_less_than(2):
        result = send_compressed(gateway, dialect, bomb, "gzip")
    assert result.status == 413
    assert str(MOST) in result.error()["message"]


@every_dialect
def test_a_small_body_with_millions_of_values_is_refused_before_it_is_decoded(
    spacious: RunningGateway, dialect: ChannelDialect
) -> None:
    whole = build_body(dialect).removesuffix(b"}") + b', "tools": [' + b"[]," * 2**22 + b"[]]}"
    with busy_for_less_than(2):
        result = send_compressed(spacious, dialect, gzip.compress(whole, 9), "gzip")
    assert result.status == 413
    assert str(MAX_PARTS) in result.error()["message"]


@every_dialect
@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", b"{}"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-4]),
        ("gzip", b""),
        ("zstd", b"\x28\xb5\x2f\xfd"),
        ("br", b"\x0b\x01"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0)),
    ],
)
def test_what_cannot_be_decompressed_is_a_bad_request(
    gateway: RunningGateway, dialect: ChannelDialect, coding: str, data: bytes
) -> None:
    result = send_compressed(gateway, dialect, data, coding)
    assert result.status == 400
    assert "decompressed" in result.error()["message"] or f"'{coding}'" in result.error()["message"]
