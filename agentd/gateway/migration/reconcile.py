"""Fits an import into a gateway that is in use: nothing that exists is changed."""

from collections.abc import Collection, Mapping

from msgspec import structs

from agentd.core.errors import BadRequest
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
    taken = {*channels, *(one.name for one in plan.channels)}
    names: dict[str, str] = {}
    created, notes, leftovers = [], list(plan.notes), list(plan.leftovers)
    for channel in plan.channels:
        existing = channels.get(channel.name)
        if existing is None:
            created.append(channel)
        elif existing.rstrip("/") == channel.url.rstrip("/"):
            leftovers.append(
                Leftover(
                    f'channel "{channel.name}"',
                    "exists with this address and is used as it is, with its own key",
                )
            )
        else:
            name = _find_equal_or_free_name(channel.name, channel.url, channels, taken)
            names[channel.name] = name
            taken.add(name)
            if name not in channels:
                created.append(structs.replace(channel, name=name))
            notes.append(f'Channel "{channel.name}" exists with another address: now "{name}".')
    kept = [model for model in plan.models if model.name not in models]
    leftovers += [
        Leftover(f'model "{model.name}"', "exists and stays as it is")
        for model in plan.models
        if model.name in models
    ]
    new_budgets = [one for one in plan.budgets if not _is_taken(one, budgets)]
    leftovers += [
        Leftover(
            f'budget "{one.name}"', "its name, owner or tag has a budget, which stays as it is"
        )
        for one in plan.budgets
        if one not in new_budgets
    ]
    if len(created) > MAX_CHANNELS or len(kept) > MAX_MODELS:
        raise BadRequest(
            f"The file has more than {MAX_CHANNELS} channels or {MAX_MODELS} models",
            "Split it, and import each part; what one names as a fallback must be there before.",
        )
    return structs.replace(
        plan,
        channels=tuple(created),
        models=tuple(_rename_channels(model, names) for model in kept),
        budgets=tuple(new_budgets),
        leftovers=tuple(leftovers),
        notes=tuple(notes),
    )


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
    """Return the name that an earlier import gave to this channel, or a free one."""
    free = make_free_name(label, taken)
    for number in range(2, len(channels) + 2):
        name = f"{label[:56]}-{number}"
        if channels.get(name, "").rstrip("/") == url.rstrip("/"):
            return name
    return free
