"""What was met lately is remembered, so much and no more."""

from time import process_time

from agentd.proxy.secrets.recent import Recent


def test_what_was_not_met_for_longest_is_forgotten():
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert recent.get("b") is None
    assert recent.items() == [("a", 1), ("c", 3)]
    assert len(recent) == 2
    recent.clear()
    assert recent.get("a") is None


def test_what_all_weigh_together_is_bounded():
    recent: Recent[str, int] = Recent(10, heaviest=100)
    assert recent.put("a", 1, 60)
    assert recent.put("b", 2, 40)
    assert recent.put("a", 3, 50), "the weight before is not counted any more"
    assert recent.put("c", 4, 20)
    assert recent.items() == [("a", 3), ("c", 4)]
    assert not recent.put("d", 5, 101)
    assert recent.items() == [("a", 3), ("c", 4)]


def test_to_forget_takes_no_longer_the_more_is_remembered():
    def time(most: int) -> float:
        recent: Recent[int, int] = Recent(most)
        for number in range(most):
            recent.put(number, number)
        began = process_time()
        for number in range(20_000):
            recent.put(most + number, number)
        return process_time() - began

    assert time(60_000) < 0.05 + time(1000) * 5
