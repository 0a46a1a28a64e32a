"""Metrics in the text format of Prometheus, version 0.0.4."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


class MetricFamily(Struct, frozen=True):
    """A metric, whose samples differ by their labels."""

    name: str
    """By convention with the unit, and ``_total`` if it is a counter."""
    kind: Literal["counter", "gauge", "histogram"]
    description: str


class MetricsText:
    """Builds the text, family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add_family(self, family: MetricFamily) -> None:
        """Begin a family; it is listed even if no sample follows."""
        description = family.description.translate(_HELP_ESCAPES)
        self._lines.append(f"# HELP {family.name} {description}")
        self._lines.append(f"# TYPE {family.name} {family.kind}")

    def add_sample(
        self, name: str, value: float | Decimal, labels: Mapping[str, object] | None = None
    ) -> None:
        """Add a sample of the family that was begun last; a ``Decimal`` keeps all its digits."""
        number = f"{value:f}" if isinstance(value, Decimal) else f"{value}"
        self._lines.append(f"{name}{_format_labels(labels or {})} {number}")

    def add_metric(self, family: MetricFamily, value: float | Decimal) -> None:
        """Add a family with a single sample."""
        self.add_family(family)
        self.add_sample(family.name, value)

    def encode(self) -> bytes:
        """Return the text."""
        return "".join(f"{line}\n" for line in self._lines).encode("utf-8", "replace")


def _format_labels(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    pairs = [f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels.items()]
    return f"{{{','.join(pairs)}}}"
