"""Fits an import into a gateway that is in use: nothing that exists is changed."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from agentd.core.errors import BadRequest
from agentd.gateway.channels.model import Channel
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.migration.plan import (
    MAX_CHANNELS,
    MAX_MODELS,
    ImportPlan,
    Leftover,
    make_free_name,
)
from agentd.models.gateway_model import GatewayModel


def reconcile(
    plan: ImportPlan,
    channels: Mapping[str, str],
    models: Collection[str],
    budgets: Collection[tuple[str, str, str]] = (),
) -> ImportPlan:
    """Return the plan without what exists.

    ``channels`` has the addresses by name, ``budgets`` each one's name, owner and tag.

    A budget of the same name, owner or tag stays as it is.
    A channel of the same name and address is used in place of the imported one. A channel of the
    same name and another address gets another name. A model of the same name stays as it is.
    Raises ``BadRequest`` for more than one import can hold.
    """
    fitted = _fit_channels(plan.channels, channels)
    kept = [one for one in plan.models if one.name not in models]
    new_budgets = [one for one in plan.budgets if not _is_taken(one, budgets)]
    if len(fitted.created) > MAX_CHANNELS or len(kept) > MAX_MODELS:
        raise BadRequest(
            f"The file has more than {MAX_CHANNELS} channels or {MAX_MODELS} models",
            "Split it, and import each part; what one names as a fallback must be there before.",
        )
    return structs.replace(
        plan,
        channels=tuple(fitted.created),
        models=tuple(_rename_channels(model, fitted.names) for model in kept),
        budgets=tuple(new_budgets),
        leftovers=(
            *plan.leftovers,
            *fitted.leftovers,
            *(
                Leftover(f'model "{one.name}"', "exists and stays as it is")
                for one in plan.models
                if one.name in models
            ),
            *(
                Leftover(
                    f'budget "{one.name}"',
                    "its name, owner or tag has a budget, which stays as it is",
                )
                for one in plan.budgets
                if _is_taken(one, budgets)
            ),
        ),
        notes=(*plan.notes, *fitted.notes),
    )


class _FittedChannels(NamedTuple):
    """The channels of a plan beside those that exist."""

    created: list[Channel]
    names: dict[str, str]
    """The names of those that are called otherwise, by the names in the plan."""
    leftovers: list[Leftover]
    notes: list[str]


def _fit_channels(planned: Sequence[Channel], existing: Mapping[str, str]) -> _FittedChannels:
    """Use what exists with the same address, and give other names to what another one has."""
    fitted = _FittedChannels([], {}, [], [])
    names = {one.name for one in planned}
    taken = {*existing, *names}
    for channel in planned:
        address = existing.get(channel.name)
        if address is None:
            fitted.created.append(channel)
        elif address.rstrip("/") == channel.url.rstrip("/"):
            why = "exists with this address and is used as it is, with its own key"
            fitted.leftovers.append(Leftover(f'channel "{channel.name}"', why))
        else:
            others = {one: url for one, url in existing.items() if one not in names}
            name = _find_equal_or_free_name(channel.name, channel.url, others, taken)
            fitted.names[channel.name] = name
            taken.add(name)
            if name not in existing:
                fitted.created.append(structs.replace(channel, name=name))
            else:
                why = f'exists with this address as "{name}" and is used as it is, with its own key'
                fitted.leftovers.append(Leftover(f'channel "{channel.name}"', why))
            fitted.notes.append(
                f'Channel "{channel.name}" exists with another address: now "{name}".'
            )
    return fitted


def _rename_channels(model: GatewayModel, names: Mapping[str, str]) -> GatewayModel:
    routes = (
        structs.replace(route, channel=names.get(route.channel, route.channel))
        for route in model.routes
    )
    return structs.replace(model, routes=tuple(routes))


def _is_taken(budget: Budget, budgets: Collection[tuple[str, str, str]]) -> bool:
    return any(
        budget.name == name or (budget.owner, budget.tag) == (owner, tag)
        for name, owner, tag in budgets
    )


def _find_equal_or_free_name(
    label: str, url: str, channels: Mapping[str, str], taken: Collection[str]
) -> str:
    """Return the name that an earlier import gave to this channel, or a free one.

    ``channels`` has the addresses of those that no other channel of the import stands for.
    """
    free = make_free_name(label, taken)
    for number in range(2, len(taken) + 2):
        name = f"{label[:56]}-{number}"
        if channels.get(name, "").rstrip("/") == url.rstrip("/"):
            return name
    return free
