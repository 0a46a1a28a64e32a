"""A gateway in which every route of the management API has something to return."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agentd.auth.password import hash_password
from agentd.auth.roles import User
from agentd.auth.user_store import UserFile
from tests.gateway.admin.api.described import Description, Manager
from tests.gateway.admin.api.following import Follower
from tests.gateway.admin.conftest import HASH, MANAGEMENT_KEY
from tests.gateway.catalogue.samples import write_catalogue
from tests.gateway.conftest import SECRET, GatewaySetup
from tests.supplier.steps import Answer, Say, Tokens
from tests.supplier.supplier import Supplier
from tests.support.daemon import CHEAP, WORD, Reply, Serving

Address = dict[str, Any]

MADE = ("channels", "models", "keys", "budgets", "management-keys", "secret-rules", "alert-targets")
"""The resources of which the examples make one each, in this order: later ones name earlier."""

NOBODY = "https://127.0.0.1:9"
"""Where nothing listens."""


class ExampleGateway:
    """A gateway whose recipe was followed, with the resources that the examples create."""

    def __init__(self, setup: GatewaySetup, daemon: Serving) -> None:
        self.setup = setup
        self.daemon = daemon
        self._viewer_token = ""
        self._manager = Manager(daemon.url, MANAGEMENT_KEY)
        follower = Follower(
            daemon.url,
            supplier_url=setup.supplier.url,
            supplier_key=SECRET,
            supplier_model="scripted-large",
            supplier_is_local=True,
        )
        self.walked = {
            (one["method"], one["path"].partition("?")[0]) for one in follower.follow(keep=True)
        }
        """What was answered well, as a method and a path of the description."""
        self.manager.patch(
            f"/api/agent/channels/{follower.values['channel']}",
            {"balance": {"source": "deepseek"}},
        )
        self.description = Description(self.manager.get("/api/agent").json())
        licence = Path(setup.layout.licence).read_text()
        self._bodies = {
            ("PUT", "/api/agent/licence"): {"token": licence},
            ("POST", "/api/agent/channels/{name}/copy"): {"name": "copied"},
        }
        self._names = {
            "/api/agent/requests/{id}": follower.values["request_id"],
            "/api/agent/channels/{name}/balance": follower.values["channel"],
            "/api/agent/channels/{name}/check": follower.values["channel"],
            "/api/agent/channels/{name}/models": follower.values["channel"],
            "/api/agent/models/{name}/check": follower.values["model"],
            "DELETE /api/agent/channels/{name}": "copied",  # the others are in use
            "DELETE /api/agent/models/{name}": "large-2",
            "DELETE /api/agent/budgets/{name}": "gone",
        }
        for resource in MADE:
            path = f"/api/agent/{resource}"
            made = self.send_good(self.description.addresses["POST", path]).json()
            self._names[path] = made.get("id", made.get("name"))
        for resource in ("channels", "models"):
            self.send_good(
                self.description.addresses["POST", f"/api/agent/{resource}/{{name}}/copy"]
            )
        self.send_good(self.description.addresses["POST", "/api/agent/channels/{name}/models"])
        self.manager.post("/api/agent/budgets", {"name": "gone", "owner": "nobody"})
        self.manager.post("/api/agent/channels/openai/copy", {"name": "undone"})
        changes = self.manager.get("/api/agent/changes?limit=1")
        self._change: int = changes["items"][0]["number"]

    @property
    def manager(self) -> Manager:
        """A client with a fresh connection, since idle ones are closed."""
        self._manager.close()
        return self._manager

    @property
    def viewer_token(self) -> str:
        """The token of a login that may not manage anything."""
        if not self._viewer_token:
            viewer = User("vera", "viewer", hash_password(WORD, CHEAP))
            UserFile(self.daemon.layout).add(viewer)
            signing = {"user": "vera", "password": WORD, "bearer": True}
            token: str = self.daemon.client(None).post("/api/session", signing)["token"]
            self._viewer_token = token
        return self._viewer_token

    def send_good(self, address: Address) -> Reply:
        """Send the request of the description; the answer is a success."""
        reply = self.manager.send(
            address["method"], self.build_path(address), self.build_body(address)
        )
        assert reply.status == address["status"], (address["method"], address["path"], reply.body)
        self.walked.add((address["method"], address["path"]))
        return reply

    def build_body(self, address: Address) -> Any:
        """Return a body that is accepted here; None if there is none."""
        result = self._bodies.get((address["method"], address["path"]))
        return result or next((one["example"] for one in address["body"]), None)

    def build_path(self, address: Address, name: str = "") -> str:
        """Return the address of an existing resource, or of another ``name``."""
        path: str = address["path"]
        if path.endswith("/requests/stream"):
            return f"{path}?to=2020-01-01"  # it ends
        if "{number}" in path:
            return path.replace("{number}", name or str(self._change))
        usual = self._names.get(path) or self._names.get(path.partition("/{")[0], "")
        name = name or self._names.get(f"{address['method']} {path}") or usual
        return re.sub("{.*?}", name, path)


@contextmanager
def open_example_gateway(folder: Path) -> Iterator[ExampleGateway]:
    """Serve an example gateway for the duration of the block."""
    with ExitStack() as stack:
        supplier = stack.enter_context(Supplier())
        supplier.answer_always(Answer((Say("Hello."),), Tokens(input=1000, output=100)))
        supplier.documents["/user/balance"] = {
            "balance_infos": [{"currency": "USD", "total_balance": "110.00"}]
        }
        setup = GatewaySetup(folder, supplier)
        setup.channels, setup.models = [], []
        setup.settings = {"export": {"url": NOBODY.replace("https", "http")}}
        setup.write()
        write_catalogue(setup.layout)
        daemon = stack.enter_context(Serving(folder, environ={"PROXY_APP_HASH": HASH}))
        gateway = ExampleGateway(setup, daemon)
        stack.callback(gateway.manager.close)
        yield gateway
