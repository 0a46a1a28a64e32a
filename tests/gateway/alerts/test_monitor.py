"""What is seen in a gateway, without one: error rates, and the events of budgets."""

from decimal import Decimal
from typing import Any

import pytest

from agentd.core.clock import FrozenClock
from agentd.core.errors import AgentdError, Unavailable
from agentd.gateway.alerts.conditions import ErrorRateWindow, has_failed
from agentd.gateway.alerts.model import AlertRules, AlertTarget
from agentd.gateway.alerts.monitor import AlertMonitor
from agentd.gateway.alerts.outbox import SendResult
from agentd.gateway.alerts.service import AlertService
from agentd.gateway.alerts.store import AlertsJson
from agentd.gateway.channels.balances import ChannelBalance, KeyBalance
from agentd.gateway.channels.model import BalanceReading, Channel
from agentd.gateway.limits.events import HardLimitReached, ReachedLimit, SoftLimitReached
from tests.gateway.ledger.entries import build_record

OPS = AlertTarget(name="ops", url="https://example.org")
RESETS, NEXT = "2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z"


class Memory:
    """Keeps nothing on disk, and accepts every alert."""

    def load(self) -> AlertsJson:
        return AlertsJson()

    def save(self, content: AlertsJson) -> None:
        pass

    async def send(self, *_: object) -> SendResult:
        return SendResult(ok=True, answer="200")


class QuietGateway:
    """A gateway in which nothing is wrong."""

    rules = AlertRules()
    ledger_problem = export_problem = ""

    async def list_passed_soft_limits(self) -> list[ReachedLimit]:
        if isinstance(self.passed, AgentdError):
            raise self.passed
        return self.passed

    def __init__(self) -> None:
        self.limit_files: tuple[object, ...] = (object(),)
        self.passed: list[ReachedLimit] | AgentdError = []
        self.channels: dict[str, Channel] = {}
        self.balances: list[tuple[Channel, ChannelBalance]] = []
        self.limits: list[ReachedLimit] | None = [build_limit()]

    def iter_limits(self) -> list[tuple[str, ReachedLimit]] | None:
        if self.limits is None:
            return None
        return [(kind, one) for kind in ("limit_hit", "limit_near") for one in self.limits]

    def iter_balances(self) -> list[tuple[Channel, ChannelBalance]]:
        return self.balances

    def find_key(self, key_id: str) -> None:
        return None

    def describe_limits(self, key: object) -> tuple[()]:
        return ()


def build_limit(**more: Any) -> ReachedLimit:
    known: dict[str, Any] = {"scope": "tag", "name": "team", "window": "day", "resets": RESETS}
    amounts = {"limit": Decimal(5), "spent": Decimal("5.01")}
    return ReachedLimit(**{**known, **amounts, **more})


@pytest.mark.gen_test
async def test_a_limit_of_a_budget_is_told_once_until_its_period_is_over() -> None:
    clock, memory = FrozenClock(), Memory()
    alerts = AlertService(memory, memory, lambda: {"ops": OPS}, clock)
    await alerts.start()
    gateway = QuietGateway()
    monitor = AlertMonitor(alerts, gateway, clock)
    monitor.on_event(SoftLimitReached(build_limit()))
    for _ in range(3):
        monitor.on_event(HardLimitReached(build_limit()))
    monitor.on_event(HardLimitReached(build_limit(scope="key", key="abc")))  # seen in requests
    monitor.poll()
    assert [(one.kind, one.state) for one in alerts.alerts] == [
        ("limit_near", "firing"),
        ("limit_hit", "firing"),
    ]
    assert alerts.alerts[1].text == (
        'The tag "team" reached its limit, so requests are refused: 5.01 of 5 USD a day;'
        f" it resets at {RESETS}."
    )
    clock.move(86400)
    gateway.limits = [build_limit(resets=NEXT)]
    monitor.poll()
    assert [(one.kind, one.state) for one in alerts.alerts][2:] == [("limit_hit", "resolved")]
    assert alerts.alerts[2].text == "A new period of the limit has begun."
    assert not tuple(alerts.firing)
    await alerts.stop()


@pytest.mark.gen_test
@pytest.mark.parametrize("resets", [RESETS, None])
async def test_a_limit_of_a_budget_that_was_raised_is_over_and_told_again_when_it_is_reached(
    resets: str | None,
) -> None:
    clock, memory, gateway = FrozenClock(), Memory(), QuietGateway()
    alerts = AlertService(memory, memory, lambda: {"ops": OPS}, clock)
    await alerts.start()
    monitor = AlertMonitor(alerts, gateway, clock)
    window = {"window": "day" if resets else "total", "resets": resets}
    small, large = build_limit(**window), build_limit(**window, limit=Decimal(9))
    monitor.on_event(SoftLimitReached(small))
    monitor.on_event(HardLimitReached(small))
    gateway.limits = None  # the file cannot be read: nothing is known
    monitor.poll()
    assert len(tuple(alerts.firing)) == 2
    gateway.limits = [large]
    monitor.poll()
    assert not tuple(alerts.firing)
    assert (alerts.alerts[2].state, alerts.alerts[2].text) == ("resolved", "The limit was changed.")
    monitor.on_event(SoftLimitReached(large))
    monitor.on_event(HardLimitReached(large))
    monitor.poll()
    assert len(alerts.alerts) == 5
    assert len(tuple(alerts.firing)) == 2
    gateway.limits = []
    monitor.poll()
    assert not tuple(alerts.firing)
    assert alerts.alerts[5].text == "The limit was removed."
    monitor.on_event(SoftLimitReached(small))
    monitor.on_event(SoftLimitReached(large))  # raised and passed before a poll came
    assert [one.kind for one in alerts.alerts[6:]] == ["limit_near", "limit_near"]
    await alerts.stop()


