"""What is checked, and how far: a little in every run of the tests, more in the nightly one."""

import os

from tests.model_checking.explorer import Subject
from tests.model_checking.journal_machine import JOURNAL
from tests.model_checking.ledger_machine import LEDGER
from tests.model_checking.queue_machine import QUEUE
from tests.model_checking.session_machine import SESSION
from tests.model_checking.stream_machine import STREAM

SUBJECTS: dict[str, Subject] = {
    subject.name: subject for subject in (QUEUE, JOURNAL, LEDGER, STREAM, SESSION)
}
DEPTHS = {"queue": 2, "journal": 2, "ledger": 2, "stream": 2, "session": 4}
"""Steps of the longest sequences in every run: all of them take about two seconds each."""
NIGHTLY_DEPTHS = {"queue": 4, "journal": 4, "ledger": 4, "stream": 4, "session": 6}
"""The same with ``NIGHTLY=1``: minutes each."""


def get_depth(name: str) -> int:
    """Return how long the sequences of a subject are in this run."""
    return (NIGHTLY_DEPTHS if os.environ.get("NIGHTLY") else DEPTHS)[name]
