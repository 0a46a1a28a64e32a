"""The commands for channels and models of the gateway, on real files."""

import io
import json
import os
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.cli.main import main
from agentd.gateway.channels import store as channels_store
from agentd.gateway.models import store as proxy_models
from agentd.llm.endpoint import ChannelTransport
from agentd.models import store as models_store
from agentd.models.gateway_model import GatewayModel, ModelRoute
from agentd.storage.layout import Layout

LAYOUT = Layout("state", "config")
ADD = ["proxy", "channel", "add", "acme", "--dialect", "anthropic", "--url", "https://acme.example"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("AGENT", "XDG_", "STATE_DIR", "CONFIGURATION_DIR")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AGENTD_STATE", "state")
    monkeypatch.setenv("AGENTD_CONFIG", "config")
    return tmp_path


@pytest.fixture
def typed(monkeypatch):
    """Have this come in by a pipe."""

    def type_(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return type_


def test_a_channel_is_added_with_a_key_that_is_piped_and_never_shown(typed, capsys, folder):
    typed("sk-canary-0123456789\n")
    assert main([*ADD, "--dialect", "openai-chat"]) == 0
    acme = channels_store.load(LAYOUT)["acme"]
    assert acme.key == "sk-canary-0123456789"
    assert acme.dialects == ("anthropic", "openai-chat")
    assert "transport" not in (folder / "config" / "channels.yml").read_text()
    assert (folder / "config" / "channels.yml").stat().st_mode & 0o777 == 0o600
    assert main(["proxy", "channel", "list"]) == 0
    assert main(["proxy", "channel", "list", "--json"]) == 0
    result = capsys.readouterr()
    assert "canary" not in result.out + result.err
    assert "acme: on, https://acme.example (anthropic, openai-chat), key ****6789" in result.out


def test_a_key_is_asked_for_unseen_at_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: "sk-typed")
    assert main(ADD) == 0
    assert channels_store.load(LAYOUT)["acme"].key == "sk-typed"


def test_several_keys_may_be_named_and_are_listed(capsys):
    assert main([*ADD, "--key", "env:ONE", "--key", "file:~/two"]) == 0
    acme = channels_store.load(LAYOUT)["acme"]
    assert (acme.key, acme.keys) == ("env:ONE", ("file:~/two",))
    assert main(["proxy", "channel", "list"]) == 0
    assert "keys env:ONE, file:~/two" in capsys.readouterr().out


def test_why_a_channel_was_disabled_is_listed_until_it_is_enabled(capsys, folder):
    assert main([*ADD, "--key", "env:ONE"]) == 0
    file = folder / "config" / "channels.yml"
    note = "auto_disabled: {at: '2026-01-01T00:00:00.000Z', reason: refused}"
    file.write_text(file.read_text() + f"\n    enabled: false\n    {note}\n")
    assert main(["proxy", "channel", "list"]) == 0
    assert "acme: off since 2026-01-01T00:00:00.000Z (refused)" in capsys.readouterr().out
    assert main(["proxy", "channel", "enable", "acme"]) == 0
    assert "refused" not in file.read_text()
    assert channels_store.load(LAYOUT)["acme"].auto_disabled is None


def test_no_secret_is_taken_from_the_command_line_where_others_see_it(capsys):
    assert main([*ADD, "--key", "sk-canary"]) == 2
    assert main([*ADD, "--transport", "http", "--transport-url", "http://u:canary@h"]) == 2
    assert "canary" not in capsys.readouterr().err
    assert channels_store.load(LAYOUT) == {}


def test_where_secrets_are_may_be_typed(folder):
    options = ["--key", "env:ACME", "--transport", "socks5", "--transport-url", "env:WAY"]
    assert main([*ADD, *options]) == 0
    acme = channels_store.load(LAYOUT)["acme"]
    assert acme.key == "env:ACME"
    assert acme.transport == ChannelTransport("socks5", "env:WAY")


def test_a_channel_is_switched_off_and_on_again():
    main([*ADD, "--no-key"])
    assert main(["proxy", "channel", "disable", "acme"]) == 0
    assert not channels_store.load(LAYOUT)["acme"].enabled
    assert main(["proxy", "channel", "enable", "acme"]) == 0
    assert channels_store.load(LAYOUT)["acme"].enabled


def test_several_channels_are_changed_in_one_write_all_or_none(capsys, folder):
    for name in ("acme", "spare", "third"):
        main([*ADD[:3], name, *ADD[4:], "--no-key"])
    path = Path(LAYOUT.channels)
    written = path.stat().st_mtime_ns, path.stat().st_ino
    assert main(["proxy", "channel", "disable", "acme", "spare", "nothing"]) == 1
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == written
    capsys.readouterr()
    assert main(["proxy", "channel", "disable", "acme", "spare"]) == 0
    assert "channels acme, spare disabled" in capsys.readouterr().err
    assert [one.enabled for one in channels_store.load(LAYOUT).values()] == [False, False, True]
    assert main(["proxy", "channel", "enable", "spare", "acme", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told] == ["spare", "acme"]
    assert all(one.enabled for one in channels_store.load(LAYOUT).values())
    add_model("--through", "third")
    assert main(["proxy", "channel", "remove", "acme", "third"]) == 1
    assert "used by sonnet" in capsys.readouterr().err
    assert len(channels_store.load(LAYOUT)) == 3
    assert main(["proxy", "channel", "remove", "acme", "spare"]) == 0
    assert list(channels_store.load(LAYOUT)) == ["third"]


def test_what_cannot_be_is_reported_and_nothing_is_written(capsys):
    main([*ADD, "--no-key"])
    assert main([*ADD, "--no-key"]) == 1
    assert "already" in capsys.readouterr().err
    assert main(["proxy", "channel", "remove", "acne"]) == 1
    assert 'did you mean "acme"?' in capsys.readouterr().err
    inside = [*ADD[:3], "here", *ADD[4:-1], "http://127.0.0.1:1", "--no-key"]
    assert main(inside) == 2
    assert (
        "leads to this machine or its network; allow it with local: true (--local)"
        in capsys.readouterr().err
    )
    assert main([*ADD, "--no-key", "--transport", "socks5"]) == 2
    assert "--transport and --transport-url need each other" in capsys.readouterr().err
    assert list(channels_store.load(LAYOUT)) == ["acme"]


def add_model(*options: str) -> int:
    return main(["proxy", "model", "add", "sonnet", *options])


def test_a_model_is_added_with_its_ways_in_their_order_and_its_prices(capsys):
    main([*ADD, "--no-key"])
    capsys.readouterr()
    price = ["--input", "3", "--output", "15", "--cache-read", "0.30", "--max-output", "64000"]
    assert main([*ADD[:3], "spare", *ADD[4:], "--no-key"]) == 0
    assert add_model("--through", "acme=claude/x:1", "--through", "spare", *price) == 0
    (sonnet,) = models_store.load(LAYOUT).proxy
    assert sonnet.routes == (
        ModelRoute(channel="acme", model="claude/x:1"),
        ModelRoute(channel="spare", priority=1),
    )
    assert sonnet.prices is not None
    assert sonnet.prices.cache_read == Decimal("0.30")
    assert sonnet.max_output == 64000
    capsys.readouterr()
    assert main(["proxy", "model", "list"]) == 0
    assert "sonnet: on, acme=claude/x:1, spare=sonnet (3/15)" in capsys.readouterr().out
    assert main(["proxy", "model", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "sonnet"


def test_a_model_through_a_channel_that_does_not_exist_is_refused_and_nothing_is_written(
    capsys, folder
):
    """The API refuses it, too."""
    assert add_model("--through", "acme") == 2
    result = capsys.readouterr().err
    assert 'There is no channel "acme"; there are none yet' in result
    assert "Add the channel first" in result
    main([*ADD, "--no-key"])
    assert add_model("--through", "acme", "--through", "acne") == 2
    assert 'There is no channel "acne"; did you mean "acme"?' in capsys.readouterr().err
    assert not (folder / "config" / "models.yml").exists()


def test_a_model_without_a_price_is_added_and_what_becomes_of_it_is_reported(capsys):
    main([*ADD, "--no-key"])
    assert add_model("--through", "acme") == 0
    assert "has no price" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("price", "result"),
    [
        (["--input", "3"], "both --input and --output"),
        (["--input", "x", "--output", "1"], "--input: 'x' is not a number"),
        (["--input", "-1", "--output", "1"], "not a price"),
        (["--input", "NaN", "--output", "1"], "not a price"),
    ],
)
def test_what_is_no_price_is_reported(capsys, price, result):
    assert add_model("--through", "acme", *price) == 2
    assert result in capsys.readouterr().err
    assert models_store.load(LAYOUT).proxy == ()


def test_a_channel_that_a_model_needs_is_not_removed(capsys):
    main([*ADD, "--no-key"])
    add_model("--through", "acme")
    assert main(["proxy", "channel", "remove", "acme"]) == 1
    assert "used by sonnet" in capsys.readouterr().err
    assert main(["proxy", "model", "remove", "sonnet"]) == 0
    assert main(["proxy", "channel", "remove", "acme", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "acme"
    assert channels_store.load(LAYOUT) == {}
    assert main(["proxy", "channel", "list"]) == 0
    assert "no channels" in capsys.readouterr().err


def test_a_model_that_is_a_fallback_is_not_removed(capsys):
    main([*ADD, "--no-key"])
    add_model("--through", "acme")
    named = GatewayModel(
        name="other", routes=(ModelRoute(channel="acme"),), content_fallbacks=("sonnet",)
    )
    proxy_models.open_entries(LAYOUT).add(named)
    assert main(["proxy", "model", "remove", "sonnet"]) == 1
    assert "fallback of other" in capsys.readouterr().err
    assert main(["proxy", "model", "remove", "other"]) == 0
    assert main(["proxy", "model", "remove", "sonnet"]) == 0


def test_a_channel_is_added_with_headers_and_parameters(capsys):
    given = ["--header", "X-Team: red", "--parameters", '{"default": {"temperature": 0.2}}']
    assert main([*ADD, "--no-key", *given]) == 0
    acme = channels_store.load(LAYOUT)["acme"]
    assert acme.headers == {"X-Team": "red"}
    assert acme.parameters and acme.parameters.default == {"temperature": 0.2}


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (["--header", "Authorization: Bearer canary-0123456789"], "visible to other users"),
        (["--header", "nothing"], "--header: expected NAME:VALUE"),
        (["--header", "X-Team: a", "--header", "x-team: b"], "--header: x-team is given twice"),
        (["--parameters", "nothing"], "--parameters: "),
        (["--parameters", '{"others": 1}'], "others"),
        (["--parameters", '{"set": {"model": "x"}}'], "agentd sets it"),
    ],
)
def test_headers_and_parameters_that_cannot_be_sent_are_refused(capsys, given, result):
    assert main([*ADD, "--no-key", *given]) == 2
    said = capsys.readouterr().err
    assert result in said and "canary" not in said
    assert channels_store.load(LAYOUT) == {}


def test_a_model_is_changed_field_by_field(capsys):
    main([*ADD, "--no-key"])
    add_model("--through", "acme", "--input", "3", "--output", "15")
    main(["proxy", "model", "add", "other", "--through", "acme"])
    change = ["proxy", "model", "change", "sonnet"]

    def get_model() -> GatewayModel:
        return models_store.load(LAYOUT).proxy[0]

    before = get_model()
    assert main(change) == 2
    assert main([*change, "--output", "12", "--context", "200000"]) == 0
    changed = get_model()
    assert (changed.prices.input, changed.prices.output) == (3, 12)
    assert changed.context == 200_000 and changed.routes == before.routes
    assert main([*change, "--fallback", "other", "--parameters", '{"set": {"top_p": 0.5}}']) == 0
    assert main([*change, "--content-fallback", "other", "--header", "anthropic-beta: x"]) == 0
    changed = get_model()
    assert changed.fallbacks == changed.content_fallbacks == ("other",)
    assert changed.parameters.set == {"top_p": 0.5}
    assert changed.headers == {"anthropic-beta": "x"}
    none = ["--fallback", "none", "--parameters", "none", "--header", "none"]
    assert main([*change, *none]) == 0
    changed = get_model()
    assert (changed.fallbacks, changed.parameters, changed.headers) == ((), None, {})
    assert main([*change, "--fallback", "of-nobody"]) == 2
    assert main([*change, "--through", "none"]) == 2
    assert get_model() == changed


def test_a_model_is_disabled_and_enabled(capsys):
    main([*ADD, "--no-key"])
    add_model("--through", "acme")
    assert main(["proxy", "model", "disable", "sonnet"]) == 0
    assert not models_store.load(LAYOUT).proxy[0].enabled
    assert main(["proxy", "model", "enable", "sonnet", "--json"]) == 0
    assert models_store.load(LAYOUT).proxy[0].enabled
