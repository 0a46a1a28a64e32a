"""``alerts.yml`` of the configuration folder: who is notified of alerts.

It is written by hand, and by the API, which leaves the comments as they are. It holds secrets, so
nobody else may read it. What is shown of an address is its host: paths hold tokens, too.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct, structs

from agentd.core.errors import BadRequest, ConfigError, ConfigProblem, suggest_name
from agentd.core.secret_text import MASK, explain_malformed_secret, is_reference
from agentd.gateway.alerts.message import decode_secret
from agentd.gateway.alerts.model import AlertTarget
from agentd.gateway.channels.masking import keep_unless_moved, mask, refuse_reference
from agentd.llm.upstream.public_addresses import may_be_public
from agentd.llm.upstream.request import parse_origin
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.secret_ref import resolve_secret
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.entries import NamedEntries, WatchedEntries
from agentd.storage.yaml.schema import ValuePath

MAX_TARGETS = 50


class AlertsYml(Struct, frozen=True):
    """The content of ``alerts.yml``."""

    format: Literal[1] = 1
    targets: tuple[AlertTarget, ...] | None = None


def load(layout: Layout) -> Mapping[str, AlertTarget]:
    """Return the targets by name, in the file's order; none without a file. Blocking.

    Raises ``ConfigError`` with every problem, also when others can read a secret in the file, or
    ``Unavailable``.
    """
    path = layout.alert_targets
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    content = yaml_reader.load_yaml(path, found.data, AlertsYml, _validate) if found else None
    targets = (content and content.targets) or ()
    if any(one and not is_reference(one) for target in targets for one in _get_secrets(target)):
        document.read_document(path, yaml_reader.MAX_FILE_SIZE, private=True)
    return {target.name: target for target in targets}


def check(layout: Layout) -> None:
    """Raise if ``alerts.yml``, or a file that it refers to, is invalid. Blocking.

    Variables are not looked up: the daemon's environment differs from that of this process.
    """
    problems: list[ConfigProblem] = []
    for target in load(layout).values():
        known = {f: getattr(target, f) for f in ("url", "secret")}
        from_files = {f: text for f, text in known.items() if text.startswith("file:")}
        for field, text in from_files.items():
            try:
                resolve_secret(text, {}, f"targets.{target.name}.{field}", "the target's")
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(problems)


def find_unusable_bots(layout: Layout, bots: Mapping[str, bool]) -> tuple[ConfigProblem, ...]:
    """Find targets of bots that are not there or not enabled, with line numbers. Blocking.

    ``bots`` tells of each whether it is enabled. Raises as ``load`` when the file has mistakes of
    its own.
    """
    load(layout)

    def check_bots(content: AlertsYml) -> Iterator[tuple[ValuePath, str]]:
        for number, target in enumerate(content.targets or ()):
            if not target.enabled or target.kind != "telegram" or bots.get(target.bot):
                continue
            if target.bot in bots:
                what = "is disabled in bots.yml"
            else:
                what = f"is none of the bots of bots.yml{suggest_name(target.bot, bots)}"
            yield ("targets", number, "bot"), f'"{target.bot}" {what}'

    found = document.read_document(layout.alert_targets, yaml_reader.MAX_FILE_SIZE)
    try:
        data = found.data if found else b""
        yaml_reader.load_yaml(layout.alert_targets, data, AlertsYml, check_bots)
    except ConfigError as error:
        return tuple(error.problems)
    return ()


def resolve_target(target: AlertTarget, environ: Mapping[str, str]) -> AlertTarget:
    """Return the target with its address and secret put in. Blocking.

    Raises ``ConfigError`` or ``Unavailable``, without a secret in the message.
    """
    where = f"targets.{target.name}"
    url = resolve_secret(target.url, environ, f"{where}.url", "the target's address, not a")
    secret = resolve_secret(target.secret, environ, f"{where}.secret", "the target's")
    resolved = structs.replace(target, url=url, secret=secret)
    problems = [
        ConfigProblem(f"{where}.{field}", 0, what) for field, what in _find_faults(resolved)
    ]
    if problems:
        raise ConfigError(problems)
    return resolved


class AlertTargetRepository(WatchedEntries[AlertTarget]):
    """The targets as they are now, and how they are changed; ``file`` is ``alerts.yml``.

    Secrets may be masked in what is written.
    """

    def __init__(self, layout: Layout, file: WatchedFile[Mapping[str, AlertTarget]]) -> None:
        self.file = file
        entries = NamedEntries[AlertTarget](
            layout.alert_targets, AlertsYml, "targets", _validate, "target", private=True
        )
        super().__init__(entries, file)

    @property
    def current(self) -> Mapping[str, AlertTarget]:
        """The targets by name, as of the last valid version of the file."""
        return self.file.current

    async def refresh(self) -> None:
        """Read the file if it was edited; a watcher notices it only some moments later."""
        await self.file.ensure_current()

    async def add(self, entry: AlertTarget, *, dry_run: bool = False) -> AlertTarget:
        """Add a target at the end."""
        return await super().add(apply_edit(entry, AlertTarget(name="")), dry_run=dry_run)

    async def change(
        self,
        name: str,
        revise: Callable[[AlertTarget], AlertTarget],
        *,
        dry_run: bool = False,
    ) -> AlertTarget:
        """Replace a target; its secret is not sent to another address."""
        return await super().change(name, lambda old: apply_edit(revise(old), old), dry_run=dry_run)


def watch_targets(
    layout: Layout, on_change: Callable[[], None]
) -> WatchedFile[Mapping[str, AlertTarget]]:
    """Return the targets as a watched file; ``on_change`` is called on the loop."""
    nobody: Mapping[str, AlertTarget] = {}
    return WatchedFile(layout.alert_targets, partial(load, layout), nobody, on_change)


def mask_url(url: str) -> str:
    """Return an address as it may be shown: its host, and the end of a long path."""
    if not url or is_reference(url):
        return url
    parts = urlsplit(url)
    rest = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    return f"{parts.scheme}://{parts.netloc}/{mask(rest)}" if rest.strip("/") else url


def mask_target(target: AlertTarget) -> AlertTarget:
    """Return the target with its address and secret masked, as managers may see it."""
    return structs.replace(target, url=mask_url(target.url), secret=mask(target.secret))


def require_plain(new: AlertTarget, old: AlertTarget | None = None) -> AlertTarget:
    """Return the target, if its address and secret are written out, or unchanged from ``old``.

    Whoever could name a file from afar could have it sent anywhere. Raises ``BadRequest``.
    """
    refuse_reference(new.url, old.url if old else "")
    refuse_reference(new.secret, old.secret if old else "")
    return new


def drop_bound_secret(old: AlertTarget, new: AlertTarget) -> AlertTarget:
    """Return ``old`` without its secret if ``new`` has another address."""
    return structs.replace(old, secret="") if _has_moved(new, old) else old


def apply_edit(new: AlertTarget, old: AlertTarget) -> AlertTarget:
    """Return ``new`` with masked values replaced by those of ``old``. Raises ``BadRequest``."""
    moved = _has_moved(new, old)
    if moved and MASK in new.url:
        raise BadRequest("url: this is the mask of another address", "Send the whole address.")
    secret = keep_unless_moved("secret", new.secret, old.secret, moved)
    return structs.replace(new, url=new.url if moved else old.url, secret=secret)


def _has_moved(new: AlertTarget, old: AlertTarget) -> bool:
    return new.url not in (old.url, mask_url(old.url))


def _get_secrets(target: AlertTarget) -> tuple[str, str]:
    return target.url, target.secret


def _validate(content: AlertsYml) -> Iterator[tuple[tuple[str | int, ...], str]]:
    targets = content.targets or ()
    names = [target.name for target in targets]
    for number, target in enumerate(targets):
        if names.index(target.name) != number:
            what = f'"{target.name}" is the name of a target above; choose another'
            yield ("targets", number, "name"), what
        for field, what in _find_faults(target):
            yield ("targets", number, field), what
    if len(targets) > MAX_TARGETS:
        yield ("targets",), f"there are {len(targets)}; at most {MAX_TARGETS} are notified"


def _find_faults(target: AlertTarget) -> Iterator[tuple[str, str]]:
    """Yield the fields that are wrong, and why. No value is repeated."""
    if target.kind == "telegram":
        yield from _find_telegram_faults(target)
        return
    for field in ("bot", "chat"):
        if getattr(target, field):
            yield field, f"means nothing to kind {target.kind}; remove it"
    if not target.url:
        yield "url", "is missing"
    elif wrong := explain_malformed_secret(target.url) or _explain_address(target):
        yield "url", wrong
    if wrong := explain_malformed_secret(target.secret):
        yield "secret", wrong
    elif target.kind == "webhook":
        if wrong := _explain_webhook_secret(target.secret):
            yield "secret", wrong
    elif target.secret and target.kind != "text":
        yield "secret", f"means nothing to kind {target.kind}; remove it"


def _find_telegram_faults(target: AlertTarget) -> Iterator[tuple[str, str]]:
    if not target.bot:
        yield "bot", "is missing: the id of a bot of bots.yml"
    if not target.chat:
        yield "chat", "is missing: the id of a conversation at Telegram, such as your user id"
    for field in ("url", "secret"):
        if getattr(target, field):
            yield field, "means nothing to kind telegram; remove it"


def _explain_address(target: AlertTarget) -> str:
    if is_reference(target.url):
        return ""
    try:
        host = parse_origin(target.url).host
    except BadRequest:
        return "expected an address such as https://example.org/alerts"
    if not target.local and not may_be_public(host):
        return "leads to this machine or its network; allow it with local: true (--local)"
    return ""


def _explain_webhook_secret(secret: str) -> str:
    if is_reference(secret):
        return ""
    try:
        decode_secret(secret)
    except ValueError as error:
        return str(error) if secret else f"is missing; {error}"
    return ""
