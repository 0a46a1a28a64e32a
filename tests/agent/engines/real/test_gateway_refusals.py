"""The real Codex as a client of the gateway, which refuses its requests."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.engines.real.programs import (
    CODEX,
    build_codex_environment,
    find_missing,
    make_place,
)
from tests.gateway.conftest import GatewaySetup, setup, start_gateway, supplier
from tests.support.daemon import Serving

__all__ = ["setup", "start_gateway", "supplier"]

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(bool(find_missing()), reason=find_missing()),
]


def run_codex(folder: Path, url: str, key: str) -> str:
    """Run a turn of Codex that fails; return what it tells of that."""
    where = make_place(folder)
    settings = {
        "model": "by-responses",
        "model_provider": "agentd",
        "model_providers.agentd.name": "agentd",
        "model_providers.agentd.base_url": f"{url}/v1",
        "model_providers.agentd.wire_api": "responses",
        "model_providers.agentd.env_key": "ACCESS",
        "model_providers.agentd.request_max_retries": 0,
        "model_providers.agentd.stream_max_retries": 1,
    }
    given = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    done = subprocess.run(
        [str(CODEX), "exec", "--json", "--disable", "plugins", "Hello."]
        + [word for one in given for word in ("-c", one)],
        env={**build_codex_environment(where), "ACCESS": key},
        cwd=where.workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=False,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["type"] == "turn.failed"
    message: str = told["error"]["message"]
    return message


@pytest.mark.parametrize(
    ("window", "words"),
    [("day", "hit your usage limit. Try again at"), ("total", "Quota exceeded.")],
)
def test_a_spent_limit_ends_the_turn_at_once_and_tells_when_it_resets(
    setup: GatewaySetup,
    start_gateway: Callable[..., Serving],
    tmp_path: Path,
    window: str,
    words: str,
) -> None:
    key = setup.add_key(limits={window: "0.001"})
    assert words in run_codex(tmp_path / "codex", start_gateway().url, key)
    assert len(setup.read_records()) == 1, "it was not tried again"


def test_the_reason_is_told_where_every_channel_is_disabled(
    setup: GatewaySetup, start_gateway: Callable[..., Serving], tmp_path: Path
) -> None:
    for channel in setup.channels:
        channel["enabled"] = False
    key = setup.add_key()
    told = run_codex(tmp_path / "codex", start_gateway().url, key)
    assert 'Every channel of the model "by-responses" is disabled.' in told
