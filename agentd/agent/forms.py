"""Forms of one field, by which programs and servers ask a person something, as one question. Pure.

The forms are those of the elicitation of MCP and of the Agent Client Protocol.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from agentd.agent.text import sanitize

MOST_CHOICES = 8
YES = "Yes"
"""The answer that a question is given by being allowed, where it offers this choice."""
LONGEST_CHOICE = 200
"""Characters."""


class OneFieldForm(Struct, frozen=True):
    """A form that one answer is enough for."""

    name: str = ""
    """The field's name; empty: the form has none, and is only agreed to."""
    type: str = "string"
    values: tuple[tuple[str, str], ...] = ()
    """A choice: the title that a person reads, and the value; empty: any text."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers that are offered; of longer lists those that begin it."""
        if not self.name:
            return (YES,)
        if self.type == "boolean":
            return YES, "No"
        return tuple(title for title, _ in self.values[:MOST_CHOICES])

    def fill_in(self, text: str) -> Mapping[str, object] | None:
        """Return the form's content for a person's answer; None if that does not fit."""
        if not self.name:
            return {}
        chosen = [value for title, value in self.values if text.strip() in (title, value)]
        if self.values and not chosen:
            return None
        try:
            return {self.name: _READERS.get(self.type, str)(chosen[0] if chosen else text)}
        except ValueError:
            return None


def read_form(schema: object) -> OneFieldForm | None:
    """Return the form of a requested schema; None for one that needs more than one answer."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(fields, dict) or not fields:
        return OneFieldForm()
    name, field = next(iter(fields.items()))
    if len(fields) > 1 or not isinstance(field, dict):
        return None
    kind = field.get("type")
    if kind not in ("string", *_READERS):
        return None
    return OneFieldForm(name, str(kind), tuple(_iter_values(field)))


def _iter_values(field: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    listed = field.get("enum")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, str):
            yield sanitize(one[:LONGEST_CHOICE]), one
    titled = field.get("oneOf")
    for option in titled if isinstance(titled, list) else ():
        value = option.get("const") if isinstance(option, dict) else None
        if isinstance(value, str):
            yield sanitize(str(option.get("title") or value)[:LONGEST_CHOICE]), value


_READERS: Mapping[str, Callable[[str], object]] = {
    "integer": int,
    "number": float,
    "boolean": lambda text: text.strip().lower() in ("yes", "true", "y", "ja", "1", ""),
}
