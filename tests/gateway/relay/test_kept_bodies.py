"""Bodies are kept without secrets, whatever is hidden from suppliers."""

import json
from pathlib import Path

import pytest

from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.gateway.secrets.samples import TOKENS
from tests.supplier.steps import Answer, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import Serving, until

GITHUB, STRIPE = TOKENS["github"], TOKENS["stripe"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("masking", [False, True])
def test_no_secret_is_in_a_kept_body(
    tmp_path: Path, supplier: Supplier, masking: bool, stream: bool
) -> None:
    setup = GatewaySetup(tmp_path, supplier)
    setup.settings["mask_secrets"] = masking
    setup.write()
    rules = {"format": 1, "built_in": {"stripe": {"mode": "report"}}}
    Path(setup.layout.secret_rules).write_text(json.dumps(rules))
    Path(setup.layout.secret_rules).chmod(0o600)
    key = setup.add_key(keep_bodies=True)
    with Serving(tmp_path) as daemon:
        supplier.script(Answer((Say(f"you said {GITHUB} and {STRIPE}, well"),)))
        text = f"a {GITHUB} and {STRIPE}"
        result = Caller(daemon.port, key).ask("openai-chat", "by-chat", text=text, stream=stream)
        assert result.text() == f"you said {GITHUB} and {STRIPE}, well"
        sent = json.dumps(supplier.requests[-1].body)
        assert STRIPE in sent, "it is only reported"
        assert (GITHUB in sent) is not masking
        (kept,) = until(lambda: list(Path(setup.layout.bodies).rglob("*.json")))
        content = until(lambda: data if (data := kept.read_bytes()).endswith(b"\n") else None)
    assert b"SECRET_github_" in content
    assert b"SECRET_stripe_" in content
    assert GITHUB.encode() not in content
    assert STRIPE.encode() not in content
