"""Cooldowns after failures: of whole channels, of their models, and of single keys.

A channel with several keys uses them in turn, and leaves out each by itself. It is left out as a
whole when all of them are.
"""

from collections.abc import Callable, Collection, Iterator

from msgspec import Struct

from agentd.gateway.channels.failures import Failure
from agentd.gateway.channels.model import Channel


class Cooldown(Struct):
    """Why and until when; ``by_supplier``: the supplier itself named the time."""

    channel: Channel
    until: float
    by_supplier: bool
    kind: Failure


class Cooldowns:
    """The cooldowns of all channels; ``now`` returns monotonic seconds.

    A channel that was edited since the start of a cooldown has none.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._turns: dict[str, int] = {}
        """Where in its keys the next call of a channel begins, by the channel's name."""
        self.by_place: dict[tuple[str, str, str], Cooldown] = {}
        """By channel, key (a field; empty: all keys) and supplier's model (empty: all models)."""

    def start(self, key: str, supplier_model: str, cooldown: Cooldown) -> Cooldown:
        """Start a cooldown and return the one in force; those that ended are forgotten.

        One for which the supplier named the time gives way only to a later time that it names: of
        calls at the same time, another one may fail without a word.
        """
        now = self._now()
        self.by_place = {place: one for place, one in self.by_place.items() if one.until > now}
        place = cooldown.channel.name, key, supplier_model
        known = self.by_place.get(place)
        if known and known.by_supplier and known.channel == cooldown.channel:
            cooldown = max(known, cooldown, key=_rank)
        self.by_place[place] = cooldown
        return cooldown

    def retain_only(self, channels: Collection[str]) -> None:
        """Forget the cooldowns and turns of all other channels."""
        for place in [place for place in self.by_place if place[0] not in channels]:
            del self.by_place[place]
        for name in [name for name in self._turns if name not in channels]:
            del self._turns[name]

    def find(self, channel: Channel, supplier_model: str) -> Cooldown | None:
        """Return the cooldown because of which a model is not available through a channel."""
        if not self.by_place:
            return None
        found = [self.find_of_key(channel, "", supplier_model)]
        if channel.keys:
            found.append(self.find_of_all_keys(channel, supplier_model))
        return max(filter(None, found), key=_rank, default=None)

    def find_of_key(self, channel: Channel, key: str, supplier_model: str) -> Cooldown | None:
        """Return the cooldown of one key or of its ``supplier_model``.

        Of both it is the longer one, but for one that the supplier wants.
        """
        found = [
            one
            for model in {"", supplier_model}
            if (one := self.by_place.get((channel.name, key, model)))
            and one.until > self._now()
            and one.channel == channel
        ]
        return max(found, key=_rank, default=None)

    def find_of_all_keys(self, channel: Channel, supplier_model: str) -> Cooldown | None:
        """Return the cooldown of the key to try first; None if another one needs not to wait."""
        found = []
        for key in channel.key_fields:
            if (one := self.find_of_key(channel, key, supplier_model)) is None:
                return None
            found.append(one)
        return _choose_first(found)

    def iter_keys(self, channel: Channel, supplier_model: str) -> Iterator[str]:
        """Yield the keys to try, as fields of the channel; the next call begins with another.

        If all of them are left out, it is the one of ``find_of_all_keys``.
        """
        fields = channel.key_fields
        turn = self._turns.get(channel.name, 0) % len(fields)
        rests = {
            field: self.find_of_key(channel, field, supplier_model)
            for field in (*fields[turn:], *fields[:turn])
        }
        keys = [field for field, one in rests.items() if one is None]
        if not keys:
            first = _choose_first([one for one in rests.values() if one])
            keys = [next(field for field, one in rests.items() if one is first)]
        for key in keys:
            self._turns[channel.name] = fields.index(key) + 1
            yield key

    def find_by_model(self, channel: Channel) -> dict[str, Cooldown]:
        """Return the cooldowns by the supplier's model; an empty name is for all models."""
        found: dict[str, Cooldown] = {}
        for key, model, one in self.iter_of_channel(channel):
            if not key:
                found[model] = one
            elif every := self.find_of_all_keys(channel, model):
                found.setdefault(model, every)
        if whole := self.find(channel, ""):
            found[""] = whole
        return found

    def iter_of_channel(self, channel: Channel) -> Iterator[tuple[str, str, Cooldown]]:
        """Yield the key, the supplier's model and the cooldown of all of a channel's."""
        now = self._now()
        for (name, key, model), one in self.by_place.items():
            if name == channel.name and one.until > now and one.channel == channel:
                yield key, model, one


def _choose_first(cooldowns: Collection[Cooldown]) -> Cooldown:
    """Return the one that ends first, but for those that a supplier wants if there are others."""
    patient = [one for one in cooldowns if not one.by_supplier]
    return min(patient or cooldowns, key=_get_end)


def _rank(cooldown: Cooldown) -> tuple[bool, float]:
    """Return a sort key: what counts more is greater."""
    return cooldown.by_supplier, cooldown.until


def _get_end(cooldown: Cooldown) -> float:
    return cooldown.until
