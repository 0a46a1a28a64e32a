"""``GET /api/chat/approvals``: the open questions of all chats, over HTTP."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.daemon import Serving, until

APPROVALS = "/api/chat/approvals"


def test_chats_that_are_deleted_meanwhile_take_only_their_own_questions(tmp_path: Path) -> None:
    with Serving(tmp_path, budget_per_chat=0) as house, ThreadPoolExecutor(1) as pool:
        client, other = house.client(), house.client()
        chats = [client.create_chat(prompt="Hello") for _ in range(30)]
        until(lambda: len(client.get(APPROVALS)["approvals"]) == len(chats))

        def delete_chats() -> None:
            for chat in chats[:-1]:
                assert other.delete(f"/api/chats/{chat}").status == 200

        deleting = pool.submit(delete_chats)
        while not deleting.done():
            reply = client.get(APPROVALS)
            assert reply.status == 200
            assert chats[-1] in [one["chatId"] for one in reply["approvals"]]
        deleting.result()
        assert [one["chatId"] for one in client.get(APPROVALS)["approvals"]] == chats[-1:]
