"""Budgets: limits that all access keys of one owner, or with one tag, share."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.core.clock import Timestamp
from agentd.gateway.keys.limits import (
    KeyLimits,
    LimitRaise,
    SoftLimits,
    WarnShare,
    compute_soft_limits,
    parse_moment,
    raise_limits,
)
from agentd.gateway.keys.model import MAX_LABEL, Name, require_label
from agentd.gateway.limits.spend import LimitHolder

BudgetScope: TypeAlias = Literal["owner", "tag"]


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits on what the keys of one owner, or with one tag, spend together.

    A request counts if its key had the owner or tag when it was made. Raises ``ValueError`` for
    what is no moment, and unless it has an owner or a tag.
    """

    name: Name
    """The name for people; no two budgets share one."""
    owner: Annotated[str, Meta(max_length=MAX_LABEL)] = ""
    """The owner whose keys share it ..."""
    tag: Annotated[str, Meta(max_length=MAX_LABEL)] = ""
    """... or the tag; one of both."""
    enabled: bool = True
    """True if its limits hold; what is spent is counted in any case."""
    limits: KeyLimits = KeyLimits()
    """The limits on what the keys spend and use together."""
    soft_limits: SoftLimits = SoftLimits()
    """Amounts that warn when they are spent."""
    warn_at: WarnShare | None = None
    """The share of each limit in USD that warns when it is spent, such as 0.8; null: none does."""
    raised: LimitRaise | None = None
    """Higher limits for a while."""
    created: Timestamp | None = None
    """The time of its creation; null: not known."""

    def __post_init__(self) -> None:
        require_label("name", self.name)
        require_label("owner", self.owner)
        require_label("tag", self.tag)
        if bool(self.owner) == bool(self.tag):
            raise ValueError("expected either an owner or a tag, whose keys share the budget")
        if self.raised and self.raised.models:
            raise ValueError("raised: models are those of a single access key; remove them")
        if self.created is not None:
            structs.force_setattr(self, "created", parse_moment("created", self.created))

    @property
    def scope(self) -> BudgetScope:
        """What its keys have in common."""
        return "owner" if self.owner else "tag"

    @property
    def holder(self) -> LimitHolder:
        """What its limits are of."""
        return LimitHolder(self.scope, self.owner or self.tag, budget=self.name)

    def get_limits(self, now: Timestamp) -> KeyLimits:
        """Return the limits that hold at a moment, with those that are raised then."""
        if self.raised is None or now >= self.raised.until:
            return self.limits
        return raise_limits(self.limits, self.raised.limits)

    def get_soft_limits(self, now: Timestamp) -> SoftLimits:
        """Return the amounts that warn at a moment."""
        return compute_soft_limits(self.get_limits(now), self.soft_limits, self.warn_at)


def index_by_account(budgets: Iterable[Budget]) -> Mapping[tuple[BudgetScope, str], Budget]:
    """Return the budgets by what their keys have in common."""
    return {(one.scope, one.owner or one.tag): one for one in budgets}


def validate(budgets: Iterable[Budget]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield problems of the list: the place below it, and why."""
    names = set[str]()
    accounts = dict[tuple[BudgetScope, str], str]()
    for number, budget in enumerate(budgets):
        account = budget.scope, budget.owner or budget.tag
        if budget.name in names:
            what = f'"{budget.name}" is the name of a budget above; choose another'
            yield (number, "name"), what
        elif account in accounts:
            what = f'the budget "{accounts[account]}" above is of the same {budget.scope}'
            yield (number, budget.scope), f"{what}; write all limits into one"
        names.add(budget.name)
        accounts.setdefault(account, budget.name)
