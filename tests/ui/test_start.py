"""``GET /api/start``: one answer instead of six, each part as it would be alone."""

from pathlib import Path

from agentd.chats.listing import MOST_OF_A_KIND
from tests.benchmarks.states import Maker
from tests.support.daemon import Client, Serving

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
        parts = {name: client.get(path).json() for name, path in PARTS.items()}
        assert found == {**parts, "notable": []}
    assert len(found["chats"]["chats"]) == 3


def test_older_chats_are_told_that_wait_or_are_pinned_or_were_active_last(tmp_path: Path) -> None:
    maker = Maker(str(tmp_path))
    maker.add_chat(3, waiting=1)
    for _ in range(2, 501):
        maker.add_chat(3)
    maker.finish()
    with Serving(tmp_path) as serving:
        ada, key = serving.administrator(), serving.client()
        ada.put("/api/me", {"pin": [2], "seen": {str(chat): 3 for chat in range(3, 41)}})
        ada.put("/api/chats/50", {"title": "Active just now"})
        waiting, active = {1}, {50, *range(302 - MOST_OF_A_KIND, 301)}

        def list_notable(client: Client) -> list[int]:
            return [chat["chatId"] for chat in client.get("/api/start")["notable"]]

        assert sorted(list_notable(ada)) == sorted(waiting | active | {2} | set(range(3, 41)))
        assert sorted(list_notable(key)) == sorted(waiting | active), "it has seen and pinned none"
        newest = ada.get("/api/start")["chats"]
        found, before = [chat["chatId"] for chat in newest["chats"]], newest["next"]
        while before is not None:
            page = ada.get(f"/api/chats?limit=200&before={before}")
            found += [chat["chatId"] for chat in page["chats"]]
            before = page["next"]
        assert found == list(range(500, 0, -1)), "the pages are the same as ever"


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
