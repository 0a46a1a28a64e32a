"""Questions of a program to the person in its own words: several questions, one after another."""

from collections.abc import Iterable, Sequence

from agentd.agent.engine import ApprovalAnswer, Question
from agentd.agent.engines.external.common import NOBODY_ANSWERS
from agentd.agent.engines.external.conversation import AskApproval
from agentd.agent.engines.external.json_rpc import get_text
from agentd.agent.forms import LONGEST_CHOICE, MOST_CHOICES
from agentd.agent.text import sanitize

LEFT_OPEN = "The person left this unanswered. Decide yourself, and say what you assumed."
SEVERAL = "(Several answers are possible: with commas between them.)"


class QuestionSeries:
    """The questions of one request of a program; ``ask`` is the id of the request."""

    def __init__(self, ask: str, questions: Sequence[Question]) -> None:
        self.ask = ask
        self.answers: list[str] = []
        self._questions = questions

    @property
    def next_question(self) -> AskApproval | None:
        """The question to put next; None: all are answered."""
        number = len(self.answers)
        if number == len(self._questions):
            return None
        return AskApproval(f"{self.ask} {number + 1}", self._questions[number])

    def add_answer(self, answer: ApprovalAnswer) -> None:
        """Add the answer to the question that was put last."""
        self.answers.append(answer.reason or "Yes.")


def make_person_question(
    tool: str, text: str, options: Iterable[object], *, several: bool = False
) -> Question:
    """Return a question whose ``options`` have a ``label`` and perhaps a ``description``."""
    listed = [
        (sanitize(get_text(one, "label")[:LONGEST_CHOICE]), get_text(one, "description"))
        for one in options
        if get_text(one, "label")
    ][:MOST_CHOICES]
    lines = [f"- {label}: {answer}" if answer else f"- {label}" for label, answer in listed]
    parts = [text, "\n".join(lines), SEVERAL if several else ""]
    subject = sanitize("\n\n".join(filter(None, parts)))
    return Question("question", tool, subject, choices=tuple(label for label, _ in listed))


def explain_unanswered(answer: ApprovalAnswer) -> str:
    """Explain to a model why its question has no answer."""
    if not answer.by_person:
        return NOBODY_ANSWERS
    return f"{LEFT_OPEN} They say: {answer.note}" if answer.note else LEFT_OPEN
