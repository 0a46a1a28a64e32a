"""The budget that may be spent before a person is asked. Pure; amounts are exact, days are UTC."""

from decimal import Decimal

from msgspec import Struct

from agentd.chats.state import Chat


class SpendBudget(Struct, frozen=True):
    """USD that may be spent before a person is asked; None: no limit.

    A running turn is never stopped for it: the queue is held before the next one.
    """

    per_chat: Decimal | None = None
    per_day: Decimal | None = None
    """The budget over all chats on a day of UTC, those in the trash included."""

    def explain_exceeded(self, chat: Chat, today: Decimal) -> str:
        """Name the budget that is used up; empty if none is, or a person allowed more.

        ``today`` is what all chats have cost today.
        """
        if chat.cost < chat.agent.allowance:
            return ""
        if self.per_chat is not None and chat.cost >= self.per_chat:
            return f"This chat has cost {chat.cost} USD; its budget is {self.per_chat} USD."
        if self.per_day is not None and today >= self.per_day:
            return f"All chats have cost {today} USD today; the budget of a day is {self.per_day}."
        return ""

    def compute_allowance(self, chat: Chat) -> Decimal:
        """Return the total that the chat may cost once a person has allowed another budget."""
        return chat.cost + (self.per_chat or self.per_day or Decimal(1))
