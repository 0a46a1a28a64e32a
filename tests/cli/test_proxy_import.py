"""``agentd proxy import``, with a real daemon that the models are then called through."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from agentd.cli.main import main
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY, setup, start_gateway, supplier
from tests.gateway.catalogue.samples import write_catalogue
from tests.gateway.conftest import GatewaySetup
from tests.gateway.migration.test_litellm import CONFIG, ENVIRON
from tests.gateway.migration.test_new_api import ROW
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import Client, Serving

__all__ = ["setup", "start_gateway", "supplier"]

Import = Callable[..., int]


@pytest.fixture
def daemon(start_gateway: Callable[..., Serving]) -> Serving:
    return start_gateway(environ={"PROXY_APP_HASH": HASH})


@pytest.fixture
def manager(daemon: Serving) -> Client:
    return daemon.client(MANAGEMENT_KEY)


@pytest.fixture
def import_file(
    daemon: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """A function that imports a file with this content, and returns the exit code."""

    def import_(name: str, content: str, *words: str, key: str = MANAGEMENT_KEY) -> int:
        path = tmp_path / name
        path.write_text(content)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{key}\n".encode())))
        return main(["--state", daemon.layout.state, "proxy", "import", str(path), *words])

    return import_


@pytest.fixture
def config(setup: GatewaySetup, monkeypatch: pytest.MonkeyPatch) -> str:
    """The usual configuration, whose own gateway is the scripted supplier."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DEEPSEEK_API_KEY", "")
    return CONFIG.read_text().replace("https://llm.example.org/v1", setup.supplier.url)


def list_names(manager: Client, resource: str) -> list[str]:
    return [one["name"] for one in manager.get(f"/api/agent/{resource}?limit=200")["items"]]


