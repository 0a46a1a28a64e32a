"""Which results of Claude Code end a turn, and what its calls used all told."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engines.claude_code.background import BackgroundAgents
from agentd.agent.engines.claude_code.usage import CallUsage
from agentd.llm.price import NO_USAGE, Usage

OF_A_TASK = {"origin": {"kind": "task-notification"}}
COUNTS = st.integers(0, 1000)


def follow(*kinds: str) -> BackgroundAgents:
    """Return agents of which tasks of these kinds run."""
    made = BackgroundAgents()
    made.on_changed({"tasks": [{"task_type": kind} for kind in kinds]})
    return made


def test_a_turn_is_over_once_its_prompt_is_answered_and_no_agent_works() -> None:
    assert follow().ends_turn({}, well=True, prompted=True)
    assert follow("local_bash").ends_turn({}, well=True, prompted=True)
    for kind in ("local_agent", "local_workflow"):
        agents = follow("local_bash", kind)
        assert not agents.ends_turn({}, well=True, prompted=True)
        agents.on_changed({"tasks": [{"task_type": "local_bash"}]})
        assert agents.ends_turn({**OF_A_TASK, "num_turns": 1}, well=True, prompted=True)
    assert follow("local_agent").ends_turn({}, well=False, prompted=True), "it has failed"


def test_what_is_told_of_a_task_before_the_prompt_is_not_its_result() -> None:
    for well in (True, False):
        assert not follow().ends_turn({**OF_A_TASK, "num_turns": 1}, well=well, prompted=False)
        for before in ({"num_turns": 0}, {"num_turns": 1, "queued_turn_count": 1}):
            assert not follow().ends_turn({**OF_A_TASK, **before}, well=well, prompted=True)
    carried = {**OF_A_TASK, "num_turns": 1, "queued_turn_count": 0}
    assert follow().ends_turn(carried, well=True, prompted=True), "both were one turn"


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS, st.booleans()), max_size=8))
def test_what_calls_used_is_counted_once_however_much_of_it_is_told_before_the_result(
    calls: list[tuple[int, int, int, bool]],
) -> None:
    usage, booked, told = CallUsage(), NO_USAGE, 0
    for number, (input_tokens, cached, output, is_whole) in enumerate(calls):
        first = {"input_tokens": input_tokens, "cache_read_input_tokens": cached}
        begun = {**first, "output_tokens": output if is_whole else min(output, 1)}
        usage.add_report(str(number), begun)
        booked += usage.take_new()
        if number % 2:
            both = calls[told : number + 1]
            told = number + 1
            names = ("inputTokens", "cacheReadInputTokens", "outputTokens")
            sums = {name: sum(one[at] for one in both) for at, name in enumerate(names)}
            usage.add_result({"model_usage_since_last_result": {"large": sums}})
            booked += usage.take_new()
            done = calls[:told]
            assert booked == Usage(
                input=sum(one[0] for one in done),
                cache_read=sum(one[1] for one in done),
                output=sum(one[2] for one in done),
            )


def test_thinking_and_an_hour_s_cache_are_counted_once() -> None:
    usage = CallUsage()
    usage.add_report(
        "1",
        {
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
            "cache_creation_input_tokens": 7,
            "cache_creation": {"ephemeral_1h_input_tokens": 5, "ephemeral_5m_input_tokens": 2},
        },
    )
    told = {"outputTokens": 9, "cacheCreationInputTokens": 7}
    usage.add_result({"model_usage_since_last_result": {"large": told}})
    assert usage.take_new() == Usage(cache_write=2, cache_write_1h=5, output=5, reasoning=4)
    for odd in (None, [], {"large": None}, {"large": {"outputTokens": "x"}}):
        usage.add_result({"model_usage_since_last_result": odd})
    assert usage.take_new() == NO_USAGE
