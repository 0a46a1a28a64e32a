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
        """What counts as a secret in requests to models, written by hand; it may hold values."""
        return join(self.config, "secret-rules.yml")

    @property
    def placeholder_seed(self) -> str:
        """32 random bytes: from them is made what stands for a secret at a supplier's."""
        return join(self.state, "proxy", "seed")

    @property
    def hidden_secrets(self) -> str:
        """What was hidden for each access key, encrypted."""
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
    def relabelling(self) -> str:
        """The change of a label's name that is going on."""
        return join(self.state, "relabelling.json")

    @property
    def skills(self) -> str:
        """One folder per skill."""
        return join(self.config, "skills")

    @property
    def users(self) -> str:
        """The people who may sign in, written by hand."""
        return join(self.config, "users.yml")

    @property
    def sessions(self) -> str:
        """Who is signed in."""
        return join(self.state, "sessions.json")

    @property
    def bots_settings(self) -> str:
        """The messenger bots, written by hand and by an administrator."""
        return join(self.config, "bots.yml")

    @property
    def bots(self) -> str:
        """What the bots must know again after a restart."""
        return join(self.state, "bots")

    def bot(self, bot_id: str) -> str:
        """What one bot must know again after a restart."""
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
        """Held by whoever changes the keys."""
        return join(self.state, "keys.lock")

    @property
    def revoked(self) -> str:
        """The keys that were revoked: it wins over an older ``keys.yml`` that came back."""
        return join(self.state, "revoked.json")

    @property
    def renewals(self) -> str:
        """Keys that were made anew while nobody is known to have the new ones."""
        return join(self.state, "renewals.json")

    @property
    def last_used(self) -> str:
        """When each key was last used; kept apart, so that ``keys.yml`` stays quiet."""
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
        """Who holds the lock, and where it listens."""
        return join(self.state, "daemon.json")

    @property
    def ids(self) -> str:
        """The marks of the sequences."""
        return join(self.state, "ids.json")

    @property
    def lives(self) -> str:
        """Which run of the daemon wrote which records."""
        return join(self.state, "lives.json")

    @property
    def index(self) -> str:
        """Every chat at a glance: a cache that makes starting cheap."""
        return join(self.state, "index.json")

    @property
    def chats(self) -> str:
        """One folder per chat."""
        return join(self.state, "chats")

    @property
    def trash(self) -> str:
        """Folders that hold no chat, and deleted chats of earlier versions."""
        return join(self.state, "trash")

    def chat(self, chat_id: int) -> str:
        """The folder of one chat."""
        return join(self.chats, str(chat_id))

    def journal(self, chat_id: int) -> str:
        """The truth about one chat."""
        # Asked for once per chat at each start: not by join, which costs as much as the stat.
        return f"{self.state}/chats/{chat_id}/journal.jsonl"

    def checkpoint(self, chat_id: int) -> str:
        """A cache of what the journal says up to some line."""
        return join(self.chats, str(chat_id), "checkpoint.json")

    @property
    def events(self) -> str:
        """The last live events, encoded: a cache beside the journals."""
        return join(self.state, "events")

    def event_files(self, after: int) -> tuple[str, str]:
        """The events after some seq, and the index of them."""
        return join(self.events, f"{after}.sse"), join(self.events, f"{after}.jsonl")

    @property
    def analytics(self) -> str:
        """What the journals add up to: a cache beside them."""
        return join(self.state, "analytics")

    def roll_up(self, chat_id: int) -> str:
        """What one chat's journal adds up to."""
        return join(self.analytics, f"{chat_id}.json")

    @property
    def speech_settings(self) -> str:
        """The speech engines, written by hand."""
        return join(self.config, "speech.yml")

    @property
    def audio(self) -> str:
        """Audio while a program hears it."""
        return join(self.state, "audio")

    @property
    def builds(self) -> str:
        """One folder per build."""
        return join(self.state, "builds")

    def build(self, name: str) -> str:
        """The folder of one build."""
        return join(self.builds, name)

    def build_result(self, name: str) -> str:
        """What became of a build's last run."""
        return join(self.builds, name, "result.json")

    def build_output(self, name: str) -> str:
        """What a build's last run said."""
        return join(self.builds, name, "output.log")

    @property
    def deployments(self) -> str:
        """One folder per deployment."""
        return join(self.state, "deployments")

    def deployment(self, name: str) -> str:
        """The folder of one deployment."""
        return join(self.deployments, name)

    def deployment_file(self, name: str) -> str:
        """What runs of a deployment, and what should."""
        return join(self.deployments, name, "deployment.json")

    def deployment_outputs(self, name: str) -> tuple[str, str, str]:
        """What a deployment says, what it said before that, and where the first one begins."""
        folder = self.deployment(name)
        return (
            join(folder, "output.log"),
            join(folder, "output.1.log"),
            join(folder, "output.json"),
        )

    @property
    def autofix(self) -> str:
        """Which builds are fixed by the agent, and how often that was tried."""
        return join(self.state, "autofix.json")

    @property
    def access_keys(self) -> str:
        """The access keys of the model gateway: salted hashes, limits and lists."""
        return join(self.state, "proxy", "access-keys.yml")

    @property
    def access_keys_revoked(self) -> str:
        """The access keys that were taken away: it wins over an older file that came back."""
        return join(self.state, "proxy", "revoked.json")

    @property
    def access_keys_renewals(self) -> str:
        """Access keys that were reissued while nobody is known to have the new letters."""
        return join(self.state, "proxy", "renewals.json")

    @property
    def access_keys_known(self) -> str:
        """What valid access keys were read as: a cache, for to parse thousands takes seconds."""
        return join(self.state, "proxy", "access-keys.known.json")

    @property
    def access_keys_lock(self) -> str:
        """Held by whoever changes the access keys."""
        return join(self.state, "proxy", "access-keys.lock")

    @property
    def licence(self) -> str:
        """The licence, by which model requests are carried."""
        return join(self.config, "licence.key")

    @property
    def licence_issuers(self) -> str:
        """Whose licences hold: the public key of each issuer."""
        return join(self.config, "licence-issuer.pub")

    @property
    def licence_issuer_key(self) -> str:
        """Our own issuer's private key, where there is one: licences are signed by it."""
        return join(self.config, "licence-issuer.key")

    @property
    def ledger(self) -> str:
        """The model gateway's ledger: one file for each day (UTC)."""
        return join(self.state, "proxy", "requests")

    def ledger_day(self, day: str) -> str:
        """The requests of one day, such as ``2026-01-31``: the truth about what was spent.

        Marks of calls under way stand beside them, under names such as ``begun-1``.
        """
        return join(self.ledger, f"{day}.jsonl")

    @property
    def ledger_reports(self) -> str:
        """What the days of the ledger add up to."""
        return join(self.state, "proxy", "reports")

    def ledger_report(self, day: str) -> str:
        """What one day of the ledger adds up to."""
        return join(self.ledger_reports, f"{day}.json")

    def ledger_stretch(self, first: str, days: int) -> str:
        """What several days of the ledger add up to: a cache over their reports."""
        return join(self.ledger_reports, f"{first}+{days}.json")

    @property
    def ledger_balance(self) -> str:
        """What each access key had spent up to some day: a cache over the reports."""
        return join(self.ledger_reports, "balance.json")

    @property
    def export(self) -> str:
        """How far each day of the ledger was sent to the analytics database."""
        return join(self.state, "proxy", "export.json")

    @property
    def export_wanted(self) -> str:
        """Days that a person asked at a terminal to be sent; the daemon takes it up."""
        return join(self.state, "proxy", "export-wanted.json")

    @property
    def bodies(self) -> str:
        """The bodies of requests that are kept: one folder for each day (UTC)."""
        return join(self.state, "proxy", "bodies")

    @property
    def changes(self) -> str:
        """Who changed what of the gateway by its management, secrets masked."""
        return join(self.state, "proxy", "changes.jsonl")

    def undo(self, number: int) -> str:
        """What the change of this number can be taken back by; it holds secrets, encrypted."""
        return join(self.state, "proxy", "undo", f"{number}.enc")

    @property
    def service_log(self) -> str:
        """What befell the model gateway; older lines are in files that end with a number."""
        return join(self.state, "proxy", "service.log")
