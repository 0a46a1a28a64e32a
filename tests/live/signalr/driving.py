"""A shell and a client in one: it drives a connection and reads what came of it."""

import json

from agentd.live.signalr.connection import (
    AnswerPoll,
    CloseLink,
    Connection,
    RemoveConnection,
    Write,
)
from agentd.live.signalr.negotiate import Terms, Transport
from agentd.live.signalr.records import EventRecord

PLAIN, STATEFUL, OLD = Terms(1), Terms(1, stateful=True), Terms(0)

END = "\x1e"
PING = {"type": 6}


def join_records(*messages):
    return "".join(json.dumps(message) + END for message in messages)


def decode_records(data: bytes):
    """Return the JSON of each record; all of them are whole."""
    *records, rest = data.decode().split(END)
    assert not rest
    return [json.loads(record) for record in records]


def make_event(number, chat=1, **more):
    return EventRecord("messageUpdate", [chat, {"n": number}], seq=number, chat=chat, **more)


class Drive:
    """``now`` is the time; links are names."""

    def __init__(self, terms=PLAIN, now=0.0):
        self.now = now
        self.connection = Connection(terms, now)
        self.links = 0
        self.link = None
        self.written = {}
        self.cut = {}
        self.answers = []
        self.forgotten = False
        self.commands = []

    def do(self, actions):
        """Carry out these actions; return the records that they wrote to any link."""
        new = []
        for action in actions:
            match action:
                case Write(link, record):
                    assert link not in self.cut
                    self.written.setdefault(link, []).extend(decode_records(record.data))
                    new += decode_records(record.data)
                case CloseLink(link, last):
                    assert link not in self.cut
                    self.cut[link] = decode_records(last.data)[0] if last else None
                case AnswerPoll(link, status, body):
                    self.answers.append((link, status, decode_records(body)))
                case RemoveConnection():
                    assert not self.forgotten
                    self.forgotten = True
                case command:
                    self.commands.append(command)
        return new

    def dial(self, transport=Transport.WEBSOCKET):
        self.links += 1
        self.link = f"link {self.links}"
        return self.do(self.connection.attach(self.link, transport, self.now))

    def send(self, *messages, link=None):
        return self.say(join_records(*messages), link)

    def say(self, data, link=None):
        return self.do(self.connection.on_message(link or self.link, data, self.now))

    def post(self, *messages):
        return self.do(self.connection.on_post(join_records(*messages).encode(), self.now))

    def poll(self, link, *, single=False):
        return self.do(self.connection.poll(link, self.now, single=single))

    def greet(self, version=1):
        return self.send({"protocol": "json", "version": version})

    def settle(self, version=1):
        """Dial, greet and ping, as the JavaScript client does."""
        self.dial()
        return self.greet(version) + self.send(PING)

    def tell(self, *numbers, chat=1):
        result = []
        for number in numbers:
            result += self.do(self.connection.send_event(make_event(number, chat), self.now))
        return result

    def lose(self, link=None):
        return self.do(self.connection.on_link_lost(link or self.link, self.now))

    def wait(self, seconds):
        """Time goes by, and each moment that is due is met exactly."""
        new, until = [], self.now + seconds
        while self.connection.due <= until:
            self.now = max(self.now, self.connection.due)
            new += self.do(self.connection.tick(self.now))
        self.now = until
        return new


def list_numbers(messages):
    """Return the numbers of the events among these messages."""
    return [message["arguments"][1]["n"] for message in messages if message.get("type") == 1]
