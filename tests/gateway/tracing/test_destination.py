"""Where spans are sent: the settings before the environment, and secrets by reference."""

from pathlib import Path

import pytest

from agentd.core.errors import ConfigError
from agentd.gateway.settings.model import TracingSettings
from agentd.gateway.tracing.destination import TraceDestination, find_destination

URL = "http://127.0.0.1:4318"
ENVIRON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


def test_without_an_address_nothing_is_sent() -> None:
    assert find_destination(TracingSettings(), {}) is None
    assert find_destination(TracingSettings(headers={"a": "b"}), {"PATH": "/bin"}) is None


@pytest.mark.parametrize("endpoint", [URL, f"{URL}/", f"{URL}/v1/traces"])
def test_the_path_of_traces_is_added_where_it_is_missing(endpoint: str) -> None:
    to = find_destination(TracingSettings(endpoint=endpoint, sample=0.5), ENVIRON)
    assert to == TraceDestination(f"{URL}/v1/traces", {}, 0.5, forwards_context=False)


def test_the_environment_says_it_if_the_settings_do_not() -> None:
    to = find_destination(TracingSettings(), ENVIRON)
    assert to == TraceDestination(
        "http://collector:4318/v1/traces", None, None, forwards_context=False
    )
    own = {**ENVIRON, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:1/as/it/is"}
    to = find_destination(TracingSettings(), own)
    assert to
    assert to.endpoint == "http://traces:1/as/it/is"


@pytest.mark.parametrize(
    ("settings", "environ"),
    [
        (TracingSettings(endpoint=URL, enabled=False), {}),
        (TracingSettings(enabled=False), ENVIRON),
        (TracingSettings(endpoint=URL), {"OTEL_SDK_DISABLED": "True"}),
        (TracingSettings(), {**ENVIRON, "OTEL_TRACES_EXPORTER": "none"}),
        (TracingSettings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}),
    ],
)
def test_it_can_be_switched_off(settings: TracingSettings, environ: dict[str, str]) -> None:
    assert find_destination(settings, environ) is None


def test_another_protocol_is_refused_with_its_variable() -> None:
    environ = {**ENVIRON, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL"):
        find_destination(TracingSettings(), environ)
    assert find_destination(TracingSettings(endpoint=URL), environ)


def test_secrets_of_headers_may_be_elsewhere(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("of-the-file\n")
    secret.chmod(0o600)
    headers = {"a": "env:TOKEN", "b": "Bearer env:TOKEN", "c": f"file:{secret}", "d": "plain text"}
    to = find_destination(TracingSettings(endpoint=URL, headers=headers), {"TOKEN": "of-the-env"})
    assert to
    assert to.headers == {
        "a": "of-the-env",
        "b": "Bearer of-the-env",
        "c": "of-the-file",
        "d": "plain text",
    }
    assert "of-the" not in repr(to)


def test_a_secret_that_is_missing_is_told_by_its_place() -> None:
    settings = TracingSettings(endpoint=URL, headers={"X-Key": "env:NOT_THERE"})
    with pytest.raises(ConfigError, match="X-Key"):
        find_destination(settings, {})
