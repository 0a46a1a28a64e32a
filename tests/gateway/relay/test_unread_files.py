"""What hides secrets and limits spending is known before the first request, or none is relayed."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller, RunningGateway, running_gateway
from tests.supplier.steps import Answer, Say, Tokens
from tests.support.daemon import until

RULES = "rules: [{id: ticket, regex: 'tkt_[a-z0-9]{20}'}]\n"
TICKET = "tkt_0123456789abcdefghij"
BUDGETS = "budgets: [{name: team, tag: team, limits: {day: 0.001}}]\n"
BROKEN = "nonsense: ]\n"


def write_private(path: str, text: str) -> None:
    """Write a file that nobody else can read."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def build_setup(file: str, **settings: bool) -> Callable[[GatewaySetup], None]:
    """Return a function that breaks a file before the start."""

    def prepare(setup: GatewaySetup) -> None:
        setup.supplier.answer_always(Answer((Say("well"),), Tokens(input=20, output=1)))
        setup.settings |= settings
        write_private(getattr(setup.layout, file), BROKEN)

    return prepare


def set_unknown_zone(setup: GatewaySetup) -> None:
    """Let the settings have a mistake, and the supplier answer."""
    setup.supplier.answer_always(Answer((Say("well"),), Tokens(input=20, output=1)))
    setup.settings = {"time_zone": "Nowhere/City"}


def ask(caller: Caller) -> int:
    """Ask with a secret in the prompt, and return the status."""
    return caller.ask("openai-chat", "by-chat", text=f"close {TICKET}").status


def was_sent(gateway: RunningGateway) -> bool:
    """Return whether any supplier has seen the secret."""
    return any(TICKET in request.prompt for request in gateway.supplier.requests)


def test_no_request_is_relayed_before_the_rules_for_secrets_were_valid_once(
    tmp_path: Path,
) -> None:
    prepare = build_setup("secret_rules")
    with running_gateway(tmp_path, prepare, environ={"PROXY_APP_HASH": HASH}) as gateway:
        path, caller = gateway.setup.layout.secret_rules, gateway.add_caller()
        refused = caller.ask("anthropic", "by-messages", text=f"close {TICKET}")
        assert refused.status == 500
        assert "The file of the rules for secrets cannot be read" in refused.error()["message"]
        assert (gateway.wait_for_record(refused).outcome, len(gateway.supplier.requests)) == (
            "refused",
            0,
        )
        manager = gateway.daemon.client(MANAGEMENT_KEY)
        (note,) = manager.get("/api/agent/service-log?kind=config_invalid")["items"]
        assert f"{path}:1:" in note["text"] and "nothing of it is known" in note["text"]
        write_private(path, RULES)
        until(lambda: ask(caller) == 200)
        write_private(path, BROKEN)
        until(lambda: list(manager.get("/api/agent/summary")["problems"]))
        assert ask(caller) == 200  # the rules of before hold
        assert not was_sent(gateway)


def test_rules_for_secrets_are_not_needed_where_none_are_masked(tmp_path: Path) -> None:
    with running_gateway(tmp_path, build_setup("secret_rules", mask_secrets=False)) as gateway:
        assert ask(gateway.add_caller()) == 200


def test_a_key_that_a_budget_may_limit_spends_nothing_before_the_budgets_were_valid_once(
    tmp_path: Path,
) -> None:
    with running_gateway(tmp_path, build_setup("budgets")) as gateway:
        path, caller = gateway.setup.layout.budgets, gateway.add_caller(tags=["team"])
        assert ask(caller) == 500
        assert ask(gateway.add_caller(owner="ann")) == 500
        assert ask(gateway.add_caller()) == 200
        write_private(path, BUDGETS)
        until(lambda: ask(caller) == 429)
        write_private(path, BROKEN)
        assert ask(caller) == 429
        write_private(path, "budgets: []\n")
        until(lambda: ask(caller) == 200)


def test_a_key_with_a_limit_of_days_spends_nothing_before_it_is_known_when_these_begin(
    tmp_path: Path,
) -> None:
    with running_gateway(tmp_path, set_unknown_zone) as gateway:
        path = gateway.setup.layout.gateway_settings
        limited = gateway.add_caller(limits={"day": "1"})
        of_a_model = gateway.add_caller(model_limits={"by-*": {"week": "1"}})
        others = (gateway.add_caller(), gateway.add_caller(limits={"total": "1"}))
        refused = limited.ask("openai-chat", "by-chat")
        assert refused.status == 500 and "time zone" in refused.error()["message"]
        assert ask(of_a_model) == ask(gateway.add_caller(owner="ann")) == 500
        assert [ask(other) for other in others] == [200, 200]
        write_private(path, json.dumps({"time_zone": "Europe/Berlin"}))
        until(lambda: ask(limited) == 200)
        write_private(path, BROKEN)
        assert ask(limited) == ask(of_a_model) == 200
