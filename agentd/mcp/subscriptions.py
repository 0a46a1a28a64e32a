"""Subscriptions: which sessions and streams are told that a resource changed."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from agentd.core.events import Event, EventBus
from agentd.mcp.messages import JsonObject, make_notification
from agentd.mcp.resources import changes_list, list_changed_uris

LIST = ""
"""Stands for the list of resources among their addresses."""


class ChangeQueue:
    """The resources that changed since their client was told last, each once.

    So a client that reads slowly is told less, and no queue grows.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.on_change = on_change
        self.subscribed: set[str] = set()
        self._changed: dict[str, None] = {}

    def add(self, uri: str) -> None:
        """Remember that a resource changed."""
        self._changed[uri] = None
        self.on_change()

    def forget(self, uri: str) -> None:
        """Do not tell that a resource changed."""
        self._changed.pop(uri, None)

    def take(self) -> list[str]:
        """Return and forget the changed resources, in order."""
        changed = list(self._changed)
        self._changed.clear()
        return changed


class SubscriptionIndex:
    """The queues by the resources to which they are subscribed."""

    def __init__(self, bus: EventBus) -> None:
        self._queues: dict[str, set[ChangeQueue]] = defaultdict(set)
        bus.subscribe(self._on_event)

    def subscribe(self, queue: ChangeQueue, uris: Iterable[str]) -> None:
        """Tell a queue of the changes of these resources."""
        for uri in uris:
            self._queues[uri].add(queue)
            queue.subscribed.add(uri)

    def unsubscribe(self, queue: ChangeQueue, uris: Iterable[str]) -> None:
        """Tell a queue of these resources no longer."""
        for uri in list(uris):
            queue.subscribed.discard(uri)
            queue.forget(uri)
            if queues := self._queues.get(uri):
                queues.discard(queue)
                if not queues:
                    del self._queues[uri]

    def remove(self, queue: ChangeQueue) -> None:
        """Forget a queue."""
        self.unsubscribe(queue, queue.subscribed)

    def _on_event(self, event: Event) -> None:
        if not self._queues:
            return
        changed = list_changed_uris(event)
        for uri in (*changed, LIST) if changes_list(event) else changed:
            for queue in tuple(self._queues.get(uri, ())):
                queue.add(uri)


def make_change_notification(uri: str, meta: JsonObject | None = None) -> JsonObject:
    """Return the notification that a resource changed, or the list of them."""
    params: JsonObject = {"_meta": meta} if meta else {}
    if uri == LIST:
        return make_notification("notifications/resources/list_changed", params)
    return make_notification("notifications/resources/updated", {**params, "uri": uri})
