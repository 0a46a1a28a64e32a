"""The paths of all files that agentd reads or writes.

Two folders: the daemon writes ``state`` (copy it for a backup), people write ``config``.
"""

from os.path import join

from msgspec import Struct


class Layout(Struct, frozen=True):
    """The paths in the two folders. Properties and methods return paths and touch no disk."""

    state: str
    config: str

    @property
    def settings(self) -> str:
        """The settings, written by hand."""
        return join(self.config, "agentd.yml")

    @property
    def models(self) -> str:
        """The models and their suppliers, written by hand."""
        return join(self.config, "models.yml")

    @property
    def channels(self) -> str:
        """The suppliers of the model gateway, written by hand and by the API; it may hold keys."""
        return join(self.config, "channels.yml")

    @property
    def budgets(self) -> str:
        """The limits that access keys share, written by hand and by the API."""
        return join(self.config, "budgets.yml")

    @property
    def gateway_settings(self) -> str:
        """The settings of the model gateway, written by hand and by the API."""
        return join(self.config, "proxy.yml")

    @property
    def secret_rules(self) -> str:
        """The hand-written rules for secrets in requests to models; it may hold secret values."""
        return join(self.config, "secret-rules.yml")

    @property
    def alert_targets(self) -> str:
        """The targets of the gateway's alerts, written by hand and by the API; it holds secrets."""
        return join(self.config, "alerts.yml")

    @property
    def placeholder_seed(self) -> str:
        """32 random bytes, from which the placeholders of secrets are derived."""
        return join(self.state, "proxy", "seed")

    @property
    def masked_secrets(self) -> str:
        """The secrets masked for each access key, encrypted."""
        return join(self.state, "proxy", "hidden.jsonl")

    @property
    def skills_settings(self) -> str:
        """The skills' order and colours, written by hand."""
        return join(self.config, "skills.yml")

    @property
    def labels(self) -> str:
        """The labels of chats, written by hand and by the API."""
        return join(self.config, "labels.yml")

    @property
    def schedules(self) -> str:
        """The schedules of prompts, written by hand and by the API."""
        return join(self.config, "schedules.yml")

    @property
    def schedule_progress(self) -> str:
        """The runs of the schedules, and up to when their firings are decided."""
        return join(self.state, "schedules.json")

    @property
    def label_rename(self) -> str:
        """The renaming of a label that is under way."""
        return join(self.state, "relabelling.json")

    @property
    def skills(self) -> str:
        """The folder of skills, one subfolder per skill."""
        return join(self.config, "skills")

    @property
    def commands(self) -> str:
        """The folder of custom commands, one Markdown file per command."""
        return join(self.config, "commands")

    @property
    def users(self) -> str:
        """The people who may sign in, written by hand."""
        return join(self.config, "users.yml")

    @property
    def clock(self) -> str:
        """The time by which things are destroyed for their age."""
        return join(self.state, "clock.json")

    @property
    def sessions(self) -> str:
        """The login sessions."""
        return join(self.state, "sessions.json")

    @property
    def sign_in_links(self) -> str:
        """The folder of unused sign-in links, one file per link."""
        return join(self.state, "sign-in-links")

    @property
    def people(self) -> str:
        """The folder of browser preferences, one file per person."""
        return join(self.state, "people")

    def get_preferences_path(self, name: str) -> str:
        """Return the path of one person's browser preferences."""
        return join(self.people, f"{name}.yml")

    @property
    def push(self) -> str:
        """Return the file of push notifications: the key that signs them, the subscriptions."""
        return join(self.state, "push.json")

    @property
    def bots_settings(self) -> str:
        """The messenger bots, written by hand and by an administrator."""
        return join(self.config, "bots.yml")

    @property
    def bots(self) -> str:
        """The folder of the bots' state, which survives restarts."""
        return join(self.state, "bots")

    def get_bot_state_path(self, bot_id: str) -> str:
        """Return the path of the state that one bot needs after a restart."""
        return join(self.bots, f"{bot_id}.json")

    @property
    def mcp_settings(self) -> str:
        """The MCP servers, written by hand and by an administrator; it may hold secrets."""
        return join(self.config, "mcp.yml")

    @property
    def mcp_decisions(self) -> str:
        """What was decided about the MCP servers that workspaces name."""
        return join(self.state, "mcp-decisions.json")

    @property
    def mcp_decisions_lock(self) -> str:
        """Held while what was decided about MCP servers is changed."""
        return join(self.state, "mcp-decisions.lock")

    @property
    def hooks_settings(self) -> str:
        """The hooks of the native engine, written by hand."""
        return join(self.config, "hooks.yml")

    @property
    def hook_decisions(self) -> str:
        """What was decided about the hooks of workspaces."""
        return join(self.state, "hook-decisions.json")

    @property
    def hook_decisions_lock(self) -> str:
        """Held while what was decided about hooks is changed."""
        return join(self.state, "hook-decisions.lock")

    @property
    def builds_settings(self) -> str:
        """The builds, written by hand."""
        return join(self.config, "builds.yml")

    @property
    def deployments_settings(self) -> str:
        """The deployments, written by hand."""
        return join(self.config, "deployments.yml")

    @property
    def keys(self) -> str:
        """The named access keys: salted hashes, safe to commit."""
        return join(self.state, "keys.yml")

    @property
    def keys_lock(self) -> str:
        """The lock for changing the keys."""
        return join(self.state, "keys.lock")

    @property
    def revoked(self) -> str:
        """The revoked keys: it wins over a restored older ``keys.yml``."""
        return join(self.state, "revoked.json")

    @property
    def renewals(self) -> str:
        """Regenerated keys whose delivery is not confirmed yet."""
        return join(self.state, "renewals.json")

    @property
    def last_used(self) -> str:
        """When each key was last used; a file of its own, so that ``keys.yml`` seldom changes."""
        return join(self.state, "last_used.json")

    @property
    def format(self) -> str:
        """The format version of the state folder, read before anything else."""
        return join(self.state, "FORMAT")

    @property
    def daemon_lock(self) -> str:
        """The lock that the folder's one daemon holds while it runs."""
        return join(self.state, "daemon.lock")

    @property
    def daemon(self) -> str:
        """The process that holds the lock, and its addresses."""
        return join(self.state, "daemon.json")

    @property
    def ids(self) -> str:
        """The high-water marks of the identifiers."""
        return join(self.state, "ids.json")

    @property
    def runs(self) -> str:
        """The history of daemon runs: the range of records each one wrote."""
        return join(self.state, "runs.json")

    @property
    def index(self) -> str:
        """The summary of every chat: a cache for a quick start."""
        return join(self.state, "index.json")

    @property
    def chats(self) -> str:
        """The folder of chats, one subfolder per chat."""
        return join(self.state, "chats")

    @property
    def trash(self) -> str:
        """The folder of what is no chat, and of chats deleted by earlier versions."""
        return join(self.state, "trash")

    def get_chat_folder(self, chat_id: int) -> str:
        """Return the folder of one chat."""
        return join(self.chats, str(chat_id))

    def get_journal_path(self, chat_id: int) -> str:
        """Return the path of one chat's journal, from which all else about it is computed."""
        # Called once per chat at each start: join would cost as much as the stat that follows.
        return f"{self.state}/chats/{chat_id}/journal.jsonl"

    def get_checkpoint_path(self, chat_id: int) -> str:
        """Return the path of a chat's checkpoint: a cache of its journal folded up to some line."""
        return join(self.chats, str(chat_id), "checkpoint.json")

    def get_native_transcript_path(self, chat_id: int) -> str:
        """Return the path of the conversation that the native engine sends to its model."""
        return join(self.chats, str(chat_id), "native.jsonl")

    @property
    def worktrees(self) -> str:
        """The folder of chats' git work trees, one subfolder per chat."""
        return join(self.state, "worktrees")

    def get_worktree_folder(self, chat_id: int) -> str:
        """Return the top of one chat's work tree."""
        return join(self.worktrees, str(chat_id))

    @property
    def events(self) -> str:
        """The folder of the last live events, encoded: a cache of the journals."""
        return join(self.state, "events")

    def get_event_paths(self, after: int) -> tuple[str, str]:
        """Return the paths of the events after a sequence number, and of their index."""
        return join(self.events, f"{after}.sse"), join(self.events, f"{after}.jsonl")

    @property
    def analytics(self) -> str:
        """The folder of the chats' totals: a cache of the journals."""
        return join(self.state, "analytics")

    def get_chat_analytics_path(self, chat_id: int) -> str:
        """Return the path of one chat's totals."""
        return join(self.analytics, f"{chat_id}.json")

    @property
    def speech_settings(self) -> str:
        """The speech engines, written by hand."""
        return join(self.config, "speech.yml")

    @property
    def audio(self) -> str:
        """The folder of audio that a program is transcribing."""
        return join(self.state, "audio")

    @property
    def builds(self) -> str:
        """The folder of builds, one subfolder per build."""
        return join(self.state, "builds")

    def get_build_folder(self, name: str) -> str:
        """Return the folder of one build."""
        return join(self.builds, name)

    def get_build_result_path(self, name: str) -> str:
        """Return the path of the result of a build's last run."""
        return join(self.builds, name, "result.json")

    def get_build_output_path(self, name: str) -> str:
        """Return the path of the output of a build's last run."""
        return join(self.builds, name, "output.log")

    @property
    def deployments(self) -> str:
        """The folder of deployments, one subfolder per deployment."""
        return join(self.state, "deployments")

    def get_deployment_folder(self, name: str) -> str:
        """Return the folder of one deployment."""
        return join(self.deployments, name)

    def get_deployment_path(self, name: str) -> str:
        """Return the path of a deployment's desired and actual state."""
        return join(self.deployments, name, "deployment.json")

    def get_deployment_output_paths(self, name: str) -> tuple[str, str, str]:
        """Return the paths of a deployment's output, its previous output, and the log's start."""
        folder = self.get_deployment_folder(name)
        return (
            join(folder, "output.log"),
            join(folder, "output.1.log"),
            join(folder, "output.json"),
        )

    @property
    def autofix(self) -> str:
        """The automatic fixes: the builds concerned, and the attempts so far."""
        return join(self.state, "autofix.json")

    @property
    def access_keys(self) -> str:
        """The access keys of the model gateway: salted hashes, limits and lists."""
        return join(self.state, "proxy", "access-keys.yml")

    @property
    def access_keys_revoked(self) -> str:
        """The revoked access keys: it wins over a restored older ``access-keys.yml``."""
        return join(self.state, "proxy", "revoked.json")

    @property
    def access_keys_renewals(self) -> str:
        """Reissued access keys whose delivery is not confirmed yet."""
        return join(self.state, "proxy", "renewals.json")

    @property
    def access_keys_cache(self) -> str:
        """The parsed valid access keys: a cache, because parsing thousands takes seconds."""
        return join(self.state, "proxy", "access-keys.known.json")

    @property
    def access_keys_lock(self) -> str:
        """The lock for changing the access keys."""
        return join(self.state, "proxy", "access-keys.lock")

    @property
    def management_keys(self) -> str:
        """The named management keys: hashes and scopes."""
        return join(self.state, "proxy", "management-keys.yml")

    @property
    def management_keys_revoked(self) -> str:
        """The removed management keys: it wins over a restored older ``management-keys.yml``."""
        return join(self.state, "proxy", "management-keys.revoked.json")

    @property
    def management_keys_used(self) -> str:
        """When each management key was last used."""
        return join(self.state, "proxy", "management-keys.used.json")

    @property
    def management_keys_lock(self) -> str:
        """The lock for changing the management keys."""
        return join(self.state, "proxy", "management-keys.lock")

    @property
    def licence(self) -> str:
        """The licence that allows the gateway to serve model requests."""
        return join(self.config, "licence.key")

    @property
    def licence_issuers(self) -> str:
        """The public keys of the trusted licence issuers."""
        return join(self.config, "licence-issuer.pub")

    @property
    def licence_issuer_key(self) -> str:
        """The private key with which this installation signs licences, if it does."""
        return join(self.config, "licence-issuer.key")

    @property
    def ledger(self) -> str:
        """The folder of the model gateway's ledger, one file for each day (UTC)."""
        return join(self.state, "proxy", "requests")

    def get_ledger_day_path(self, day: str) -> str:
        """Return the path of the request records of one day, such as ``2026-01-31``.

        The marks of pending calls are in the same folder, in files such as ``begun-1``.
        """
        return join(self.ledger, f"{day}.jsonl")

    @property
    def ledger_reports(self) -> str:
        """The folder of the ledger's daily reports."""
        return join(self.state, "proxy", "reports")

    def get_ledger_report_path(self, day: str) -> str:
        """Return the path of the report of one day of the ledger."""
        return join(self.ledger_reports, f"{day}.json")

    def get_ledger_rollup_path(self, first: str, days: int) -> str:
        """Return the path of the rollup of several days: a cache of their reports."""
        return join(self.ledger_reports, f"{first}+{days}.json")

    @property
    def ledger_balance(self) -> str:
        """The spend of each access key up to some day: a cache of the reports."""
        return join(self.ledger_reports, "balance.json")

    @property
    def export(self) -> str:
        """The progress of the export to the analytics database, by day of the ledger."""
        return join(self.state, "proxy", "export.json")

    @property
    def export_requests(self) -> str:
        """The days whose export was requested at a terminal; the daemon reads and removes it."""
        return join(self.state, "proxy", "export-wanted.json")

    @property
    def alerts(self) -> str:
        """The gateway's alerts of late, those that are still to be delivered, and what fires."""
        return join(self.state, "proxy", "alerts.json")

    @property
    def price_catalogue(self) -> str:
        """The prices of known models, as the library of the extra `prices` has them."""
        return join(self.state, "proxy", "prices.json")

    @property
    def bodies(self) -> str:
        """The folder of stored request bodies, one subfolder for each day (UTC)."""
        return join(self.state, "proxy", "bodies")

    @property
    def changes(self) -> str:
        """The journal of management changes to the gateway, secrets masked."""
        return join(self.state, "proxy", "changes.jsonl")

    @property
    def import_intent(self) -> str:
        """The import, or the undo of one, that is under way between two files."""
        return join(self.state, "proxy", "import.json")

    def get_undo_path(self, number: int) -> str:
        """Return the path of the undo data of a change; its secrets are encrypted."""
        return join(self.state, "proxy", "undo", f"{number}.enc")

    @property
    def service_log(self) -> str:
        """The gateway's operational events; older ones are in files that end with a number."""
        return join(self.state, "proxy", "service.log")
