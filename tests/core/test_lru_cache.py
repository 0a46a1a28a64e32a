"""The cache keeps the most recently used entries, up to its size."""

from time import process_time

from agentd.core.lru_cache import LruCache


def test_what_was_not_met_for_longest_is_forgotten():
    recent: LruCache[str, int] = LruCache(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert recent.get("b") is None
    assert recent.items() == [("a", 1), ("c", 3)]
    assert len(recent) == 2
    recent.clear()
    assert recent.get("a") is None


def test_several_values_are_found_as_one_after_the_other():
    recent: LruCache[str, int] = LruCache(3)
    for number, key in enumerate("abc"):
        recent.put(key, number)
    assert recent.get_all(["a", "x", "b"]) == [0, None, 1]
    recent.put("d", 3)
    assert recent.items() == [("a", 0), ("b", 1), ("d", 3)]


def test_what_all_weigh_together_is_bounded():
    recent: LruCache[str, int] = LruCache(10, max_weight=100)
    assert recent.put("a", 1, 60)
    assert recent.put("b", 2, 40)
    assert recent.put("a", 3, 50), "the weight before is not counted any more"
    assert recent.put("c", 4, 20)
    assert recent.items() == [("a", 3), ("c", 4)]
    assert not recent.put("d", 5, 101)
    assert recent.items() == [("a", 3), ("c", 4)]


def test_to_forget_takes_no_longer_the_more_is_remembered():
    def measure_puts(most: int) -> float:
        recent: LruCache[int, int] = LruCache(most)
        for number in range(most):
            recent.put(number, number)
        began = process_time()
        for number in range(20_000):
            recent.put(most + number, number)
        return process_time() - began

    assert measure_puts(60_000) < 0.05 + measure_puts(1000) * 5
