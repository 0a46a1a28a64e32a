"""``GET /api/start``: one answer instead of six, each part as it would be alone."""

from pathlib import Path

from tests.support.daemon import Serving

PARTS = {
    "me": "/api/me",
    "chats": "/api/chats?limit=200",
    "approvals": "/api/chat/approvals",
    "labels": "/api/chat-labels",
    "models": "/api/models",
    "skills": "/api/skills",
}


def test_each_part_is_what_its_own_address_answers(shared: Serving) -> None:
    ada = shared.administrator()
    shared.client().post("/api/chat-labels", {"name": "bug", "color": "#cc3b3b"})
    for number in range(3):
        shared.client().create_chat(title=f"Chat {number}")
    ada.put("/api/me", {"pin": [2], "look": {"theme": "dark"}})
    for client in (ada, shared.client()):
        found = client.get("/api/start").json()
        assert found == {name: client.get(path).json() for name, path in PARTS.items()}
    assert len(found["chats"]["chats"]) == 3


def test_nobody_reads_it_without_a_login(shared: Serving) -> None:
    assert shared.client(None).get("/api/start").status == 401


def test_a_persons_broken_file_keeps_nobody_out(shared: Serving) -> None:
    ada = shared.administrator()
    file = Path(shared.layout.get_preferences_path("ada"))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("format: [")
    try:
        found = ada.get("/api/start")
        assert found.status == 200
        assert found["me"] is None
        assert found["labels"] == ada.get("/api/chat-labels").json()
    finally:
        file.unlink()
