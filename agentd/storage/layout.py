"""Every file name of ours, in one place.

Two folders: ``state`` is what the daemon keeps (back it up by copying it), ``config`` belongs to
the person.
"""

from os.path import join

from msgspec import Struct


class Layout(Struct, frozen=True):
    """The paths in and of the two folders."""

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
    def gateway_settings(self) -> str:
        """The settings of the model gateway, written by hand and by the API."""
        return join(self.config, "proxy.yml")

    @property
    def secret_rules(self) -> str:
        """Return the hand-written rules for secrets in requests to models; it may hold values."""
        return join(self.config, "secret-rules.yml")

    @property
    def placeholder_seed(self) -> str:
        """32 random bytes: from them is made what stands for a secret at a supplier's."""
        return join(self.state, "proxy", "seed")

    @property
    def masked_secrets(self) -> str:
        """Return the secrets masked for each access key, encrypted."""
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
    def label_rename(self) -> str:
        """The change of a label's name that is going on."""
        return join(self.state, "relabelling.json")

    @property
    def skills(self) -> str:
        """Return the folder of skills, one subfolder per skill."""
        return join(self.config, "skills")

    @property
    def users(self) -> str:
        """The people who may sign in, written by hand."""
        return join(self.config, "users.yml")

    @property
    def sessions(self) -> str:
        """Return the file of the login sessions."""
        return join(self.state, "sessions.json")

    @property
    def sign_in_links(self) -> str:
        """Return the folder of unused sign-in links, one file per link."""
        return join(self.state, "sign-in-links")

    @property
    def people(self) -> str:
        """Return the folder of browser preferences, one file per person."""
        return join(self.state, "people")

    def person(self, name: str) -> str:
        """Return the file of one person."""
        return join(self.people, f"{name}.yml")

    @property
    def bots_settings(self) -> str:
        """The messenger bots, written by hand and by an administrator."""
        return join(self.config, "bots.yml")

    @property
    def bots(self) -> str:
        """Return the folder of the bots' state, which survives restarts."""
        return join(self.state, "bots")

    def bot(self, bot_id: str) -> str:
        """Return what one bot must know again after a restart."""
        return join(self.bots, f"{bot_id}.json")

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
        """The keys that were revoked: it wins over an older ``keys.yml`` that came back."""
        return join(self.state, "revoked.json")

    @property
    def renewals(self) -> str:
        """Regenerated keys whose delivery is not confirmed yet."""
        return join(self.state, "renewals.json")

    @property
    def last_used(self) -> str:
        """The moments of each key's last use; kept apart, so that ``keys.yml`` stays quiet."""
        return join(self.state, "last_used.json")

    @property
    def format(self) -> str:
        """The format of the state folder, read before anything else."""
        return join(self.state, "FORMAT")

    @property
    def daemon_lock(self) -> str:
        """Held by the one daemon of this folder for as long as it lives."""
        return join(self.state, "daemon.lock")

    @property
    def daemon(self) -> str:
        """Return the file that names the lock holder and its addresses."""
        return join(self.state, "daemon.json")

    @property
    def ids(self) -> str:
        """The marks of the sequences."""
        return join(self.state, "ids.json")

    @property
    def runs(self) -> str:
        """Return the history of daemon runs: the range of records each one wrote."""
        return join(self.state, "runs.json")

    @property
    def index(self) -> str:
        """The summary of every chat: a cache that makes starting cheap."""
        return join(self.state, "index.json")

    @property
    def chats(self) -> str:
        """Return the folder of chats, one subfolder per chat."""
        return join(self.state, "chats")

    @property
    def trash(self) -> str:
        """Folders that hold no chat, and deleted chats of earlier versions."""
        return join(self.state, "trash")

    def chat(self, chat_id: int) -> str:
        """Return the folder of one chat."""
        return join(self.chats, str(chat_id))

    def journal(self, chat_id: int) -> str:
        """Return the truth about one chat."""
        # Asked for once per chat at each start: not by join, which costs as much as the stat.
        return f"{self.state}/chats/{chat_id}/journal.jsonl"

    def checkpoint(self, chat_id: int) -> str:
        """Return a cache of what the journal says up to some line."""
        return join(self.chats, str(chat_id), "checkpoint.json")

    def native_transcript(self, chat_id: int) -> str:
        """Return what the native engine's model knows of one chat."""
        return join(self.chats, str(chat_id), "native.jsonl")

    @property
    def events(self) -> str:
        """The last live events, encoded: a cache beside the journals."""
        return join(self.state, "events")

    def event_files(self, after: int) -> tuple[str, str]:
        """Return the events after some seq, and the index of them."""
        return join(self.events, f"{after}.sse"), join(self.events, f"{after}.jsonl")

    @property
    def analytics(self) -> str:
        """Return the sums of the journals: a cache beside them."""
        return join(self.state, "analytics")

    def chat_analytics_file(self, chat_id: int) -> str:
        """Return what one chat's journal adds up to."""
        return join(self.analytics, f"{chat_id}.json")

    @property
    def speech_settings(self) -> str:
        """The speech engines, written by hand."""
        return join(self.config, "speech.yml")

    @property
    def audio(self) -> str:
        """Audio while a program transcribes it."""
        return join(self.state, "audio")

    @property
    def builds(self) -> str:
        """Return the folder of builds, one subfolder per build."""
        return join(self.state, "builds")

    def build(self, name: str) -> str:
        """Return the folder of one build."""
        return join(self.builds, name)

    def build_result_file(self, name: str) -> str:
        """Return what became of a build's last run."""
        return join(self.builds, name, "result.json")

    def build_output(self, name: str) -> str:
        """Return what a build's last run said."""
        return join(self.builds, name, "output.log")

    @property
    def deployments(self) -> str:
        """Return the folder of deployments, one subfolder per deployment."""
        return join(self.state, "deployments")

    def deployment(self, name: str) -> str:
        """Return the folder of one deployment."""
        return join(self.deployments, name)

    def deployment_file(self, name: str) -> str:
        """Return what runs of a deployment, and what should."""
        return join(self.deployments, name, "deployment.json")

    def deployment_output_files(self, name: str) -> tuple[str, str, str]:
        """Return a deployment's output files: current, previous, and where the current begins."""
        folder = self.deployment(name)
        return (
            join(folder, "output.log"),
            join(folder, "output.1.log"),
            join(folder, "output.json"),
        )

    @property
    def autofix(self) -> str:
        """Return the file of automatic fixes: the builds concerned, and the attempts so far."""
        return join(self.state, "autofix.json")

    @property
    def access_keys(self) -> str:
        """The access keys of the model gateway: salted hashes, limits and lists."""
        return join(self.state, "proxy", "access-keys.yml")

    @property
    def access_keys_revoked(self) -> str:
        """The revoked access keys: it wins over an older file that came back."""
        return join(self.state, "proxy", "revoked.json")

    @property
    def access_keys_renewals(self) -> str:
        """Reissued access keys whose delivery is not confirmed yet."""
        return join(self.state, "proxy", "renewals.json")

    @property
    def access_keys_cache(self) -> str:
        """Valid access keys as parsed: a cache, because parsing thousands takes seconds."""
        return join(self.state, "proxy", "access-keys.known.json")

    @property
    def access_keys_lock(self) -> str:
        """The lock for changing the access keys."""
        return join(self.state, "proxy", "access-keys.lock")

    @property
    def licence(self) -> str:
        """The licence, by which model requests are carried."""
        return join(self.config, "licence.key")

    @property
    def licence_issuers(self) -> str:
        """Return the public keys of the trusted licence issuers."""
        return join(self.config, "licence-issuer.pub")

    @property
    def licence_issuer_key(self) -> str:
        """Our own issuer's private key, where there is one: licences are signed by it."""
        return join(self.config, "licence-issuer.key")

    @property
    def ledger(self) -> str:
        """The model gateway's ledger: one file for each day (UTC)."""
        return join(self.state, "proxy", "requests")

    def ledger_day_file(self, day: str) -> str:
        """Return the requests of one day, such as ``2026-01-31``: the truth about what was spent.

        Marks of calls under way stand beside them, under names such as ``begun-1``.
        """
        return join(self.ledger, f"{day}.jsonl")

    @property
    def ledger_reports(self) -> str:
        """Return the folder of the ledger's daily reports."""
        return join(self.state, "proxy", "reports")

    def ledger_report_file(self, day: str) -> str:
        """Return what one day of the ledger adds up to."""
        return join(self.ledger_reports, f"{day}.json")

    def ledger_rollup(self, first: str, days: int) -> str:
        """Return what several days of the ledger add up to: a cache over their reports."""
        return join(self.ledger_reports, f"{first}+{days}.json")

    @property
    def ledger_balance(self) -> str:
        """Return the spend of each access key up to some day: a cache over the reports."""
        return join(self.ledger_reports, "balance.json")

    @property
    def export(self) -> str:
        """Return the progress of the export to the analytics database, by day of the ledger."""
        return join(self.state, "proxy", "export.json")

    @property
    def export_requests(self) -> str:
        """Days that a person asked at a terminal to be sent; the daemon takes it up."""
        return join(self.state, "proxy", "export-wanted.json")

    @property
    def bodies(self) -> str:
        """The bodies of requests that are kept: one folder for each day (UTC)."""
        return join(self.state, "proxy", "bodies")

    @property
    def changes(self) -> str:
        """Return the journal of management changes to the gateway, secrets masked."""
        return join(self.state, "proxy", "changes.jsonl")

    def undo(self, number: int) -> str:
        """Return the file that undoes the change of this number; its secrets are encrypted."""
        return join(self.state, "proxy", "undo", f"{number}.enc")

    @property
    def service_log(self) -> str:
        """Operational events of the gateway; older lines are in files that end with a number."""
        return join(self.state, "proxy", "service.log")
