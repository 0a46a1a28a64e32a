"""The commands of the price catalogue, on real files."""

import json
import os
import sys
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.models import store as models_store
from agentd.storage.layout import Layout
from tests.gateway.catalogue.samples import write_catalogue

LAYOUT = Layout("state", "config")
CHANNEL = ["proxy", "channel", "add", "acme", "--dialect", "anthropic", "--no-key"]
MODEL = ["proxy", "model", "add", "large", "--through", "acme=scripted-large"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    assert main([*CHANNEL, "--url", "https://api.acme.example"]) == 0
    return tmp_path


def test_the_catalogue_is_listed_compared_and_applied(capsys: pytest.CaptureFixture[str]) -> None:
    write_catalogue(LAYOUT)
    assert main([*MODEL, "--input", "3", "--output", "15"]) == 0
    assert main(["proxy", "prices", "list", "LARGE"]) == 0
    shown = capsys.readouterr().out
    assert "scripted-large" in shown
    assert "2/10" in shown
    assert "scripted-small" not in shown
    assert main(["proxy", "prices", "compare"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("3/15", "2/10", "differs"))
    assert main(["proxy", "prices", "apply", "large", "--dry-run"]) == 0
    assert "would cost 2/10" in capsys.readouterr().err
    (model,) = models_store.load(LAYOUT).proxy
    assert model.prices and model.prices.input == 3
    assert main(["proxy", "prices", "apply", "large", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prices"]["input"] == "2"
    (model,) = models_store.load(LAYOUT).proxy
    assert model.prices and (model.prices.input, model.context) == (2, 200_000)


def test_the_catalogues_prices_are_applied_to_several_models_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_catalogue(LAYOUT)
    add = ["proxy", "model", "add"]
    assert main([*MODEL, "--input", "3", "--output", "15"]) == 0
    assert main([*add, "small", "--through", "acme=scripted-small"]) == 0
    assert main([*add, "other", "--through", "acme"]) == 0
    apply = ["proxy", "prices", "apply"]
    assert main(apply) == 2
    capsys.readouterr()

    def list_prices() -> list[str]:
        models = models_store.load(LAYOUT).proxy
        return [str(one.prices.input) if one.prices else "" for one in models]

    assert main([*apply, "--unpriced", "--dry-run"]) == 0
    assert capsys.readouterr().err == "model small would cost 0.5/1 USD per million tokens\n"
    assert list_prices() == ["3", "", ""]
    assert main([*apply, "--unpriced"]) == 0
    assert list_prices() == ["3", "0.5", ""]
    assert main([*apply, "--all"]) == 0
    assert list_prices() == ["2", "0.5", ""]


def test_a_new_model_takes_the_catalogues_prices(capsys: pytest.CaptureFixture[str]) -> None:
    write_catalogue(LAYOUT)
    assert main([*MODEL, "--from-catalogue"]) == 0
    (model,) = models_store.load(LAYOUT).proxy
    assert model.prices and model.prices.output == 10
    unlisted = ["proxy", "model", "add", "other", "--through", "acme", "--from-catalogue"]
    assert main(unlisted) == 1
    assert "does not list" in capsys.readouterr().err
    assert len(models_store.load(LAYOUT).proxy) == 1


def test_without_a_catalogue_it_says_how_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", "prices", "list"]) == 1
    said = capsys.readouterr().err
    assert "agentd proxy prices update" in said
    assert "pip install 'agentd-workstation[prices]'" in said


def test_without_the_library_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert main(["proxy", "prices", "update"]) == 1
    assert "pip install 'agentd-workstation[prices]'" in capsys.readouterr().err


def test_the_catalogue_is_read_from_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("genai_prices", reason="needs: pip install genai-prices")
    assert main(["proxy", "prices", "update", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] > 1000
    assert Path(LAYOUT.price_catalogue).stat().st_mode & 0o777 == 0o600