def test_a_litellm_configuration_is_moved_and_its_models_are_called(
    setup: GatewaySetup,
    import_file: Import,
    manager: Client,
    config: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = [list_names(manager, "channels"), list_names(manager, "models")]
    assert import_file("config.yaml", config, "--dry-run") == 1
    assert [list_names(manager, "channels"), list_names(manager, "models")] == before
    assert "nothing was changed" in capsys.readouterr().err
    assert import_file("config.yaml", config) == 1  # for what it could not take
    told = capsys.readouterr()
    assert "canary" not in told.out + told.err
    assert "model gpt-4o: openai=gpt-4o, azure=gpt-4o-eu (2.5/10)" in told.out
    line = config[: config.index("master_key")].count("\n") + 1
    assert f"config.yaml:{line}: general_settings.master_key: " in told.err
    assert "team-gateway" in list_names(manager, "models")
    setup.supplier.script(Answer((Say("moved"),)))
    url = f"{manager.url}/v1"
    with openai.OpenAI(base_url=url, api_key=setup.add_key(), max_retries=0) as caller:
        reply = caller.chat.completions.create(
            model="team-gateway", messages=[{"role": "user", "content": "hi"}]
        )
    assert reply.choices[0].message.content == "moved"
    called = setup.supplier.requests[-1]
    assert called.headers["authorization"] == "Bearer sk-canary-team-0123456789abcdef"
    assert called.headers["x-team"] == "red"


UNPRICED = """
model_list:
- model_name: unpriced
  litellm_params: {model: openai/scripted-large, api_base: "SUPPLIER/v1", api_key: sk-0123456789}
- model_name: unlisted
  litellm_params: {model: openai/of-nobody, api_base: "SUPPLIER/v1", api_key: sk-0123456789}
"""


def test_models_without_prices_are_called_at_those_of_the_catalogue(
    setup: GatewaySetup, import_file: Import, manager: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default a model whose price is unknown is refused."""
    write_catalogue(setup.layout, re.escape(setup.supplier.url))
    config = UNPRICED.replace("SUPPLIER", setup.supplier.url)
    setup.supplier.answer_always(Answer((Say("moved"),), Tokens(input=1000, output=100)))
    assert import_file("config.yaml", config, "--dry-run") == 0
    assert "unpriced" not in list_names(manager, "models")
    assert import_file("config.yaml", config) == 0
    told = capsys.readouterr()
    assert "unpriced: openai=scripted-large (the catalogue's price)" in told.out
    assert "Models without a price" in told.err  # of-nobody
    url = f"{manager.url}/v1"
    with openai.OpenAI(base_url=url, api_key=setup.add_key(), max_retries=0) as caller:
        request: Any = {"messages": [{"role": "user", "content": "hi"}]}
        reply = caller.chat.completions.create(model="unpriced", **request)
        assert reply.choices[0].message.content == "moved"
        with pytest.raises(openai.APIStatusError, match="price"):
            caller.chat.completions.create(model="unlisted", **request)
    (record,) = setup.wait_for_records(2)[:1]
    assert str(record.cost).rstrip("0") == "0.003"  # 1000 tokens at 2 and 100 at 10 USD per million


def test_prices_are_left_out_on_request(
    setup: GatewaySetup, import_file: Import, manager: Client
) -> None:
    write_catalogue(setup.layout, re.escape(setup.supplier.url))
    config = UNPRICED.replace("SUPPLIER", setup.supplier.url)
    assert import_file("config.yaml", config, "--no-catalogue-prices") == 0
    assert manager.get("/api/agent/models/unpriced")["prices"] is None


def test_the_import_is_one_change_and_the_next_creates_nothing(
    import_file: Import, manager: Client, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [list_names(manager, "channels"), list_names(manager, "models")]
    assert import_file("config.yaml", config, "--json") == 1
    first = json.loads(capsys.readouterr().out)
    assert import_file("config.yaml", config, "--json") == 1
    second = json.loads(capsys.readouterr().out)
    assert (second["channels"], second["models"], second["change"]) == ([], [], None)
    existing = [*first["channels"], *first["models"]]
    existing.remove("gemini-2")  # found again by its address: there was a channel "gemini"
    told = " ".join(one["place"] for one in second["notTaken"])
    assert [name for name in existing if f'"{name}"' not in told] == []
    undo = manager.send("POST", f"/api/agent/changes/{first['change']}/undo")
    assert undo.status == 200, undo.body
    assert [list_names(manager, "channels"), list_names(manager, "models")] == before


def test_what_can_be_taken_whole_is_done_with_exit_code_0(
    import_file: Import, manager: Client
) -> None:
    assert import_file("channels.json", json.dumps({"data": {"items": [ROW]}})) == 0
    assert manager.get("/api/agent/channels/OpenAI-main")["models"] == ["gpt-4o", "gpt-4o-mini"]
    rows = "\n".join(json.dumps(ROW | {"name": f"c{number}"}) for number in range(2))
    assert import_file("rows.jsonl", rows.replace("gpt-", "other-"), "--from", "new-api") == 0
    assert len(manager.get("/api/agent/models/other-4o")["routes"]) == 2


@pytest.mark.parametrize(
    ("content", "words", "code", "says"),
    [
        ("", (), 2, "neither"),
        ("a: 1", (), 2, "neither"),
        ("[]", ("--from", "litellm"), 2, "neither"),
        ("model_list: []", ("--from", "new-api"), 2, "no list of channels"),
        ("a: &a [*a]", (), 2, "alias"),
        ("model_list: []", (), 0, "nothing new"),
        ("model_list: 5", (), 1, "expected a list"),
        ("x" * 3_000_000, (), 1, "larger"),
    ],
)
def test_what_is_no_configuration_is_told(
    import_file: Import,
    capsys: pytest.CaptureFixture[str],
    content: str,
    words: Any,
    code: int,
    says: str,
) -> None:
    assert import_file("file", content, *words) == code
    assert says in capsys.readouterr().err


def test_a_wrong_key_changes_nothing(
    import_file: Import, manager: Client, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_file("config.yaml", config, key="wrong") == 1
    assert "PROXY_APP_HASH" in capsys.readouterr().err
    assert "team-gateway" not in list_names(manager, "models")


def test_budgets_are_moved_and_those_that_exist_stay(
    import_file: Import, manager: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    manager.post("/api/agent/budgets", {"name": "ann", "owner": "ann", "limits": {"day": 1}})
    users = [{"username": name, "quota": 1_000_000, "status": 1} for name in ("ann", "bob")]
    assert import_file("users.json", json.dumps({"data": {"items": users}})) == 1
    told = capsys.readouterr()
    assert "budget bob: owner bob, total 2" in told.out
    assert 'budget "ann"' in told.err
    assert "and 1 budgets as change" in told.err
    assert manager.get("/api/agent/budgets/bob")["limits"]["total"] == 2
    assert manager.get("/api/agent/budgets/ann")["limits"] == {
        **manager.get("/api/agent/budgets/bob")["limits"],
        "day": 1,
        "total": None,
    }
