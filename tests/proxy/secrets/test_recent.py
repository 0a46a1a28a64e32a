"""What was met lately is remembered, so much and no more."""

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
