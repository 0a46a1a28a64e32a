"""Fallbacks name models that there are, and none of them leads back to where it began."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentd.models.fallback_validation import find_cycle
from agentd.models.gateway_model import GatewayModel, ModelRoute
from agentd.models.model import Models, validate

ROUTES = (ModelRoute(channel="c"),)


def make_model(name: str, **lists: tuple[str, ...]) -> GatewayModel:
    return GatewayModel(name=name, routes=ROUTES, **lists)


def list_problems(*models: GatewayModel) -> list[tuple[tuple[str | int, ...], str]]:
    return list(validate(Models(proxy=models)))


def test_an_unknown_model_and_one_that_is_listed_twice_are_problems_in_their_place():
    found = list_problems(
        make_model("large", content_fallbacks=("smal",)),
        make_model("small", fallbacks=("large", "large")),
    )
    assert [place for place, _ in found] == [
        ("proxy", 0, "content_fallbacks", 0),
        ("proxy", 1, "fallbacks", 1),
    ]
    assert 'did you mean "small"' in found[0][1]


def test_a_cycle_is_a_problem_that_names_every_model_on_it():
    found = list_problems(
        make_model("start", fallbacks=("a",)),
        make_model("a", fallbacks=("end", "b")),
        make_model("b", fallbacks=("c",)),
        make_model("c", fallbacks=("a",)),
        make_model("end"),
    )
    assert [place for place, _ in found] == [("proxy", 1, "fallbacks", 1)]
    assert "a → b → c → a" in found[0][1]


def test_a_model_is_no_fallback_of_itself():
    [(place, what)] = list_problems(make_model("a", context_fallbacks=("a",)))
    assert place == ("proxy", 0, "context_fallbacks", 0)
    assert "a → a" in what


def test_two_kinds_of_fallbacks_may_lead_there_and_back():
    assert not list_problems(
        make_model("small", context_fallbacks=("large",)), make_model("large", fallbacks=("small",))
    )


def test_of_two_models_of_one_name_every_problem_is_in_a_place_that_there_is():
    twice = [
        make_model("a", fallbacks=("b",)),
        make_model("b"),
        make_model("a", fallbacks=("b", "b", "a")),
    ]
    for place, _ in list_problems(*twice):
        at = twice[place[1]]  # type: ignore[index]
        assert place[2] == "name" or len(getattr(at, str(place[2]))) > place[3]  # type: ignore[operator]


NAMES = st.sampled_from("abcdef")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=4), max_size=6)


@given(graph=GRAPHS)
def test_a_cycle_is_found_exactly_if_there_is_one(graph):
    cycle = find_cycle(graph)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(after in graph[name] for name, after in pairwise(cycle))
    else:
        left = dict(graph)
        while ends := [name for name in left if not set(left[name]) & set(left)]:
            for name in ends:
                del left[name]
        assert not left, "what has no end has a cycle"


def test_a_long_chain_is_no_cycle_and_does_not_run_out_of_stack():
    chain = {str(number): [str(number + 1)] for number in range(5000)}
    assert not find_cycle(chain)
    assert len(find_cycle({**chain, "5000": ["0"]})) == 5002
