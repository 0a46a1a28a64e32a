"""The prose of ``GET /api/agent``; the rest of it comes from the route table."""

from msgspec import Struct


class Concept(Struct, frozen=True):
    """A term and its meaning in this API."""

    name: str
    """The term."""
    meaning: str
    """The meaning of the term."""


SIGN_IN = [
    "Send a management key in the X-API-Key header of every request. No other key is accepted by"
    " these endpoints, and a management key is accepted by no others.",
    "Or sign in as an administrator (POST /api/session) with a password or a one-time code. The"
    " login session gives the same access: by its cookie, with X-XSRF-Token on requests that change"
    " something, or by its token as Authorization: Bearer. Other roles are answered 403.",
    "Named management keys (/api/agent/management-keys) have a scope: read may read all that shows"
    " no secrets, keys may read and change access keys, all may do everything. `caller` says which"
    " scope yours has, and the `scopes` of each endpoint which it needs; others are answered 403."
    " A login and the key of PROXY_APP_HASH may do everything; only these issue one-time codes.",
    "The daemon reads the lowercase hex SHA-256 of the management key from the environment variable"
    " PROXY_APP_HASH (agentd hash-key computes it). Without it and without named keys, a request"
    " that is not of a login is answered 503 Disabled.",
    "A wrong or missing key is answered 401 Unauthorized. Failed attempts are logged with the"
    " caller's address, never with the key, and are delayed after five of them.",
    "Model requests (/v1/...) need an access key instead; access keys are created here.",
    "POST /api/agent/session returns a one-time code with which a person signs in to the browser"
    ' interface: POST /api/session with {"code": ...}.',
]

CONCEPTS = (
    Concept("channel", "A connection to one model supplier: URL, key, dialects and transport."),
    Concept("dialect", "A supplier's API: openai-chat, openai-responses, anthropic or gemini."),
    Concept(
        "transport",
        "How a channel reaches its supplier: directly, through an HTTP or SOCKS5 proxy, or through"
        " a VPN. If the proxy or VPN is down, so is the channel: calls never bypass it.",
    ),
    Concept(
        "model",
        "A name that callers use, and its routes: channels, by priority, and by weight among"
        " equals. After a failure the next one is tried, as long as nothing was sent.",
    ),
    Concept(
        "fallback",
        "Another model that is tried after the last failure of a model, by three lists: when all"
        " its routes failed (fallbacks), when the request is too long (contextFallbacks), or when"
        " its content is refused (contentFallbacks). It must be within the key's limits and lists.",
    ),
    Concept(
        "parameters",
        "Changes of the parameters of requests, of channels and of models: set, default and remove,"
        " by the names of the supplier's API. The channel's come first, then the model's; headers"
        " are added likewise.",
    ),
    Concept(
        "price", "Exact USD per million tokens of each kind; a route's come before the model's."
    ),
    Concept(
        "price catalogue",
        "Prices and context sizes of known models, from an installed library, which is read again"
        " each day; its prices change when it is upgraded. A model's own prices are used until the"
        " catalogue's are applied to it.",
    ),
    Concept(
        "balance",
        "What is left of the account at a channel's supplier, for each of its keys, where the"
        " supplier tells it. Below the channel's lowest balance there is an alert.",
    ),
    Concept(
        "access key",
        "What a caller of models sends (sk-agentd-...), with limits and lists of the models and"
        " channels it may use. It is shown once, when it is created or reissued.",
    ),
    Concept(
        "address list",
        "The addresses and networks from which an access key is accepted; null: from everywhere."
        " Behind a reverse proxy it is the address that a trusted proxy tells.",
    ),
    Concept(
        "quota",
        "What a caller asks for with its own access key (GET /v1/quota): its limits and those of"
        " its budgets, what is spent and reserved, and when each begins anew.",
    ),
    Concept(
        "management key",
        "What a program sends to these endpoints: the key of PROXY_APP_HASH, or a named one with a"
        " scope, whose changes are logged under its name.",
    ),
    Concept(
        "budget",
        "Limits that the keys of one owner, or with one tag, share. What a key spent counts if it"
        " had the owner or tag then. Soft limits warn only, and a raise ends by itself.",
    ),
    Concept(
        "limit",
        "What a key may spend in USD in total and per day, week or month of the configured"
        " time zone, and its requests, tokens and parallel calls. A call reserves its maximum.",
    ),
    Concept(
        "request log", "One record per model request: caller, model, outcome, tokens and cost."
    ),
    Concept(
        "secret rule",
        "What counts as a secret in requests. A match is masked for suppliers and restored in"
        " replies, or blocks the request, or is only reported.",
    ),
    Concept(
        "leak", "A secret that a rule found in a request: the rule and the place, not the value."
    ),
    Concept(
        "alert",
        "A condition of the gateway, such as a channel that is down, or an event, such as a secret"
        " in a request. It is sent once when it begins (firing) and once when it ends (resolved).",
    ),
    Concept(
        "alert target",
        "Who is notified of alerts, such as a signed webhook. Each alert is delivered at least"
        " once, always under the same id.",
    ),
    Concept(
        "tracing",
        "OpenTelemetry spans for each request and each attempt at a supplier, sent to the collector"
        " of the settings (tracing); they have no texts of requests or replies.",
    ),
    Concept("licence", "Required for model requests, not for these endpoints."),
    Concept(
        "change", "Every change made here is logged with its author and origin, and can be undone."
    ),
)

