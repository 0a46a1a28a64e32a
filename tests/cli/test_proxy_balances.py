"""The command that shows balances, on real files and a supplier on loopback."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agentd.cli.main import main
from tests.supplier.conftest import supplier
from tests.supplier.supplier import Supplier

__all__ = ["supplier"]

BALANCE = ["proxy", "channel", "balance"]
ADD = ["proxy", "channel", "add"]
KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, supplier: Supplier) -> Path:
    """A folder with a channel whose supplier tells its balance, and one whose does not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    monkeypatch.setenv("SUPPLIER_KEY", KEY)
    common = ["--dialect", "openai-chat", "--local", "--url", f"{supplier.url}/v1"]
    common += ["--key", "env:SUPPLIER_KEY"]
    assert main([*ADD, "deep", *common, "--balance", "deepseek", "--low-balance", "5"]) == 0
    assert main([*ADD, "silent", *common]) == 0
    tell(supplier, "4.20")
    return tmp_path


def tell(supplier: Supplier, amount: str) -> None:
    told: Any = {"balance_infos": [{"currency": "USD", "total_balance": amount}]}
    supplier.documents["/user/balance"] = told


def test_balances_of_all_who_tell_them_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(BALANCE) == 0
    assert re.fullmatch(r"deep +4\.20 USD +below 5\n", capsys.readouterr().out)
    assert main([*BALANCE, "deep", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["channel"], row["amount"], row["currency"], row["low"]) == (
        "deep",
        4.2,
        "USD",
        True,
    )


def test_what_cannot_be_read_is_told_without_the_key(
    capsys: pytest.CaptureFixture[str], supplier: Supplier
) -> None:
    supplier.documents["/user/balance"] = (401, {"error": KEY})
    assert main([*BALANCE, "deep"]) == 1
    said = capsys.readouterr()
    assert "does not accept its key" in said.out
    assert "Not every balance could be read" in said.err
    assert main([*BALANCE, "silent"]) == 2
    assert "not known to report its balance" in capsys.readouterr().err
    assert main([*BALANCE, "depe"]) == 1
    assert '"deep"' in capsys.readouterr().err
    assert KEY not in said.out + said.err


def test_what_is_no_amount_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("much", "-1", "NaN"):
        added = [*ADD, "x", "--dialect", "anthropic", "--url", "https://a.example", "--no-key"]
        assert main([*added, f"--low-balance={wrong}"]) == 2
        assert "is not an amount" in capsys.readouterr().err
