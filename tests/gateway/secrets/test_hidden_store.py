"""Masked secrets are known after a restart, and are nowhere stored in the clear."""

import os
from base64 import b64encode
from pathlib import Path

import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import ConfigError
from agentd.gateway.secrets import hidden_store
from agentd.gateway.secrets.hidden_store import DAYS, HiddenSecretStore
from agentd.gateway.secrets.known_values import MOST, KnownSecret
from agentd.storage.layout import Layout

SEED = bytes(range(32))
SECRETS = [
    KnownSecret("one", "github", "ghp_0a1b2c3d4e5f"),
    KnownSecret("other", "env-value", 'tr0ub"\\\ud800é\n4dor'),
]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "state"), str(tmp_path / "config"))


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


def test_what_is_kept_is_read_again_and_nobody_reads_it_without_the_seed(layout, clock):
    kept = HiddenSecretStore(layout, SEED, clock)
    assert kept.load(clock.now()) == []
    kept.append(SECRETS[:1])
    kept.append(SECRETS[1:])
    assert HiddenSecretStore(layout, SEED, clock).load(clock.now()) == SECRETS
    data = Path(layout.masked_secrets).read_bytes()
    for secret in SECRETS:
        value = secret.value.encode("utf-8", "surrogatepass")
        assert value not in data
        assert b64encode(value).rstrip(b"=") not in data
        assert secret.value not in repr(secret)
    assert HiddenSecretStore(layout, bytes(32), clock).load(clock.now()) == []
    assert os.stat(layout.masked_secrets).st_mode & 0o777 == 0o600


def test_damage_costs_only_the_lines_that_it_hits(layout, clock):
    kept = HiddenSecretStore(layout, SEED, clock)
    kept.append(SECRETS)
    path = Path(layout.masked_secrets)
    first, second = path.read_bytes().splitlines()
    for damaged in (b"", first[:-20], first.replace(b'"one"', b'"two"'), b"\xff\x00", b"[]"):
        path.write_bytes(damaged + b"\n" + second)
        kept.append(SECRETS[:1])
        assert kept.load(clock.now()) == [SECRETS[1], SECRETS[0]]


def test_a_file_that_others_can_read_is_not_used(layout, clock):
    kept = HiddenSecretStore(layout, SEED, clock)
    kept.append(SECRETS)
    Path(layout.masked_secrets).chmod(0o644)
    with pytest.raises(ConfigError):
        kept.load(clock.now())


def test_what_was_hidden_long_ago_is_forgotten(layout, clock):
    kept = HiddenSecretStore(layout, SEED, clock)
    kept.append(SECRETS[:1])
    clock.move(DAYS * 86400 - 60)
    kept.append(SECRETS[1:])
    assert len(kept.load(clock.now())) == 2
    clock.move(120)
    assert kept.load(clock.now()) == SECRETS[1:]


def test_the_file_stays_within_its_size_and_keeps_the_latest_of_each_key(
    layout, clock, monkeypatch
):
    monkeypatch.setattr(hidden_store, "LIMIT", 600_000)
    kept = HiddenSecretStore(layout, SEED, clock)
    kept.append(SECRETS[1:])
    for turn in range(30):
        kept.append(
            [KnownSecret("one", "github", f"{turn} {number}") for number in range(MOST // 4)]
        )
        assert os.path.getsize(layout.masked_secrets) <= 600_000
    values = [secret.value for secret in kept.load(clock.now()) if secret.key == "one"]
    assert len(values) <= MOST
    assert values[-1] == f"29 {MOST // 4 - 1}"
    assert SECRETS[1] in kept.load(clock.now())
