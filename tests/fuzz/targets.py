"""The parsers that read bytes from outside, each with what it is fed to begin with.

A target takes bytes and may raise the errors that its caller handles, and nothing else. ``unit`` is
a piece of input that is repeated to see that the parser's time grows with the input and no faster.
"""

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from zlib import crc32

from tornado.httputil import HTTPInputError

from agentd.acp import messages as acp_messages
from agentd.agent.engines.external.json_rpc import RpcPeer
from agentd.agent.mcp_servers import messages as mcp_client
from agentd.chats.journal_reader import JournalDamage, read_entries
from agentd.chats.labels.model import LabelList
from agentd.chats.remote_api import CreateChat, ReplaceQueue
from agentd.core.errors import AgentdError
from agentd.core.sse import SseReader
from agentd.gateway.ledger.day_file import decode_record
from agentd.gateway.vpn import links
from agentd.gateway.vpn.subscription import parse_subscription
from agentd.http.framing import ParsedHead, RequestParser
from agentd.http.json_body import decode_json
from agentd.http.multipart import read_form
from agentd.live.cursor import parse_cursor
from agentd.live.signalr import messages
from agentd.live.signalr.framing import RecordReader
from agentd.llm.dialects.anthropic import upstream as anthropic
from agentd.llm.dialects.embeddings.translation import EMBEDDING_DIALECTS, EmbeddingTranslator
from agentd.llm.dialects.gemini import upstream as gemini
from agentd.llm.dialects.openai_chat import upstream as openai_chat
from agentd.llm.dialects.openai_responses import upstream as openai_responses
from agentd.llm.endpoint import ChannelDialect
from agentd.mcp.messages import read_message
from agentd.schedules.cron import parse_cron
from agentd.speech import audio
from agentd.storage.checksummed_json import (
    CHECKSUM_SIZE,
    ChecksumMismatch,
    encode_checksummed,
)
from agentd.storage.yaml.reader import load_yaml
from agentd.storage.yaml.untrusted import parse_untrusted_yaml
from agentd.system.lines import Lines


class FuzzTarget(NamedTuple):
    """A parser, and inputs that it accepts."""

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    units: tuple[tuple[bytes, bytes, bytes], ...] = ()
    """Beginnings, pieces to repeat, and ends of large inputs."""
    raises: tuple[type[Exception], ...] = (AgentdError,)


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the input in parts whose lengths its own first byte chooses."""
    size = data[0] + 1 if data else 1
    for at in range(0, len(data), size if len(data) < 10_000 else 4096):
        yield data[at : at + (size if len(data) < 10_000 else 4096)]


def parse_json_body(data: bytes) -> None:
    """Parse bodies of requests."""
    for kind in (ReplaceQueue, CreateChat):
        try:
            decode_json(data, kind)
        except AgentdError:
            continue


def parse_signalr(data: bytes) -> None:
    """Parse what a client of the hub sends: frames, a handshake, then messages."""
    reader = RecordReader()
    for part in _split(data):
        for record in reader.feed(part):
            for parse in (messages.parse_handshake, messages.parse_message):
                try:
                    parse(record)
                except AgentdError:
                    continue


def parse_sse(data: bytes) -> None:
    """Parse a stream of server-sent events: whatever the parts, the events are the same."""
    whole = list(SseReader().feed(data))
    reader = SseReader()
    parts = [event for part in _split(data) for event in reader.feed(part)]
    assert parts == whole, "the events depend on how the bytes were split"


def parse_supplier_streams(data: bytes) -> None:
    """Parse the reply of a supplier in every dialect, streamed and whole; that never raises."""
    for dialect in (anthropic, gemini, openai_chat, openai_responses):
        reader = dialect.create_reader()
        for part in _split(data):
            reader.feed(part)
        reader.close()
        dialect.parse_response(data)


def parse_embeddings(data: bytes) -> None:
    """Parse a request for embeddings in both dialects, and the reply to one; that never raises."""
    for name, dialect in EMBEDDING_DIALECTS.items():
        with suppress(AgentdError):
            dialect.parse_request(data)
        with suppress(AgentdError):
            dialect.rewrite_for_passthrough(data, "m")
        for caller in EMBEDDING_DIALECTS:
            if caller != name:
                EmbeddingTranslator(caller, _EMBEDDED[caller], is_batch=True).translate_reply(
                    name, data, "m"
                )


def parse_json_rpc(data: bytes) -> None:
    """Parse lines of JSON-RPC: of engines, of editors, and of both sides of MCP."""
    lines = Lines()
    peer = RpcPeer(marked=True)
    peer.request("initialize", {})
    for part in _split(data):
        for line in lines.feed(part):
            peer.parse(line)
            acp_messages.parse_message(line)
            for parse in (mcp_client.decode_messages, _read_mcp):
                try:
                    parse(line)
                except AgentdError:
                    continue


def _read_mcp(line: bytes) -> None:
    read_message(decode_json(line, object))


def parse_link(data: bytes) -> None:
    """Parse a link of a VPN server."""
    links.parse_link(data.decode("utf-8", "replace"))


def parse_vpn_subscription(data: bytes) -> None:
    """Parse the body of a subscription."""
    parse_subscription(data, {}, parse_untrusted_yaml)


def parse_yaml(data: bytes) -> None:
    """Parse a file that a person writes."""
    load_yaml("labels.yml", data, LabelList)


def parse_journal(data: bytes) -> None:
    """Read a chat's journal: nothing comes after damage."""
    for journal in (data, b"\n".join(map(seal_line, data.split(b"\n")))):
        steps = list(read_entries(journal))
        assert not any(isinstance(step, JournalDamage) for step in steps[:-1])


