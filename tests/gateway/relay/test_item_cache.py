"""The cache of replies' items: for which key, how many and for how long."""

from agentd.gateway.relay.item_cache import MAX_AGE_SECONDS, ItemCache


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_each_key_finds_its_own_items_only():
    memory = ItemCache(Clock())
    memory.put("anna", {"msg_1": b"hers"})
    memory.put("bert", {"msg_1": b"his"})
    assert memory.find("anna", "msg_1") == b"hers"
    assert memory.find("bert", "msg_1") == b"his"
    assert memory.find("carl", "msg_1") is None
    memory.forget_keys({"anna"})
    assert memory.find("anna", "msg_1") is None
    assert memory.find("bert", "msg_1") == b"his"


def test_an_item_is_forgotten_an_hour_after_it_was_last_used():
    clock = Clock()
    memory = ItemCache(clock)
    memory.put("anna", {"msg_1": b"x", "msg_2": b"x"})
    clock.now += MAX_AGE_SECONDS - 1
    assert memory.find("anna", "msg_1")
    clock.now += 2
    assert memory.find("anna", "msg_1")
    assert memory.find("anna", "msg_2") is None
    assert len(memory) == 1


def test_all_items_together_are_bounded_and_the_least_recently_used_go_first():
    memory = ItemCache(Clock(), max_bytes=10_000)
    for number in range(4):
        memory.put("anna", {f"msg_{number}": bytes(2000 - 500)})
    assert memory.find("anna", "msg_0")
    memory.put("bert", {"msg_4": bytes(3500)})
    assert memory.find("anna", "msg_0")
    assert memory.find("anna", "msg_1") is None
    memory.put("bert", {"msg_5": bytes(10_000)})
    assert len(memory) == 0


def test_an_item_that_is_reported_again_counts_once():
    memory = ItemCache(Clock(), max_bytes=10_000)
    for _ in range(10):
        memory.put("anna", {"msg_1": bytes(5000)})
    assert memory.find("anna", "msg_1")
