"""How much may be spent before a person is asked. Pure; money is exact, days are UTC."""

from decimal import Decimal

from msgspec import Struct

from agentd.chats.fold import Chat


class Budget(Struct, frozen=True):
    """USD that may be spent before a person is asked; None: as much as it costs.

    A turn that is at work is never ended for it: the queue is held before the next one.
    """

    per_chat: Decimal | None = None
    per_day: Decimal | None = None
    """Over all chats, on a day of UTC."""

    def reached(self, chat: Chat, today: Decimal) -> str:
        """Which budget is used up, for the person; empty: none is, or more was allowed.

        ``today`` is what all chats cost today.
        """
        if chat.cost < chat.agent.allowance:
            return ""
        if self.per_chat is not None and chat.cost >= self.per_chat:
            return f"This chat has cost {chat.cost} USD; its budget is {self.per_chat} USD."
        if self.per_day is not None and today >= self.per_day:
            return f"All chats have cost {today} USD today; the budget of a day is {self.per_day}."
        return ""

    def allowance(self, chat: Chat) -> Decimal:
        """What the chat may cost in all, once a person has allowed as much again."""
        return chat.cost + (self.per_chat or self.per_day or Decimal(1))