SECRETS = [
    "Secrets can be written but never read back: suppliers' keys, proxy URLs with a password, VPN"
    " links, secret headers, headers of the tracing collector, the export's password, and the"
    " addresses and secrets of alert targets are shown masked, as **** and their last characters.",
    "A masked value may be sent back unchanged; it stands for the stored secret. When the"
    " supplier's URL changes, the secret must be sent in full: the masked value is refused, and if"
    " the secret is omitted, the channel has none from then on.",
    "In the file a person may refer to a secret as env:NAME or file:PATH instead; such a reference"
    " is shown as it is and cannot be set through this API.",
    "An access key is shown once, in the response that created it; only its hash is stored, and its"
    " last four characters are shown later.",
    "No response, log, report or dry run contains the value of a secret found in a request.",
]

CONVENTIONS = [
    "Bodies are JSON in UTF-8 (Content-Type: application/json). Unknown fields are refused, as are"
    " unknown query parameters of an endpoint that has parameters.",
    'Errors are {"error", "message", "details"}: a code, a sentence, and a hint. Endpoints below'
    " /v1 return errors in the format of their dialect instead.",
    "Lists are paged: limit is the maximum page size and next is the cursor of the following page;"
    " an empty next marks the last page.",
    "PATCH changes the fields it names and keeps the rest, in nested objects too; null resets a"
    " field to its default. Lists and a model's prices are replaced as a whole.",
    "POST /api/agent/keys/batch (channels, models) enables, disables or deletes several, all or"
    " none, as one change with one undo; of keys it also adds tags (tag) or removes them (untag).",
    "POST /api/agent/import creates several channels, models and budgets as one change, all or"
    " none, on request with the catalogue's prices; its undo removes them together."
    " POST /api/agent/import/file does so for the configuration of a LiteLLM proxy or of new-api,"
    " and tells what it cannot take.",
    "?dry_run=true validates a change and returns its result; nothing is changed.",
    "A response about one resource has an ETag. Sent as If-Match, it makes a change fail with 412"
    " if the resource was changed meanwhile.",
    "A name that is taken, or a resource that is in use, is answered 409 with the cause.",
    "Changes are written to the same files that a person edits; comments are preserved. Edits of"
    " the files take effect here at once.",
    "Times are ISO 8601 in UTC; money is USD.",
]
