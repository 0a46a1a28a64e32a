"""What a model still knows in the next turn of what its tools brought."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engine import Kept
from agentd.agent.native.memory import (
    LONGEST_MEMORY,
    LONGEST_RESULT,
    Brought,
    read_memory,
    tell_memory,
    write_memory,
)
from tests.agent.native.scene import Scene
from tests.supplier.steps import Call, Say
from tests.supplier.supplier import Supplier

results = st.lists(st.builds(Brought, st.text(max_size=9), st.text(max_size=9), st.text()))


def test_the_next_turn_knows_what_a_file_said(tmp_path):
    (tmp_path / "notes.txt").write_text("the answer is forty-two\n")
    with Supplier() as supplier:
        scene = Scene(tmp_path, supplier)
        supplier.script(Call("read_file", {"path": "notes.txt"}), Say("I read it."))
        [kept] = [one for one in scene.run("Read it.") if isinstance(one, Kept)]
        supplier.script(Say("Forty-two."))
        scene.run("What is the answer?", memory=kept.memory)
        assert "the answer is forty-two" in str(supplier.requests[-1].turns)


def test_a_turn_without_tools_leaves_the_memory_as_it_is(tmp_path):
    with Supplier() as supplier:
        supplier.script(Say("Hello."))
        assert not [one for one in Scene(tmp_path, supplier).run() if isinstance(one, Kept)]


@given(results)
def test_what_is_kept_is_bounded_and_the_latest(found):
    kept = read_memory(write_memory(found))
    assert sum(len(one.text) for one in kept) <= LONGEST_MEMORY
    if found:
        assert kept[-1] == found[-1]


def test_a_long_result_is_cut_and_many_are_left_out():
    kept = read_memory(write_memory([Brought("read", str(n), "x" * 10_000) for n in range(50)]))
    assert all(one.text.startswith("x" * LONGEST_RESULT) for one in kept)
    assert "6,000 characters" in kept[-1].text
    assert kept[-1].input == "49" and 1 < len(kept) < 10


def test_a_file_that_was_read_again_is_kept_once():
    first, second = Brought("read", "a", "old"), Brought("read", "a", "new")
    assert read_memory(write_memory([first, second])) == (second,)


def test_what_is_no_memory_is_passed_over():
    assert read_memory("ses_1") == read_memory("") == ()
    assert tell_memory(()) == ""
