"""How the end of a turn is named to the editor."""

import pytest

from agentd.acp.prompts import EditorPrompt


@pytest.mark.parametrize(
    ("failure", "named"),
    [
        ("", "end_turn"),
        ("The reply was cut off: it reached the model's output limit.", "max_tokens"),
        (
            "The agent stopped: it reached its limit of requests for one prompt.",
            "max_turn_requests",
        ),
        ("The turn reached its limit of 60 steps. Send another prompt.", "max_turn_requests"),
        (
            "Claude Code reached the number of steps that its settings allow: 9",
            "max_turn_requests",
        ),
        ("The model refused to continue.", "refusal"),
        ("large, or a filter of its supplier, refused to continue.", "refusal"),
    ],
)
def test_an_end_for_which_the_protocol_has_a_word_is_named_by_it(failure: str, named: str) -> None:
    assert EditorPrompt("Go", failure=failure).stop_reason == named


@pytest.mark.parametrize(
    "failure",
    [
        "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens",
        "large needs a verified account. Follow the steps at https://supplier.example/verify",
        "The field refusal is unknown",
    ],
)
def test_words_of_a_suppliers_error_do_not_make_it_another_end(failure: str) -> None:
    assert not EditorPrompt("Go", failure=failure).stop_reason
