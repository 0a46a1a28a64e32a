"""Wires the management API of the model gateway.

Imported when it is first needed: for a route below ``/api/agent``, an import that was interrupted,
or a channel that is to be disabled.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from agentd.app.alerts import AlertsComponent
from agentd.app.channel_checks import GatewayChannelChecker
from agentd.app.config_files import ConfigFiles
from agentd.app.gateway import ModelGateway
from agentd.core.clock import Clock
from agentd.gateway.admin.api import routes as manage
from agentd.gateway.admin.api.alerts import AlertTargetEndpoints
from agentd.gateway.admin.api.batches import BatchEndpoints, KeyBatchEndpoints
from agentd.gateway.admin.api.budgets import BudgetEndpoints
from agentd.gateway.admin.api.changes import ChangeEndpoints
from agentd.gateway.admin.api.channel_balances import ChannelBalanceEndpoints
from agentd.gateway.admin.api.channels import ChannelEndpoints
from agentd.gateway.admin.api.daemon_settings import DaemonSettingsEndpoints
from agentd.gateway.admin.api.imports import ImportEndpoints
from agentd.gateway.admin.api.keys import AccessKeyEndpoints
from agentd.gateway.admin.api.management_keys import ManagementKeyEndpoints
from agentd.gateway.admin.api.models import ProxyModelEndpoints
from agentd.gateway.admin.api.offered_models import OfferedModelEndpoints
from agentd.gateway.admin.api.preview import PreviewEndpoints
from agentd.gateway.admin.api.prices import PriceEndpoints
from agentd.gateway.admin.api.resource import ResourceEndpoints
from agentd.gateway.admin.api.secret_rules import SecretRuleEndpoints
from agentd.gateway.admin.api.settings import GatewaySettingsEndpoints
from agentd.gateway.admin.batches import EditAllStore, ManagedBatch
from agentd.gateway.admin.changes_store import ChangeJournal
from agentd.gateway.admin.import_intent import ImportIntentFile
from agentd.gateway.admin.imports import ImportedEntries, ImportStores, ManagedImport
from agentd.gateway.admin.repriced_history import RepricedHistory
from agentd.gateway.admin.secret_rules import SampleScanner
from agentd.gateway.alerts.targets import AlertTargetRepository
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.store import ChannelRepository
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.limits.budget_store import BudgetRepository
from agentd.gateway.management_keys.store import ManagementKeyRepository
from agentd.gateway.models.store import GatewayModelRepository
from agentd.gateway.secrets.rule_store import SecretRuleStore
from agentd.gateway.settings.store import GatewaySettingsRepository
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.manager import find_programs
from agentd.models.gateway_model import GatewayModel
from agentd.storage.layout import Layout
from agentd.storage.yaml import untrusted

E = TypeVar("E", bound=Struct)

MAX_NAMED = 5
"""The maximum number of dependents that are named."""


class ManagementApi:
    """The resources of ``/api/agent``, over a gateway."""

    def __init__(
        self,
        *,
        layout: Layout,
        clock: Clock,
        gateway: ModelGateway,
        keys: AccessKeyRepository,
        management_keys: ManagementKeyRepository,
        written: ConfigFiles,
        alerts: AlertsComponent,
        journal: ChangeJournal,
        secret: bytes,
    ) -> None:
        self._layout = layout
        self._clock = clock
        self._gateway = gateway
        self._keys = keys
        self._management_keys = management_keys
        self._written = written
        self._alerts = alerts
        self._journal = journal
        self._secret = secret
        self._stored_channels = ChannelRepository(layout, gateway.channels)
        self._stored_models = GatewayModelRepository(layout, written.models)
        self.imports = self._build_imports()
        """Imports of many entries at once."""
        endpoints = self._build_endpoints()
        self.channels = endpoints.channels
        """The channels, as they are changed."""
        self.rows = manage.list_management_routes(endpoints)
        """The routes of the resources."""

    def _build_endpoints(self) -> manage.ManagementEndpoints:
        layout, gateway, journal = self._layout, self._gateway, self._journal
        checks = GatewayChannelChecker(gateway, self._clock)
        stored_models = self._stored_models
        channels = ChannelEndpoints(
            self._stored_channels,
            lambda: self._written.models.current,
            journal,
            self._describe_channel_users,
            checks,
        )
        models = ProxyModelEndpoints(
            stored_models,
            lambda: gateway.channels.current,
            journal,
            self._describe_model_users,
            *(checks, gateway.prices),
        )
        keys, management_keys = self._build_key_endpoints()
        rules = self._build_rules()
        targets, budgets = self._build_alert_targets(), self._build_budgets()
        store = GatewaySettingsRepository(layout, gateway.settings)
        settings = GatewaySettingsEndpoints(store, journal)
        daemon = DaemonSettingsEndpoints(self._written.settings, journal, self._written.get_view)
        batches = self._build_batches(channels, models, keys)
        resources = (budgets, channels, models, keys, management_keys, rules, targets)
        undoing = (one.managed for one in (*resources, settings, daemon, *batches))
        repriced = RepricedHistory(gateway.ledger, journal, gateway.recount)
        return manage.ManagementEndpoints(
            channels=channels,
            models=models,
            imports=ImportEndpoints(self.imports, self._clock, gateway.prices),
            batches=batches,
            keys=keys,
            management_keys=management_keys,
            budgets=budgets,
            secret_rules=rules,
            alert_targets=targets,
            settings=settings,
            daemon=daemon,
            channel_balances=ChannelBalanceEndpoints(channels.find, gateway.balances),
            offered=self._build_offered(channels, models, stored_models, batches),
            prices=PriceEndpoints(gateway.prices, models, lambda: gateway.channels.current),
            changes=ChangeEndpoints(journal, (*undoing, self.imports, repriced)),
            preview=PreviewEndpoints(Subscriptions(untrusted.parse_untrusted_yaml), find_programs),
        )

    def _build_offered(
        self,
        channels: ChannelEndpoints,
        models: ProxyModelEndpoints,
        stored: GatewayModelRepository,
        batches: manage.BatchesByResource,
    ) -> OfferedModelEndpoints:
        reach, prices = self._gateway.suppliers.reach, self._gateway.prices
        return OfferedModelEndpoints(
            channels, models, stored, reach, prices, batches.models.managed
        )

    def _build_batches(
        self,
        channels: ChannelEndpoints,
        models: ProxyModelEndpoints,
        keys: AccessKeyEndpoints,
    ) -> manage.BatchesByResource:
        journal = self._journal
        managed_keys = ManagedBatch(keys.managed, self._keys, journal, lambda one: one.name)

        def build(
            endpoints: ResourceEndpoints[E], store: EditAllStore[E], title: Callable[[E], str]
        ) -> BatchEndpoints[E]:
            return BatchEndpoints(endpoints, ManagedBatch(endpoints.managed, store, journal, title))

        return manage.BatchesByResource(
            channels=build(channels, self._stored_channels, lambda one: one.name),
            models=build(models, self._stored_models, lambda one: one.name),
            keys=KeyBatchEndpoints(keys, managed_keys),
        )

    def _build_key_endpoints(self) -> tuple[AccessKeyEndpoints, ManagementKeyEndpoints]:
        clock, journal = self._clock, self._journal
        entries, gateway = _AccessKeyEntries(self._keys), self._gateway
        keys = AccessKeyEndpoints(
            self._keys, entries, gateway.meters, gateway.model_spend, clock, journal
        )
        return keys, ManagementKeyEndpoints(self._management_keys, clock, journal)

    def _build_rules(self) -> SecretRuleEndpoints:
        gateway = self._gateway
        return SecretRuleEndpoints(
            SecretRuleStore(self._layout, gateway.rules),
            SampleScanner(lambda: gateway.active_rules, self._secret),
            self._journal,
        )

    def _build_budgets(self) -> BudgetEndpoints:
        gateway = self._gateway
        repository = BudgetRepository(self._layout, gateway.budgets)
        return BudgetEndpoints(repository, self._keys, gateway.meters, self._clock, self._journal)

    def _build_alert_targets(self) -> AlertTargetEndpoints:
        targets = AlertTargetRepository(self._layout, self._alerts.file)
        return AlertTargetEndpoints(targets, self._alerts.service, self._journal)

    def _build_imports(self) -> ManagedImport:
        models = self._stored_models
        budgets = BudgetRepository(self._layout, self._gateway.budgets)
        return ManagedImport(
            ImportStores(self._stored_channels, models, budgets),
            self._journal,
            lambda: self._gateway.channels.current,
            lambda: models.current,
            lambda: budgets.current,
            self._describe_import_users,
            ImportIntentFile(self._layout),
        )

    def _describe_channel_users(self, channel: Channel) -> str:
        keys = [key.name for key in self._keys.keys if channel.name in (key.channels or ())]
        models = self._written.models.current.list_using(channel.name)
        return _describe_users(models, keys)

    def _describe_model_users(self, model: GatewayModel) -> str:
        keys = [key.name for key in self._keys.keys if model.name in (key.models or ())]
        models = self._written.models.current.list_falling_back_to(model.name)
        return _describe_users(models, keys)

    def _describe_import_users(self, entries: ImportedEntries) -> str:
        channels = {one.name for one in entries.channels}
        models = {one.name for one in entries.models}
        using = [
            one.name
            for one in self._written.models.current.proxy
            if one.name not in models
            and (
                any(route.channel in channels for route in one.routes)
                or not models.isdisjoint(one.all_fallbacks)
            )
        ]
        keys = [
            key.name
            for key in self._keys.keys
            if not (models.isdisjoint(key.models or ()) and channels.isdisjoint(key.channels or ()))
        ]
        return _describe_users(using, keys)


class _AccessKeyEntries:
    """The access keys as entries that are added and changed as a whole, their letters too."""

    def __init__(self, book: AccessKeyRepository) -> None:
        self.add, self.change, self.remove = book.put, book.rewrite, book.remove


def _describe_users(models: Sequence[str], keys: Sequence[str]) -> str:
    named = (_describe_names("model", models), _describe_names("access key", keys))
    return "; ".join(filter(None, named))


def _describe_names(what: str, names: Sequence[str]) -> str:
    """Join names, such as ``models "a", "b" and 3 more``; empty for none."""
    if not names:
        return ""
    known = ", ".join(f'"{name}"' for name in names[:MAX_NAMED])
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{what}{'s' if len(names) > 1 else ''} {known}{more}"