def parse_ledger_line(data: bytes) -> None:
    """Read a line of the ledger."""
    for line in (data, seal_line(data.removesuffix(b"\n")) + b"\n"):
        with suppress(ChecksumMismatch):
            decode_record(line)


def seal_line(line: bytes) -> bytes:
    """Return a line with the checksum that belongs to it, without which nothing more is read."""
    has_checksum = line[-CHECKSUM_SIZE:].startswith(b',"crc":"')
    body = line[:-CHECKSUM_SIZE] if has_checksum else line.removesuffix(b"}")
    return b'%b,"crc":"%08x"}' % (body, crc32(body)) if body else line


def parse_http_requests(data: bytes) -> None:
    """Parse the bytes of a connection: whatever the parts, the requests are the same."""
    assert _list_requests(_split(data)) == _list_requests([data])


def _list_requests(parts: Iterable[bytes]) -> list[Any] | None:
    """Return each request with its body; None if there is an error."""
    parser, found = RequestParser(), list[Any]()
    try:
        for part in parts:
            parser.feed(part)
            while (event := parser.next_event()) is not None:
                if isinstance(event, ParsedHead):
                    found.append([event.start_line, list(event.headers.get_all()), b""])
                elif isinstance(event, bytes):
                    found[-1][2] += event
                else:
                    parser.begin_next()
    except HTTPInputError:
        return None
    return found


def parse_form(data: bytes) -> None:
    """Read a multipart form, in parts."""

    async def read() -> None:
        async for _ in read_form("multipart/form-data; boundary=x", _stream(data), 8, ("file",)):
            pass

    _run(read())


async def _stream(data: bytes) -> AsyncIterator[bytes]:
    for part in _split(data):
        yield part


