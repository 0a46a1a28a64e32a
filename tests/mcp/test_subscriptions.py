"""Which events change which resources, and how their clients are told."""

from agentd.chats.events import ChatDeletedUpdate, ChatUpdate, QueueUpdate
from agentd.chats.state import Chat
from agentd.core.events import EventBus
from agentd.mcp.subscriptions import (
    LIST,
    ChangeQueue,
    SubscriptionIndex,
    make_change_notification,
)

CHAT = "agentd://chats/5"
SUMMARY = Chat(5, title="Five").summarize()


def publish(bus: EventBus, reason: str = "turn.started") -> None:
    bus.publish(ChatUpdate(1, SUMMARY, reason))


def test_a_queue_is_told_of_what_it_subscribed_to_and_each_once() -> None:
    bus = EventBus()
    index, queue, other, woken = SubscriptionIndex(bus), ChangeQueue(), ChangeQueue(), []
    queue.on_change = lambda: woken.append(1)
    index.subscribe(queue, [CHAT, f"{CHAT}/queue"])
    index.subscribe(other, ["agentd://chats/6"])
    for _ in range(3):
        publish(bus)
        bus.publish(QueueUpdate(1, 5, ()))
    assert queue.take() == [CHAT, f"{CHAT}/queue"]
    assert len(woken) == 6
    assert queue.take() == other.take() == []


def test_nobody_is_told_any_more_after_unsubscribing_or_leaving() -> None:
    bus = EventBus()
    index, queue = SubscriptionIndex(bus), ChangeQueue()
    index.subscribe(queue, [CHAT, f"{CHAT}/queue"])
    publish(bus)
    index.unsubscribe(queue, [CHAT, "agentd://chats/99"])
    publish(bus)
    assert queue.take() == []
    index.remove(queue)
    bus.publish(QueueUpdate(1, 5, ()))
    assert queue.take() == []
    assert queue.subscribed == set()


def test_the_list_changes_with_new_and_deleted_chats_alone() -> None:
    bus = EventBus()
    index, queue = SubscriptionIndex(bus), ChangeQueue()
    index.subscribe(queue, [LIST])
    publish(bus)
    assert queue.take() == []
    publish(bus, "chat.created")
    assert queue.take() == [LIST]
    bus.publish(ChatDeletedUpdate(1, SUMMARY))
    assert queue.take() == [LIST]


def test_a_notification_says_what_changed() -> None:
    assert make_change_notification(LIST)["method"] == "notifications/resources/list_changed"
    changed = make_change_notification(CHAT, {"a": 1})
    assert changed["params"] == {"uri": CHAT, "_meta": {"a": 1}}
