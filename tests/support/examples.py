"""The number of examples that a property is tried with."""

from hypothesis import settings

ORDINARY = 50
"""What the profile ``ordinary`` tries, and what a test's own number is weighed against."""


def limit_examples(examples: int) -> int:
    """Limit a number of examples; ``--fast`` reduces it as it reduces ``ORDINARY``."""
    return max(1, min(examples, examples * settings().max_examples // ORDINARY))
