"""The export, managed by a program, over a daemon with a gateway and a real database."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import openai
import pytest

from agentd.gateway.export.clickhouse import ClickHouse
from agentd.gateway.export.days import DayProgress
from agentd.gateway.export.ports import ExportProgress
from agentd.gateway.export.state_store import ExportStateFile
from agentd.llm.upstream.protocol import Timeouts
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.gateway.admin.api.described import Manager
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.conftest import GatewaySetup
from tests.gateway.ledger.entries import build_record
from tests.supplier.steps import Say
from tests.support.clickhouse import PASSWORD, Server, running_clickhouse
from tests.support.daemon import PATIENCE, Client, Serving, until
from tests.support.ports import find_free_port

ALL = "/api/agent/export"
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
SPAN = {"from": "2026-01-01", "to": "2026-12-31"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_clickhouse(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.fixture
def booked(setup: GatewaySetup) -> None:
    """Three days of two requests each."""
    for number, day in enumerate(DAYS):
        path = Path(Layout.get_ledger_day_path(setup.layout, day))
        path.parent.mkdir(parents=True, exist_ok=True)
        at = f"{day}T00:00:00.000Z"
        path.write_bytes(
            b"".join(encode_checksummed(build_record(10 * number + one, at)) for one in range(2))
        )


@pytest.fixture
def managed(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> Iterator[Callable[..., Client]]:
    """A client of a daemon with these settings, which checks every answer."""
    with ExitStack() as stack:

        def start_and_manage(**export: Any) -> Client:
            setup.settings = {"export": export} if export else {}
            daemon = start_gateway(environ={"PROXY_APP_HASH": HASH})
            return stack.enter_context(closing(Manager(daemon.url, MANAGEMENT_KEY)))

        yield start_and_manage


def build_export_settings(server: Server, **more: Any) -> dict[str, Any]:
    return {"url": server.url, "user": "agentd", "password": PASSWORD, **more}


def wait_until_exported(client: Client) -> Any:
    """Wait until nothing is left to be sent; return the state."""

    def get_idle_state() -> Any:
        now = client.get(ALL).json()
        return now if now["checkedAt"] and not now["lagDays"] and now["phase"] == "idle" else None

    return until(get_idle_state)


@pytest.mark.usefixtures("booked")
def test_the_ledger_is_sent_automatically_and_each_day_is_reported(
    managed: Callable[..., Client], server: Server
) -> None:
    """The proxy specification, section 1: the export's state is read."""
    client = managed(**build_export_settings(server, table="by_itself"))
    now = wait_until_exported(client)
    assert [(day["day"], day["state"], day["rows"]) for day in now["items"]] == [
        (day, "done", 2) for day in reversed(DAYS)
    ]
    assert (now["lastError"], now["lagSince"], now["table"]) == ("", None, "by_itself")
    assert len(server.rows(table="by_itself")) == 6
    assert PASSWORD.encode() not in client.get(ALL).body


@pytest.mark.usefixtures("booked")
def test_days_are_reported_page_by_page_and_by_their_state(
    managed: Callable[..., Client], server: Server
) -> None:
    client = managed(**build_export_settings(server, table="pages", since=DAYS[2]))
    wait_until_exported(client)
    first = client.get(f"{ALL}?limit=2")
    assert [day["day"] for day in first["items"]] == [DAYS[2], DAYS[1]]
    second = client.get(f"{ALL}?limit=2&cursor={first['next']}")
    assert ([day["day"] for day in second["items"]], second["next"]) == ([DAYS[0]], "")
    done = client.get(f"{ALL}?state=done")
    assert [day["day"] for day in done["items"]] == [DAYS[2]]
    assert client.get(f"{ALL}?state=lost").status == 400


@pytest.mark.usefixtures("booked")
def test_a_backfill_is_tried_first_and_then_sends_exactly_the_missed_days(
    managed: Callable[..., Client], server: Server
) -> None:
    """The proxy specification, section 1: missed days are sent later."""
    client = managed(**build_export_settings(server, table="filled", since=DAYS[2]))
    wait_until_exported(client)
    dry = client.post(f"{ALL}/backfill?dry_run=true", SPAN)
    assert (dry["rows"], dry["started"]) == (4, False)
    assert [(day["day"], day["state"], day["exact"]) for day in dry["days"]] == [
        (DAYS[0], "pending", True),
        (DAYS[1], "pending", True),
    ]
    assert dry["bytes"] == sum(day["bytes"] for day in dry["days"]) > 0
    assert len(server.rows(table="filled")) == 2
    assert client.post(f"{ALL}/backfill", SPAN).json() == {**dry.json(), "started": True}
    until(lambda: len(server.rows(table="filled")) == 6)
    until(lambda: not client.post(f"{ALL}/backfill", SPAN)["days"])
    assert len(server.rows(table="filled")) == 6


