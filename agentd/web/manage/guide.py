"""What ``GET /api/agent`` tells in words, beside what it tells from the routes table."""

from msgspec import Struct


class Named(Struct, frozen=True):
    """A word and what it means here."""

    name: str
    """The word."""
    meaning: str
    """What it means."""


SIGN_IN = [
    "Send the management key in the header X-API-Key with every request. No other key opens these"
    " addresses, and the management key opens no others.",
    "Or sign in as an administrator (POST /api/session), with a password or a one-time code: the"
    " login opens the same, by its cookie, with X-XSRF-Token where something is changed, or by its"
    " token as Authorization: Bearer. Other logins are answered 403.",
    "Its lowercase SHA-256 stands in the environment variable PROXY_APP_HASH of the daemon"
    " (agentd hash-key makes it). Without that variable all answers are 503 Disabled.",
    "A wrong or missing key is answered 401 Unauthorized. Failed attempts are logged with the"
    " caller's address, never with the key, and come late after five of them.",
    "Model requests (/v1/...) need an access key instead, which is created here.",
    "POST /api/agent/session gives a one-time code with which a person signs in to the browser"
    ' interface: POST /api/session with {"code": ...}.',
]

CONCEPTS = (
    Named("channel", "A way to one supplier of models: address, key, dialects and transport."),
    Named("dialect", "A supplier's language: openai-chat, openai-responses, anthropic or gemini."),
    Named(
        "transport",
        "How a channel reaches its supplier: directly, through an HTTP or SOCKS5 proxy, or through"
        " a VPN. If that way is down, the channel is: no call goes another way.",
    ),
    Named(
        "model",
        "A name that callers use, and its ways: channels, in the order of their priority, by"
        " weight among equals. After a failure the next is tried, while nothing was sent.",
    ),
    Named("price", "USD for a million tokens of each kind, exact; of a way before the model's."),
    Named(
        "access key",
        "What a caller of models sends (sk-agentd-...): with limits, and lists of the models and"
        " channels that it may use. It is told once, when it is created or issued anew.",
    ),
    Named(
        "limit",
        "What a key may spend in all, in a day, week or month of the configured time zone (USD),"
        " and its requests, tokens and calls at once. A call reserves its highest price first.",
    ),
    Named("request log", "One line for each model request: who, what, how it ended, its price."),
    Named(
        "secret rule",
        "What counts as a secret in requests. It is hidden from suppliers and put back in replies,"
        " or blocks the request, or is only reported.",
    ),
    Named("leak", "A secret that a rule found in requests: the rule and the place, no value."),
    Named("licence", "Model requests need one; these addresses do not."),
    Named("change", "Every change made here is noted: who, from where, what; it can be undone."),
)

SECRETS = [
    "Secrets can be written and never read back: suppliers' keys, proxies' addresses with a"
    " password, VPN links and headers that hold one are shown as **** and their last letters.",
    "What is shown so may be sent back as it was shown: it then stands for the secret that is"
    " there. With another address of the supplier the secret must be written anew: it is refused"
    " as it was shown, and where it is not named there is none from then on.",
    "In the file a person may name a secret as env:NAME or file:PATH instead; that is shown as it"
    " is, and cannot be written from here.",
    "An access key is told once, in the answer that made it; its hash is kept, and its last four"
    " letters are shown.",
    "No answer, log, report or dry run holds the value of a secret that was found in a request.",
]

CONVENTIONS = [
    "Bodies are JSON in UTF-8 (Content-Type: application/json). Unknown fields are refused; so"
    " are unknown parameters of an address that has any.",
    'Errors are {"error", "message", "details"}: a short word, a sentence, and what may'
    " help. Addresses below /v1 tell errors in the dialect of the address instead.",
    "Lists come in pages: limit is the most of one, and next the cursor of the one that follows;"
    " an empty next is the end.",
    "PATCH changes what is named and leaves the rest, in an object of the body too; null gives a"
    " field its default. Lists and a model's prices are replaced as a whole.",
    "?dry_run=true tries a change and tells what would be; nothing is changed.",
    "An answer about one resource has an ETag. If-Match with it makes a change fail with 412 if"
    " somebody else was faster.",
    "A name that is taken, or something that is in use, is answered 409, and by what.",
    "Changes are written to the same files that a person edits, whose comments stay. Edits of the"
    " files hold here at once.",
    "Moments are ISO 8601 in UTC, money is USD.",
]
