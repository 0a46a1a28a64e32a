"""``POST /api/render`` and ``?html=1``: Markdown as cleaned HTML, for whoever may read."""

import json

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.support.daemon import CHEAP, WORD, Serving
from tests.support.fixtures import Serve


def test_who_may_read_may_render(serve: Serve) -> None:
    daemon = serve()
    UserFile(daemon.layout).add(User("vera", "viewer", hash_password(WORD, CHEAP)))
    signing = {"user": "vera", "password": WORD, "bearer": True}
    token = daemon.client(None).post("/api/session", signing)["token"]
    headers: dict[str, str]
    for client, headers in (
        (daemon.client(), {}),
        (daemon.client(None), {"Authorization": f"Bearer {token}"}),
    ):
        reply = client.post("/api/render", {"text": "**bold** <i>\nnext"}, headers)
        assert reply.status == 200
        html = "<p><strong>bold</strong> &lt;i&gt;\nnext</p>\n"
        assert reply.json() == {"html": html, "cut": False}
        kept = client.post("/api/render", {"text": "a\nb", "keepBreaks": True}, headers)
        assert "<br>" in kept["html"]
        assert client.post("/api/render", {"text": 1}, headers).status == 400
    assert daemon.client(None).post("/api/render", {"text": "x"}).status == 401


def test_long_blocks_are_cut_and_huge_ones_refused(shared: Serving) -> None:
    client = shared.client()
    reply = client.post("/api/render", {"text": "a line\n\n" * 20_000})
    assert (reply.status, reply["cut"]) == (200, True)
    assert client.post("/api/render", {"text": "x" * 5_000_000}).status == 413
    assert client.get("/api/session").status == 200


def test_messages_come_with_their_html_where_that_is_asked_for(shared: Serving) -> None:
    client = shared.client()
    prompt = "say *this*\nand <script>alert(1)</script>"
    chat = client.create_chat(prompt=prompt)
    client.messages(chat)
    path = f"/api/chat/{chat}/messages"
    plain = client.get(path)["messages"]
    assert {message["html"] for message in plain} == {None}
    user, reply = client.get(f"{path}?html=1")["messages"]
    assert user["content"] == prompt
    assert "<em>this</em><br>" in user["html"]
    assert "<script" not in json.dumps([user["html"], reply["html"]])
    assert "<em>this</em>" in reply["html"]
    assert not reply["htmlCut"]
    assert client.get(f"{path}?html=yes").status == 400


def test_a_very_long_message_has_the_html_of_its_beginning(shared: Serving) -> None:
    client = shared.client()
    chat = client.create_chat(prompt="a line\n\n" * 15_000)
    client.messages(chat)
    reply = client.get(f"/api/chat/{chat}/messages?html=1")["messages"][-1]
    assert reply["htmlCut"]
    assert len(reply["content"]) > 100_000