def _run(coroutine: Any) -> None:
    """Run a coroutine that never waits, without the cost of a loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


def parse_audio(data: bytes) -> None:
    """Look at the head of a recording."""
    kind = audio.detect_kind(data)
    raw = audio.extract_raw(data)
    assert raw is None or len(raw) <= len(data)
    assert kind in (None, "wav", "ogg", "webm", "flac", "mp3")


def parse_small_texts(data: bytes) -> None:
    """Parse cursors and cron expressions."""
    text = data[:200].decode("utf-8", "replace")
    for parse in (parse_cursor, parse_cron):
        try:
            parse(text)
        except (ValueError, AgentdError):
            continue


_EVENT = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{}}}\n\n'
_CHUNK = b'data: {"choices":[{"delta":{"content":"hi"}}],"usage":null}\n\n'
_CALL = b'{"type":1,"invocationId":"1","target":"Subscribe","arguments":["all"]}\x1e'
_RPC = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[{"text":"x"}]}}\n'
_SS = b"ss://YWVzLTI1Ni1nY206cGFzc3dvcmQ@vpn.example.org:8388#Paris"
_VLESS = b"vless://b831381d-6324-4d53-ad4f-8cda48b30811@h.example:443?security=tls&type=ws#one"
_CLASH = b"proxies:\n- {name: a, type: ss, server: h, port: 1, cipher: aes-256-gcm, password: x}\n"
_XRAY = json.dumps({"outbounds": [{"protocol": "vless", "settings": {"vnext": []}}]}).encode()
_CREATED = encode_checksummed(
    {"n": 1, "seq": 1, "at": "2026-01-01T00:00:00.000Z", "by": "me",
     "body": {"type": "chat.created", "title": "t"}}
)  # fmt: skip
_RECORD = encode_checksummed(
    {"id": "a", "at": "2026-01-01T00:00:00.000Z", "key": "k", "endpoint": "/v1/messages",
     "status": 200, "outcome": "ok"}
)  # fmt: skip
_FORM = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhi\r\n--x--\r\n'

_CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"

_EMBEDDED: Mapping[ChannelDialect, bytes] = {
    "openai-chat": b'{"model":"m","input":["a"],"encoding_format":"base64"}',
    "gemini": b'{"requests":[{"content":{"parts":[{"text":"a"}]},"outputDimensionality":1}]}',
}

TARGETS: dict[str, FuzzTarget] = {
    "json-body": FuzzTarget(
        parse_json_body,
        (b'{"prompts":[{"prompt":"a","id":1,"isPaused":true}]}', b'{"prompt":"x","worktree":null}'),
        (
            (b'{"prompts":[', b'{"prompt":"a"},', b'{"prompt":"b"}]}'),
            (b"", b"[", b""), (b"", b'{"a":', b""), (b'{"prompt":', b"9", b"}"),
            (b'{"prompt":"', b"\\u00e9", b'"}'), (b"{", b'"a":1,', b'"b":2}'),
        ),
    ),
    "signalr": FuzzTarget(
        parse_signalr,
        (
            b'{"protocol":"json","version":1}\x1e' + _CALL,
            b'{"type":6}\x1e{"type":9,"sequenceId":1}\x1e',
        ),
        ((b"", _CALL, b""), (b"", b"\x1e", b""), (b"", b"[", b""), (b"", b"x", b"\x1e")),
    ),
    "sse": FuzzTarget(
        parse_sse,
        (_EVENT, b": hello\nid: 1\nretry: 5\rdata: a\r\ndata\n\n", b"\xef\xbb\xbfdata: x\n\n"),
        (
            (b"", b"data: a\n", b"\n"), (b"", b"\r", b""), (b"", b"data: a\n\n", b""),
            (b"data: ", b"x", b"\n\n"), (b"", b":", b""), (b"id: ", b"1", b"\n\n"),
        ),
    ),
    "supplier-streams": FuzzTarget(
        parse_supplier_streams,
        (
            _EVENT, _CHUNK + b"data: [DONE]\n\n",
            b'data: {"candidates":[{"content":{"parts":[{}]}}]}\n\n',
        ),
        (
            (b"", _CHUNK, b""), (b"", _EVENT, b""), (b"data: ", b"[", b"\n\n"),
            (b"", b"data: {}\n", b"\n"),
        ),
    ),
    "embeddings": FuzzTarget(
        parse_embeddings,
        (
            *_EMBEDDED.values(),
            b'{"data":[{"index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1}}',
            b'{"embeddings":[{"values":[0.5,-1e9]}],"usageMetadata":{"promptTokenCount":1}}',
        ),
        (
            (b'{"requests":[', b'{"content":{"parts":[{"text":"a"}]}},', b"{}]}"),
            (b'{"model":"m","input":[', b'"a",', b'""]}'),
            (b'{"embeddings":[{"values":[', b"0.5,", b"1]}]}"),
            (b'{"data":[', b'{"index":0,"embedding":[1]},', b"{}]}"),
        ),
    ),
    "json-rpc": FuzzTarget(
        parse_json_rpc,
        (_RPC, b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}\n', b"[]\n"),
        ((b"", _RPC, b""), (b"", b"\n", b""), (b"", b"[", b"\n"), (b"", b"x", b"\n")),
    ),
    "vpn-link": FuzzTarget(
        parse_link,
        (_SS, _VLESS, b"vmess://" + base64.b64encode(b'{"add":"h.example","port":1,"id":"x"}')),
        (
            (_SS, b"%20", b""), (_VLESS, b"&a=b", b""), (b"ss://", b"QUFB", b"@h:1"),
            (b"vless://", b"@", b""),
        ),
    ),
    "vpn-subscription": FuzzTarget(
        parse_vpn_subscription,
        (
            _SS + b"\n" + _VLESS, base64.b64encode(_SS), _CLASH, _XRAY,
            b"[Interface]\nPrivateKey = x\n",
        ),
        (
            (b"", _SS + b"\n", b""), (b"", b"[", b""), (b"{", b'"a":{', b""), (b"", b"\n", b""),
            (b"", b"QUFB", b""), (b"", b"# a\n", b""), (b"proxies:\n", b"- {}\n", b""),
        ),
    ),
    "yaml": FuzzTarget(
        parse_yaml,
        (b"labels:\n- name: old\n  color: red\n# end\n", b'labels: [{name: "a", color: ""}]\n'),
        (
            (b"labels:\n", b"- name: a\n", b""), (b"", b"#\n", b""), (b"a: ", b"[", b""),
            (b"", b"- ", b"a"), (b'a: "', b"\\x41", b'"'), (b"", b"? ", b""),
            (b"", b"a: &a b\n", b""),
        ),
    ),
    "journal": FuzzTarget(
        parse_journal,
        (_CREATED, _CREATED * 2, _CREATED[:-9]),
        ((b"", _CREATED, b""), (b"", b"\n", b""), (b"", b"x", b""), (_CREATED, b"{}\n", b"")),
    ),
    "ledger": FuzzTarget(
        parse_ledger_line,
        (_RECORD, _RECORD[:-9]),
        ((b"", b"x", b"\n"), (b'{"id":"', b"a", b'"}\n')),
    ),
    "http-requests": FuzzTarget(
        parse_http_requests,
        (
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 2, b"POST /x HTTP/1.0\nContent-Length: 2\n\n{}",
            b"%b2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n" % _CHUNKED,
        ),
        (
            (b"GET / HTTP/1.1\r\n", b"A: b\r\n", b"\r\n"),
            (b"GET / HTTP/1.1\r\nA:", b" ", b"\0\r\n\r\n"),
            (b"", b"GET / HTTP/1.1\r\n\r\n", b""), (b"", b"\r\n", b""),
            (_CHUNKED, b"1\r\na\r\n", b"0\r\n\r\n"),
        ),
    ),
    "multipart": FuzzTarget(
        parse_form,
        (_FORM, b"--x\r\n\r\n--x--", b"--x--\r\n"),
        (
            (b"", b"--x\r\n", b""), (_FORM[:60], b"a", b"\r\n--x--\r\n"), (b"", b"-", b""),
            (_FORM[:-9], b"\r\n--", b""), (_FORM[:-9], b"\r", b""),
        ),
    ),
    "audio": FuzzTarget(
        parse_audio,
        (audio.build_wav(b"ab" * 9), b"OggS\0", b"ID3", b"fLaC", b"RIFF\0\0\0\0WAVE"),
        ((b"RIFF\0\0\0\0WAVE", b"LIST\0\0\0\0", b""), (b"RIFF\0\0\0\0WAVE", b"a", b"")),
    ),
    "small-texts": FuzzTarget(
        parse_small_texts,
        (b"17.0~3f9a12cd", b"*/5 0-6,12 * jan mon#2", b"@daily", b"0 0 L * *"),
    ),
}  # fmt: skip