@pytest.mark.gen_test
async def test_what_was_told_of_a_limit_on_models_holds_while_these_are_not_counted() -> None:
    clock, memory, gateway = FrozenClock(), Memory(), QuietGateway()
    alerts = AlertService(memory, memory, lambda: {"ops": OPS}, clock)
    await alerts.start()
    monitor = AlertMonitor(alerts, gateway, clock)
    monitor.on_event(HardLimitReached(build_limit(scope="model", key="abc", model="gpt-*")))
    gateway.limits = []
    monitor.poll()
    assert len(tuple(alerts.firing)) == 1
    gateway.limits = [build_limit(scope="model", key="abc", model="gpt-*", resets=NEXT)]
    monitor.poll()
    assert not tuple(alerts.firing)
    await alerts.stop()


@pytest.mark.gen_test
async def test_a_low_balance_is_told_once_until_it_is_read_to_be_higher() -> None:
    clock, memory, gateway = FrozenClock(), Memory(), QuietGateway()
    alerts = AlertService(memory, memory, lambda: {"ops": OPS}, clock)
    await alerts.start()
    monitor = AlertMonitor(alerts, gateway, clock)
    channel = Channel(
        name="deep",
        dialects=("openai-chat",),
        url="https://api.deepseek.com",
        keys=("env:A", "env:B"),
        balance=BalanceReading(low=Decimal(5)),
    )
    gateway.channels = {"deep": channel}

    def read(*amounts: str, error: str = "") -> None:
        left = tuple(
            KeyBalance(field=f"keys[{number}]", amount=Decimal(one), currency="USD", error=error)
            for number, one in enumerate(amounts)
        )
        gateway.balances = [(channel, ChannelBalance(channel, "deepseek", left))]
        monitor.poll()

    for amounts in (("5", "9"), ("5", "4.99"), ("5", "4"), ("3", "4")):
        read(*amounts)
    assert [one.text for one in alerts.alerts] == [
        'The balance of the channel "deep" is 4.99 USD (keys[1]): less than the 5 of which it'
        " warns."
    ]
    gateway.balances = []  # as after a restart: not read yet
    monitor.poll()
    read("8", "8", error="HTTP 500")
    unread = tuple(KeyBalance(field=field) for field in channel.key_fields)
    gateway.balances = [(channel, ChannelBalance(channel, "deepseek", unread))]  # its keys are new
    monitor.poll()
    assert len(alerts.alerts) == 1
    read("8", "8")
    assert [one.state for one in alerts.alerts] == ["firing", "resolved"]
    read("1", "1")
    gateway.channels = {}
    gateway.balances = []
    monitor.poll()
    assert not tuple(alerts.firing)
    assert [one.state for one in alerts.alerts] == ["firing", "resolved", "firing"]
    await alerts.stop()


@pytest.mark.gen_test
async def test_a_soft_limit_that_was_passed_before_is_told_once_and_anew_in_the_next_period() -> (
    None
):
    clock, memory, gateway = FrozenClock(), Memory(), QuietGateway()
    alerts = AlertService(memory, memory, lambda: {"ops": OPS}, clock)
    await alerts.start()
    monitor = AlertMonitor(alerts, gateway, clock)
    gateway.passed = Unavailable("the ledger cannot be read")
    await monitor.look_at_soft_limits()
    gateway.passed = [build_limit()]
    for _ in range(2):
        await monitor.look_at_soft_limits()
        monitor.on_event(SoftLimitReached(build_limit()))
    assert [one.subject for one in alerts.alerts] == ["budget: tag team day"]
    gateway.passed = [build_limit(), build_limit(name="late")]
    await monitor.look_at_soft_limits()  # the same files: all else is told by events
    assert len(alerts.alerts) == 1
    gateway.limit_files = (object(),)
    await monitor.look_at_soft_limits()
    assert [one.subject for one in alerts.alerts][1:] == ["budget: tag late day"]
    clock.move(86400)  # and no poll yet
    monitor.on_event(SoftLimitReached(build_limit(resets="2026-01-03T00:00:00.000Z")))
    assert [one.subject for one in alerts.alerts][2:] == ["budget: tag team day"]
    await alerts.stop()


def test_the_error_rate_is_of_the_last_minutes() -> None:
    window, rules = ErrorRateWindow(), AlertRules(error_rate=50, error_requests=4)
    for second in range(4):
        window.add(True, second)
    assert window.measure(5, 3).exceeds(rules)
    assert not window.measure(5, 3).exceeds(AlertRules(error_requests=5))
    assert not window.measure(5, 3).exceeds(AlertRules(error_rate=None, error_requests=1))
    for second in range(5):
        window.add(False, 10 + second)
    assert not window.measure(5, 20).exceeds(rules)
    assert window.measure(5, 1000).requests == 0


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({}, False),
        ({"status": 400, "outcome": "failed", "error": "invalid_request"}, False),
        ({"status": 429, "outcome": "refused", "error": "limit_day"}, False),
        ({"status": 499, "outcome": "left"}, False),
        ({"status": 429, "outcome": "failed", "error": "rate_limit"}, True),
        ({"status": 502, "outcome": "failed", "error": "unreachable"}, True),
        ({"status": 200, "outcome": "broken", "error": "broken"}, True),
        ({"status": 503, "outcome": "refused"}, True),
    ],
)
def test_a_callers_own_fault_is_no_error_of_the_gateway(
    fields: dict[str, Any], failed: bool
) -> None:
    assert has_failed(build_record(**fields)) is failed
