"""The real Codex as a client of the gateway, with an access key whose limit is used up."""

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
    where = make_place(tmp_path / "codex")
    settings = {
        "model": "by-responses",
        "model_provider": "agentd",
        "model_providers.agentd.name": "agentd",
        "model_providers.agentd.base_url": f"{start_gateway().url}/v1",
        "model_providers.agentd.wire_api": "responses",
        "model_providers.agentd.env_key": "ACCESS",
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
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert told[-1]["type"] == "turn.failed"
    assert words in told[-1]["error"]["message"]
    assert len(setup.read_records()) == 1, "it was not tried again"
