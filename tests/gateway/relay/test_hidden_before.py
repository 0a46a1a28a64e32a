"""Secrets that were masked for a key are masked and restored after a restart as before."""

import json
from pathlib import Path

from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Answer, Say
from tests.supplier.supplier import Supplier
from tests.support.daemon import Serving

BARE = "tr0ub4dor3"


def test_a_secret_that_only_its_surroundings_reported_is_not_reported_bare_after_a_restart(
    tmp_path: Path, supplier: Supplier
) -> None:
    setup = GatewaySetup(tmp_path, supplier)
    setup.write()
    key = setup.add_key()
    with Serving(tmp_path) as daemon:
        supplier.script(Answer((Say("well"),)))
        caller = Caller(daemon.port, key)
        assert caller.ask("openai-chat", "by-chat", text=f"DB_PASSWORD={BARE}").status == 200
    hidden = json.dumps(supplier.requests[-1].body)
    placeholder = hidden[hidden.index("SECRET_") :].split('"')[0].rstrip("\\")
    with Serving(tmp_path) as daemon:
        caller = Caller(daemon.port, key)
        supplier.script(Answer((Say(f"so it is {placeholder}"),)))
        result = caller.ask("openai-chat", "by-chat", text=f"the tool printed {BARE}")
        assert BARE not in json.dumps(supplier.requests[-1].body)
        assert result.text() == f"so it is {BARE}"
        supplier.script(Answer((Say(f"again {placeholder}"),)))
        body = {"model": "by-responses", "input": "go on", "previous_response_id": "resp_1"}
        result = caller.ask("openai-responses", "by-responses", body=body)
        assert result.text() == f"again {BARE}"
        other = Caller(daemon.port, setup.add_key())
        supplier.script(Answer((Say(f"say {placeholder}"),)))
        result = other.ask("openai-chat", "by-chat", text=f"what is {placeholder}?")
        assert BARE not in result.text(), "it is another key's"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and _contains_secret(path)]


def _contains_secret(path: Path) -> bool:
    return BARE.encode() in path.read_bytes()


def test_a_start_does_without_what_was_hidden_where_that_cannot_be_read(
    tmp_path: Path, supplier: Supplier
) -> None:
    setup = GatewaySetup(tmp_path, supplier)
    setup.write()
    key = setup.add_key()
    path = Path(setup.layout.masked_secrets)
    for broken in (b"\xff\x00 no lines\n" * 10, None):
        path.parent.mkdir(parents=True, exist_ok=True)
        if broken is None:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(broken)
            path.chmod(0o600)
        with Serving(tmp_path) as daemon:
            supplier.script(Answer((Say("well"),)))
            text = f"API_TOKEN={BARE}-{broken is None}"
            result = Caller(daemon.port, key).ask("openai-chat", "by-chat", text=text)
            assert result.status == 200
            assert BARE not in json.dumps(supplier.requests[-1].body)
