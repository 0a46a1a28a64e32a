"""``proxy.yml``: what it may say, and every mistake with its line."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.core.errors import BadRequest, ConfigError, Conflict
from agentd.gateway.settings import store as settings_store
from agentd.gateway.settings.model import BodySettings, GatewaySettings
from agentd.gateway.settings.store import GatewaySettingsRepository
from agentd.storage.layout import Layout
from tests.support.paths import REPOSITORY

FILE = """\
time_zone: Europe/Berlin
unknown_price: estimate
assumed_prices: {input: "2.50", output: 10}
on_ledger_failure: continue
sync_ledger: false
keep_days: 400
bodies: {keep_days: 3, max_bytes: 65536}
mask_secrets: false
max_body: 1048576
idle_timeout: 30
tries: 2
"""


def load_file(layout: Layout, text: str) -> GatewaySettings:
    path = Path(layout.gateway_settings)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return settings_store.load(layout)


def load_problems(layout: Layout, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_file(layout, text)
    where = f"{layout.gateway_settings}:"
    return [str(problem).removeprefix(where) for problem in caught.value.problems]


def test_a_whole_file_is_read(layout):
    found = load_file(layout, FILE)
    assert found.assumed_prices.input == Decimal("2.50")
    assert found.bodies == BodySettings(keep_days=3, max_bytes=65536)
    assert (found.mask_secrets, found.keep_days, found.tries) == (False, 400, 2)
    assert str(found.zone) == "Europe/Berlin"


def test_without_a_file_the_defaults_hold(layout):
    assert settings_store.load(layout) == GatewaySettings() == load_file(layout, "")
    defaults = GatewaySettings()
    assert (defaults.unknown_price, defaults.mask_secrets, defaults.max_body) == (
        "refuse",
        True,
        2**26,
    )


def test_every_mistake_comes_with_its_line_and_the_nearest_right_name(layout):
    text = FILE.replace("unknown_price", "unknown_prize").replace(
        "mask_secrets: false", "mask_secrets: off"
    )
    assert load_problems(layout, text) == [
        '2: "unknown_prize" is not known here; did you mean "unknown_price"?',
        '8: mask_secrets: found "off", expected true or false',
    ]


@pytest.mark.parametrize("zone", ["Europe/Berln", "../../etc/passwd", "/etc/localtime", "Europe"])
def test_a_time_zone_that_is_none_is_reported(layout, zone):
    (result,) = load_problems(layout, FILE.replace("Europe/Berlin", zone))
    assert result.startswith(f'1: time_zone: "{zone}" is not a known time zone')
    assert ('"Europe/Berlin"' in result) == (zone == "Europe/Berln")


def test_the_readme_shows_every_setting_with_its_default(layout):
    readme = (REPOSITORY / "config" / "README.md").read_text()
    (example,) = re.findall("### `proxy.yml`.*?```yaml\n(.*?)```", readme, re.DOTALL)
    assert load_file(layout, example) == GatewaySettings()
    result = re.findall("(?m)^([a-z_]+):", example)
    assert tuple(result) == GatewaySettings.__struct_fields__


# By the API.


def open_repository(layout: Layout) -> GatewaySettingsRepository:
    file = settings_store.watch_settings(layout, lambda: None)
    return GatewaySettingsRepository(layout, file)


@pytest.mark.gen_test
async def test_only_what_changes_is_written_and_it_holds_at_once(layout):
    load_file(layout, FILE.replace("tries: 2", "tries: 2   # enough"))
    book = open_repository(layout)
    changes = {"tries": 3, "mask_secrets": None, "bodies": {"keep_days": 5}, "time_zone": "UTC"}
    found = await book.change(changes)
    assert (found.tries, found.mask_secrets, found.time_zone) == (3, True, "UTC")
    assert found.bodies == BodySettings(keep_days=5)
    assert found is book.current
    text = Path(layout.gateway_settings).read_text()
    assert text == FILE.replace("tries: 2", "tries: 3   # enough").replace(
        "mask_secrets: false\n", ""
    ).replace("{keep_days: 3, max_bytes: 65536}", "{keep_days: 5}").replace(
        "Europe/Berlin", "'UTC'"
    )


@pytest.mark.gen_test
async def test_the_first_change_makes_the_file(layout):
    found = await open_repository(layout).change({"assumed_prices": {"input": 1, "output": 2}})
    assert found.assumed_prices.output == 2


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({"trys": 1}, 'did you mean "tries"'),
        ({"tries": "1"}, "Expected `int`"),
        ({"tries": 0}, "tries"),
        ({"time_zone": 5}, "Expected `str`"),
        ({"time_zone": "Mars/Base"}, "not a known time zone"),
        ({"bodies": {"days": 5}}, '"days" is not known here'),
        ({"tries": 3, "unknown_price": "free"}, "free"),
        ({"assumed_prices": {"input": -1, "output": 1}}, "assumed_prices"),
    ],
)
async def test_what_cannot_be_is_reported_and_nothing_is_written(layout, changes, result):
    load_file(layout, FILE)
    with pytest.raises(BadRequest) as caught:
        await open_repository(layout).change(changes)
    assert result in caught.value.message
    assert Path(layout.gateway_settings).read_text() == FILE


@pytest.mark.gen_test
async def test_a_file_with_mistakes_is_repaired_by_hand_first(layout):
    with pytest.raises(ConfigError):
        load_file(layout, FILE.replace("tries", "trys"))
    with pytest.raises(Conflict, match="by hand"):
        await open_repository(layout).change({"tries": 1})


EXPORT = """\
export:
  url: "http://127.0.0.1:8123"
  user: agentd
  password: %s
  since: 2026-01-31
  today: true
