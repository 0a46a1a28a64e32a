"""The speech engines of a file."""

import pytest

from agentd.catalog.speech import POCKETSPHINX, Ear, Speech, contradictions, filled_in
from agentd.errors import NotFound

WHISPER = Ear(name="whisper", engine="openai", supplier="openai", model="whisper-1")


def wrong(*ears: Ear, default: str = "") -> list[str]:
    return [what for _, what in contradictions(Speech(default=default, engines=ears))]


def test_without_a_file_there_is_the_offline_engine() -> None:
    assert Speech().find("") == POCKETSPHINX


def test_the_default_is_the_named_one_or_the_first() -> None:
    assert Speech(engines=(WHISPER, POCKETSPHINX)).find("") == WHISPER
    speech = Speech(default="pocketsphinx", engines=(WHISPER, POCKETSPHINX))
    assert speech.find("") == POCKETSPHINX
    assert speech.find("whisper") == WHISPER


def test_an_unknown_engine_is_told_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="did you mean"):
        Speech(engines=(WHISPER,)).find("wisper")
    with pytest.raises(NotFound, match="names no engine"):
        Speech(engines=()).find("")


def test_each_engine_is_given_what_it_needs_and_nothing_else() -> None:
    assert wrong(WHISPER, POCKETSPHINX, default="whisper") == []
    assert wrong(Ear(name="a", engine="command", command=("hear", "{file}"))) == []
    told = wrong(
        Ear(name="a", engine="openai"),
        Ear(name="a", engine="command", command=("hear",)),
        Ear(name="b", engine="pocketsphinx", model="x"),
        default="c",
    )
    assert len(told) == 6
    for word in ('"supplier"', '"model"', "above", "{file}", "means nothing", '"c"'):
        assert any(word in one for one in told), word


def test_a_file_named_like_an_option_or_a_placeholder_stays_one_argument() -> None:
    command = ("hear", "--language={language}", "{file}", "a b")
    told = filled_in(command, "/x/{language}; rm -rf.wav", "en")
    assert told == ["hear", "--language=en", "/x/{language}; rm -rf.wav", "a b"]
