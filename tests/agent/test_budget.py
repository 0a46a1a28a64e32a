"""When a person is asked for more money: exactly at the budget, never in the middle of a turn."""

from decimal import Decimal

from agentd.agent.budget import Budget
from agentd.chats.fold import Chat
from agentd.chats.standing import Standing


def chat(cost: str, allowance: str = "0") -> Chat:
    return Chat(1, cost=Decimal(cost), agent=Standing(allowance=Decimal(allowance)))


NOTHING = Decimal(0)


def test_without_a_budget_nothing_is_ever_asked():
    assert Budget().reached(chat("1000000"), Decimal(1000000)) == ""


def test_a_chat_is_asked_when_its_budget_is_spent_to_the_last_cent():
    budget = Budget(per_chat=Decimal("0.30"))
    assert budget.reached(chat("0.299999"), NOTHING) == ""
    assert "has cost 0.30 USD" in budget.reached(chat("0.30"), NOTHING)
    assert budget.reached(chat("0"), NOTHING) == ""
    assert Budget(per_chat=NOTHING).reached(chat("0"), NOTHING)


def test_the_budget_of_a_day_counts_all_chats():
    budget = Budget(per_day=Decimal(2))
    assert budget.reached(chat("0"), Decimal("1.99")) == ""
    assert "All chats have cost 2.01 USD today" in budget.reached(chat("0"), Decimal("2.01"))


def test_who_was_allowed_more_may_spend_as_much_again():
    budget = Budget(per_chat=Decimal(1), per_day=Decimal(5))
    asked = chat("1.25")
    assert budget.allowance(asked) == Decimal("2.25")
    assert budget.reached(chat("2.24", "2.25"), Decimal(9)) == ""
    assert budget.reached(chat("2.25", "2.25"), NOTHING)
