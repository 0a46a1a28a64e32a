"""Live events: feed, event log, replay, server-sent events and the SignalR hub."""
