"""The command for what a supplier offers, on real files and a supplier on loopback."""

import json
import os
import re
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.models import store as models_store
from agentd.storage.layout import Layout
from tests.gateway.catalogue.samples import write_catalogue
from tests.supplier.conftest import supplier
from tests.supplier.supplier import Supplier

__all__ = ["supplier"]

LAYOUT = Layout("state", "config")
MODELS = ["proxy", "channel", "models", "here"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supplier: Supplier) -> Path:
    """A folder with a channel to the supplier, and a catalogue that knows it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    added = ["proxy", "channel", "add", "here", "--dialect", "anthropic", "--local"]
    monkeypatch.setenv("SUPPLIER_KEY", "sk-canary-0123456789")
    assert main([*added, "--url", supplier.url, "--key", "env:SUPPLIER_KEY"]) == 0
    write_catalogue(LAYOUT, re.escape(supplier.url))
    return tmp_path


def test_what_the_supplier_offers_is_listed_and_created(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(MODELS) == 0
    shown = capsys.readouterr().out
    assert re.search(r"scripted-large .*2/10", shown)
    assert main([*MODELS, "--create", "scripted-large=big", "--dry-run"]) == 0
    assert "model big would be created (2/10)" in capsys.readouterr().err
    assert models_store.load(LAYOUT).proxy == ()
    assert main([*MODELS, "--create", "scripted-large=big", "--create", "scripted-small"]) == 0
    big, small = models_store.load(LAYOUT).proxy
    assert (big.name, big.routes[0].channel, big.routes[0].model) == (
        "big",
        "here",
        "scripted-large",
    )
    assert small.prices and small.prices.output == 1
    capsys.readouterr()
    assert main([*MODELS, "--json"]) == 0
    assert [one["here"] for one in json.loads(capsys.readouterr().out)] == ["big", "scripted-small"]


def test_all_are_created_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MODELS, "--create", "scripted-large", "--create", "scripted-smal"]) == 1
    assert 'did you mean "scripted-small"?' in capsys.readouterr().err
    assert models_store.load(LAYOUT).proxy == ()


def test_a_supplier_that_refuses_is_told_without_the_key(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    file = folder / "config" / "channels.yml"
    file.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", file.read_text()))
    assert main(MODELS) == 1
    said = capsys.readouterr()
    assert "cannot be listed" in said.err
    assert "canary" not in said.out + said.err
