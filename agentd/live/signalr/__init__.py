"""The SignalR protocol and the rules of its hub, without I/O."""
