"""A Python client that is generated from the OpenAPI document works with the running daemon."""

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.daemon import KEY, Serving, until

pytest.importorskip("openapi_python_client", reason="it is installed by the extra test")

UNKNOWN_MEDIA = re.compile("Unsupported content type|Unsupported content_type image/")
"""All that the generator may warn of: it knows no sounds as a body, and no pictures."""


@pytest.fixture(scope="module")
def package(shared: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a package that the document was made into, every module of it imported."""
    folder = tmp_path_factory.mktemp("generated")
    document = folder / "openapi.json"
    document.write_bytes(shared.client().get("/api/openapi.json").body)
    (folder / "config.yml").write_text(
        "project_name_override: generated\npackage_name_override: generated\npost_hooks: []\n"
    )
    options = ["--output-path", str(folder / "generated"), "--meta", "none"]
    options += ["--config", str(folder / "config.yml")]
    program = "from openapi_python_client.cli import app; app()"
    made = subprocess.run(
        [sys.executable, "-c", program, "generate", "--path", str(document), *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    result = made.stdout + made.stderr
    assert made.returncode == 0, result
    assert result.count("WARNING") == len(UNKNOWN_MEDIA.findall(result)), result
    assert "Unable to process" not in result
    assert "will not be generated" not in result
    sys.path.insert(0, str(folder))
    try:
        generated = importlib.import_module("generated")
        for module in pkgutil.walk_packages(generated.__path__, "generated."):
            importlib.import_module(module.name)
        yield "generated"
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == "generated"]:
            del sys.modules[name]


def test_a_generated_client_works(package: str, shared: Serving) -> None:
    models = importlib.import_module(f"{package}.models")
    made = importlib.import_module(f"{package}.client").AuthenticatedClient(
        shared.url, KEY, prefix="", auth_header_name="X-API-Key", raise_on_unexpected_status=True
    )

    def call(name: str, *path: Any, **more: Any) -> Any:
        module = importlib.import_module(f"{package}.api.{name}")
        return module.sync(*path, client=made, **more)

    with made:
        chat = call("remote.remote_create_chat", body=models.CreateChat(prompt="Hello")).chat_id
        until(lambda: call("remote.remote_get_status", chat).status == "completed")
        assert isinstance(call("remote.remote_get_status", chat).created_at, datetime)
        messages = call("remote.remote_list_messages", chat).messages
        assert [one.content for one in messages] == ["Hello", "echo: Hello"]
        assert call("remote.remote_list_queue", chat).prompts == []
        label = call("labels.create_label", body=models.Label(name="red"))
        assert [one.name for one in call("labels.list_labels").labels] == [label.name]
        assert call("models.list_models").models
        assert call("settings.list_settings").settings
        assert call("builds.list_builds").builds == []
        missing = call("builds.get_build", "none")
        assert isinstance(missing, models.ErrorBody)
        assert (
            missing.error == json.loads(shared.client().get("/api/build/status/none").body)["error"]
        )