@pytest.mark.usefixtures("booked")
def test_a_dead_database_is_reported(managed: Callable[..., Client]) -> None:
    client = managed(url=f"http://127.0.0.1:{find_free_port()}")
    now = until(lambda: found if (found := client.get(ALL).json())["lastError"] else None)
    assert now["phase"] == "waiting"
    assert (now["lagDays"], now["lagSince"]) == (3, DAYS[0])
    assert "cannot be connected to" in now["lastError"]
    assert now["failedAt"]
    assert client.get("/api/agent/summary")["exportProblem"] == now["lastError"]
    noted = client.get("/api/agent/service-log?kind=export")["items"]
    assert [note["level"] for note in noted] == ["warning"], "once, however often it is tried"
    assert now["lastError"] in noted[0]["text"]
    reply = client.post(f"{ALL}/check", None)
    assert reply["ok"] is False
    assert [(step["name"], step["passed"]) for step in reply["steps"]] == [("reach", False)]


@pytest.fixture
def waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database may take longer for an answer than anything else in a test."""
    *others, _ = ClickHouse._ask.__defaults__ or ()
    long = Timeouts(head=2 * PATIENCE, idle=2 * PATIENCE, total=2 * PATIENCE)
    monkeypatch.setattr(ClickHouse._ask, "__defaults__", (*others, long))


@pytest.mark.usefixtures("booked", "waited_for")
def test_a_database_that_never_answers_slows_no_request_and_no_answer(
    setup: GatewaySetup, managed: Callable[..., Client]
) -> None:
    """It takes what it is told, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        key, client = setup.add_key(), managed(url=url)
        caller, _ = mute.accept()
        with caller:
            assert caller.recv(100).startswith(b"POST /?database=default&query=")
            setup.supplier.script(Say("hi there"))
            hello: Any = [{"role": "user", "content": "hello"}]
            with openai.OpenAI(
                base_url=f"{client.url}/v1", api_key=key, timeout=PATIENCE, max_retries=0
            ) as models:
                models.chat.completions.create(model="by-chat", messages=hello)
            assert client.post(f"{ALL}/backfill", SPAN)["rows"] == 6
            assert client.get(ALL)["phase"] == "sending", "all this while it has said nothing"
        assert setup.wait_for_records(1)


@pytest.mark.usefixtures("booked")
def test_what_is_not_sent_yet_is_kept_however_old_it_is(
    setup: GatewaySetup, start_gateway: Callable[..., Serving]
) -> None:
    sent = DayProgress(version=1, done_at="2026-01-02T00:00:00.000Z")
    ExportStateFile(setup.layout).save(ExportProgress("", {DAYS[0]: sent}))
    setup.settings = {"keep_days": 1, "export": {"url": f"http://127.0.0.1:{find_free_port()}"}}
    start_gateway(environ={"PROXY_APP_HASH": HASH})
    first, second, _ = (Path(setup.layout.get_ledger_day_path(day)) for day in DAYS)
    until(lambda: not first.exists())
    assert second.exists()


def test_a_check_shows_how_far_it_came(managed: Callable[..., Client], server: Server) -> None:
    client = managed(**build_export_settings(server, table="looked"))
    reply = client.post(f"{ALL}/check", None)
    assert (reply.status, reply["ok"]) == (200, True)
    assert [step["name"] for step in reply["steps"]] == ["reach", "sign_in", "table"]
    wrong = client.patch("/api/agent/settings", {"export": {"password": "another-password"}})
    assert wrong.status == 200, wrong.body
    reply = client.post(f"{ALL}/check", None)
    assert [(step["name"], step["passed"]) for step in reply["steps"]] == [
        ("reach", True),
        ("sign_in", False),
    ]
    assert b"another-password" not in reply.body


@pytest.mark.usefixtures("booked")
def test_what_is_not_set_up_says_how(managed: Callable[..., Client]) -> None:
    client = managed()
    assert client.get(ALL)["phase"] == "off"
    reply = client.post(f"{ALL}/backfill", SPAN)
    assert (reply.status, reply["error"]) == (409, "Conflict")
    assert "export.url" in reply["details"]
    assert client.post(f"{ALL}/backfill?dry_run=true", SPAN)["rows"] == 6
    reply = client.post(f"{ALL}/check", None)
    assert [(step["name"], step["passed"]) for step in reply["steps"]] == [("settings", False)]


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"from": DAYS[0]},
        {"from": "x", "to": "y"},
        {"from": DAYS[1], "to": DAYS[0]},
        {**SPAN, "x": 1},
    ],
)
def test_what_are_no_days_are_refused(manager: Client, wish: dict[str, Any]) -> None:
    assert manager.post(f"{ALL}/backfill", wish).status == 400


@pytest.mark.usefixtures("booked")
def test_a_password_that_is_unavailable_is_reported_by_its_place(
    managed: Callable[..., Client], server: Server
) -> None:
    client = managed(**build_export_settings(server, password="env:NO_SUCH_VARIABLE"))
    now = until(lambda: found if (found := client.get(ALL).json())["lastError"] else None)
    assert "export.password" in now["lastError"]
    assert "NO_SUCH_VARIABLE" in now["lastError"]
    assert now["retrySeconds"] > 3000
