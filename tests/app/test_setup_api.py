"""The first run: engines of the machine, tried and used, over a real socket."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Client, Serving

VERSION = '#!/bin/sh\n[ "$1" = --version ] && { echo 1.3.0; exit; }\n'
OFFER = """{"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s", "configOptions": [
{"id": "model", "category": "model", "options": [{"value": "a/small"}, {"value": "a/large"}]}]}}
"""
READY = f"""read line; echo '{{"jsonrpc": "2.0", "id": 1, "result": {{"protocolVersion": 1}}}}'
read line; echo '{" ".join(OFFER.split())}'
read line; sleep 60
"""


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """An administrator on a machine with opencode, signed in, and a broken Codex."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("opencode", VERSION + READY), ("codex", VERSION + "exit 3\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    signed_in = tmp_path / ".local/share/opencode/auth.json"
    signed_in.parent.mkdir(parents=True)
    signed_in.write_text("{}")
    with Serving(tmp_path) as serving:
        yield serving.administrator()


@pytest.fixture
def supplier() -> Iterator[str]:
    """The address of a supplier with one model, whose key is ``right``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = 200 if self.headers["Authorization"] == "Bearer right" else 401
            sizes = {"context_length": 200_000, "max_completion_tokens": 32_000}
            body = json.dumps({"data": [{"id": "small", **sizes}]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_installed_agents_are_found_with_version_and_sign_in(admin: Client) -> None:
    found = {one["program"]: one for one in admin.get("/api/setup")["agents"]}
    assert set(found) == {"codex", "opencode"}
    assert found["opencode"]["version"] == "1.3.0"
    assert found["opencode"]["signedIn"]
    assert not found["codex"]["signedIn"]
    assert found["codex"]["signIn"] == "codex login"


def test_a_program_is_started_without_a_prompt_and_reported_where_it_fails(admin: Client) -> None:
    works = admin.post("/api/setup/try", {"program": "opencode"})
    assert works["ok"]
    assert [step["ok"] for step in works["steps"]] == [True, True, True]
    assert works["models"] == ["a/small", "a/large"]
    broken = admin.post("/api/setup/try", {"program": "codex"})
    assert not broken["ok"]
    assert [step["ok"] for step in broken["steps"]] == [True, True, False]
    assert broken["steps"][-1]["detail"]
    assert broken["models"] == []
    missing = admin.post("/api/setup/try", {"program": "gemini"})
    assert [step["ok"] for step in missing["steps"]] == [False]


def test_a_supplier_is_asked_for_its_models(admin: Client, supplier: str) -> None:
    def attempt(key: str, model: str = "") -> dict[str, object]:
        wanted = {"dialect": "openai-chat", "url": supplier, "key": key, "model": model}
        answer = admin.post("/api/setup/try", {"supplier": wanted})
        assert "wrong" not in answer.body.decode()
        return {"ok": answer["ok"], "models": answer["models"]}

    assert attempt("right") == {"ok": True, "models": ["small"]}
    assert attempt("right", "small") == {"ok": True, "models": ["small"]}
    assert attempt("right", "large") == {"ok": False, "models": ["small"]}
    assert attempt("wrong") == {"ok": False, "models": []}


def test_what_is_used_becomes_the_default_at_once(admin: Client, supplier: str) -> None:
    wanted = {"dialect": "openai-chat", "url": supplier, "key": "right", "model": "small"}
    assert admin.post("/api/setup/use", {"supplier": wanted})["model"] == "small"
    assert admin.get("/api/models")["default"] == "small"
    kept = admin.get("/api/models/small")
    assert (kept["context"], kept["max_output"]) == (200_000, 32_000)
    assert admin.post("/api/setup/use", {"program": "opencode"})["model"] == "opencode"
    assert admin.get("/api/setup")["default"] == "opencode"
    assert admin.post("/api/setup/use", {})["model"] == "offline"


@pytest.mark.parametrize(
    "body",
    [
        {"program": "sh"},
        {"program": "codex", "supplier": {"dialect": "openai-chat", "url": "http://127.0.0.1:1"}},
        {"supplier": {"dialect": "openai-chat", "url": "file:///etc/passwd", "model": "m"}},
        {"supplier": {"dialect": "openai-chat", "url": "http://127.0.0.1:1"}},
    ],
)
def test_what_cannot_be_used_changes_nothing(admin: Client, body: dict[str, object]) -> None:
    assert admin.post("/api/setup/use", body).status == 400
    assert admin.get("/api/setup")["default"] == ""


def test_only_administrators_set_up(tmp_path: Path) -> None:
    with Serving(tmp_path) as serving:
        client = serving.client()
        assert client.get("/api/setup").status == 403
        assert client.post("/api/setup/try", {}).status == 403
        assert client.post("/api/setup/use", {}).status == 403


def test_a_program_that_lists_no_models_in_time_works_all_the_same(
    admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentd.app.engine_inspection.LISTING_SECONDS", 0.2)
    silent = READY.replace("a/small", "lost").replace('echo \'{"jsonrpc": "2.0", "id": 2', ": '")
    (tmp_path / "bin" / "opencode").write_text(VERSION + silent)
    tried = admin.post("/api/setup/try", {"program": "opencode"})
    assert (tried["ok"], tried["models"]) == (True, [])
