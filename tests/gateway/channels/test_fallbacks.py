"""The models that are tried after the requested one: its own lists, none twice, and an end."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.channels.failures import FALLBACK_FAILURES
from agentd.gateway.channels.fallbacks import MAX_MODELS, list_next
from agentd.llm.conversation import ErrorKind
from agentd.models.gateway_model import GatewayModel, ModelRoute

KINDS = (*get_args(ErrorKind), "unreachable")
NAMES = [f"m{number}" for number in range(14)]


def make_model(name: str = "m", **lists: tuple[str, ...]) -> GatewayModel:
    return GatewayModel(name=name, routes=(ModelRoute(channel="c"),), **lists)


ALL = make_model(fallbacks=("f",), context_fallbacks=("x",), content_fallbacks=("c",))


@pytest.mark.parametrize("kind", KINDS)
def test_each_failure_has_its_own_list_and_a_wrong_request_none(kind):
    usual = ["f"] if kind in FALLBACK_FAILURES else []
    expected = {"context_too_long": ["x"], "content_refused": ["c"]}.get(kind, usual)
    assert list_next(ALL, kind, [], ["m"]) == expected


def test_a_fallbacks_own_come_before_those_that_wait():
    fallback = make_model("a", fallbacks=("a1", "b"))
    assert list_next(fallback, "server", ["b", "c"], ["m", "a"]) == ["a1", "b", "c"]
    assert list_next(make_model("a"), "context_too_long", ["b"], ["m", "a"]) == ["b"]


def test_a_wrong_request_is_wrong_for_those_that_wait_too():
    assert list_next(make_model("a"), "invalid_request", ["b"], ["m", "a"]) == []


LISTS = st.lists(st.sampled_from(NAMES), max_size=8).map(tuple)


@given(
    models=st.fixed_dictionaries(
        {
            name: st.builds(
                make_model,
                st.just(name),
                fallbacks=LISTS,
                context_fallbacks=LISTS,
                content_fallbacks=LISTS,
            )
            for name in NAMES
        }
    ),
    failures=st.lists(st.sampled_from(KINDS), min_size=20, max_size=20),
)
def test_no_model_is_tried_twice_whatever_names_it_and_there_is_an_end(models, failures):
    tried, waiting = [NAMES[0]], []
    for kind in failures:
        failed = models[tried[-1]]
        waiting = list_next(failed, kind, waiting, tried)
        named = {*failed.fallbacks, *failed.context_fallbacks, *failed.content_fallbacks}
        if waiting and kind == "context_too_long" and set(failed.context_fallbacks) - set(tried):
            assert waiting[0] in failed.context_fallbacks
        if not waiting:
            untried = set(failed.fallbacks) - set(tried)
            assert kind not in FALLBACK_FAILURES or not untried or len(tried) >= MAX_MODELS
            break
        assert waiting[0] in named or kind != "invalid_request"
        tried.append(waiting.pop(0))
    else:
        pytest.fail("it never ended")
    assert len(set(tried)) == len(tried) <= MAX_MODELS