"""


def test_the_export_is_read_and_its_password_never_printed(layout):
    Path(layout.config).mkdir()
    Path(layout.gateway_settings).touch(0o600)
    found = load_file(layout, EXPORT % "s3cret-password").export
    assert (found.is_active, found.since, found.today) == (True, "2026-01-31", True)
    assert (found.password, found.table) == ("s3cret-password", "agentd_requests")
    assert "s3cret" not in repr(found)


def test_a_password_in_a_file_that_others_can_read_is_refused_unless_it_is_elsewhere(layout):
    Path(layout.config).mkdir()
    Path(layout.gateway_settings).touch(0o644)
    (result,) = load_problems(layout, EXPORT % "s3cret-password")
    assert "chmod 600" in result
    assert "s3cret" not in result
    assert load_file(layout, EXPORT % "env:CLICKHOUSE_PASSWORD").export.is_active


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("password: env:1", "the name of an environment variable"),
        ("since: 2026-02-30", "is not a valid date"),
        ("table: a b", "table"),
        ("database: 'x`'", "database"),
        ("url: http://user:secret@h:8123", "url"),
        ("url: 'http://[::1'", "export.url: its host or port is not valid"),
    ],
)
def test_what_the_export_cannot_be_is_reported_with_its_line(layout, line, result):
    (found,) = load_problems(layout, f"export:\n  {line}\n")
    assert found.startswith("2: ")
    assert result in found
    assert "secret" not in found


def test_a_change_of_the_export_closes_the_file_to_others(io_loop, layout):
    load_file(layout, FILE)
    Path(layout.gateway_settings).chmod(0o644)
    book = open_repository(layout)
    wanted = {"export": {"url": "http://h:8123", "password": "s3cret-password"}}
    io_loop.run_sync(lambda: book.change(wanted))
    assert Path(layout.gateway_settings).stat().st_mode & 0o777 == 0o600
    assert book.current.export.password == "s3cret-password"


def test_an_endpoint_that_no_spans_can_be_sent_to_is_reported_with_its_line(layout):
    (found,) = load_problems(layout, "tracing:\n  endpoint: 'http://a:b'\n")
    assert found.startswith("2: tracing.endpoint: its host or port is not valid")
