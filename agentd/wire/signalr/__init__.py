"""The SignalR hub protocol of ``/liveChatHub``: bytes in, actions out; commands in, records out.

Pure: no socket, no clock, no waiting. A shell owns the sockets and drives one ``Connection`` each:

- ``negotiate``   the answer to ``POST …/negotiate``, from its query
- ``framing``     bytes ⇄ records, which end with 0x1E; WebSocket frames and SSE units
- ``handshake``   the first record of a client and the answer to it
- ``messages``    what a client sends, typed
- ``records``     what the server sends, encoded once however many listen
- ``hub``         the methods that a client may call, and what it is subscribed to
- ``resumption``  stateful reconnect: numbers, acknowledgements, the replay buffer
- ``outlet``      what may go out now, what waits, and how much of it at most
- ``polls``       the long polls of one connection
- ``connection``  all of it together: one client, over all its sockets

Moments are seconds of a monotonic clock, passed in. Where Microsoft's documents and the clients
that people have differ, the clients are followed, and the place says so.
"""
