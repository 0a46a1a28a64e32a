"""A person is asked for more money exactly at the budget, never in the middle of a turn."""

from decimal import Decimal
from pathlib import Path

from agentd.agent.budget import SpendBudget
from agentd.chats.agent_state import AgentState
from agentd.chats.state import Chat
from tests.agent.served import ServedAgent
from tests.supplier.steps import Answer, Say, Tokens
from tests.supplier.supplier import Supplier


def make_chat(cost: str, allowance: str = "0") -> Chat:
    return Chat(1, cost=Decimal(cost), agent=AgentState(allowance=Decimal(allowance)))


NOTHING = Decimal(0)


def test_without_a_budget_nothing_is_ever_asked():
    assert SpendBudget().explain_exceeded(make_chat("1000000"), Decimal(1000000)) == ""


def test_a_chat_is_asked_when_its_budget_is_spent_to_the_last_cent():
    budget = SpendBudget(per_chat=Decimal("0.30"))
    assert budget.explain_exceeded(make_chat("0.299999"), NOTHING) == ""
    assert "has cost 0.30 USD" in budget.explain_exceeded(make_chat("0.30"), NOTHING)
    assert budget.explain_exceeded(make_chat("0"), NOTHING) == ""
    assert SpendBudget(per_chat=NOTHING).explain_exceeded(make_chat("0"), NOTHING)


def test_the_budget_of_a_day_counts_all_chats():
    budget = SpendBudget(per_day=Decimal(2))
    assert budget.explain_exceeded(make_chat("0"), Decimal("1.99")) == ""
    assert "All chats have cost 2.01 USD today" in budget.explain_exceeded(
        make_chat("0"), Decimal("2.01")
    )


def test_what_a_chat_costs_on_a_day_does_not_count_for_the_next_one():
    agent = AgentState()
    agent.add_cost("2026-01-01T10:00:00.000Z", Decimal(1))
    agent.add_cost("2026-01-01T23:59:59.999Z", Decimal(2))
    assert (agent.day, agent.spent) == ("2026-01-01", Decimal(3))
    agent.add_cost("2026-01-02T00:00:00.000Z", Decimal(4))
    assert (agent.day, agent.spent) == ("2026-01-02", Decimal(4))


def test_what_a_deleted_chat_has_cost_counts_for_the_day(tmp_path: Path) -> None:
    with Supplier() as supplier:
        models = {
            "suppliers": {"acme": {"dialect": "openai-chat", "url": supplier.url}},
            "models": [
                {
                    **{"name": "m", "engine": "native", "supplier": "acme", "model": "large"},
                    "prices": {"input": 1, "output": 1},
                }
            ],
            "default": "m",
        }
        served = ServedAgent(tmp_path, models, budget_per_day=1)
        with served.running() as caller:
            supplier.script(Answer((Say("Done."),), usage=Tokens(input=2_000_000)))
            chat = caller.create_chat("Spend it.")
            caller.wait_until_idle(chat)
            caller.client.delete(f"/api/chats/{chat}")
            asked = caller.wait_for_question(caller.create_chat("More."))
            assert "All chats have cost 2" in asked["reason"] + asked["subject"]


def test_a_client_that_was_allowed_more_may_spend_as_much_again():
    budget = SpendBudget(per_chat=Decimal(1), per_day=Decimal(5))
    asked = make_chat("1.25")
    assert budget.compute_allowance(asked) == Decimal("2.25")
    assert budget.explain_exceeded(make_chat("2.24", "2.25"), Decimal(9)) == ""
    assert budget.explain_exceeded(make_chat("2.25", "2.25"), NOTHING)
