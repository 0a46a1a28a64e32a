r"""Secrets recognizable by themselves, in the formats that their vendors publish.

A format's right end is the end of its alphabet: a key is also found before a comma, a quote, a
backslash or a bracket. Its left end is a word's, or that of an escape (``\n`` in JSON in JSON).
"""

from agentd.gateway.secrets.rules import SecretPattern

LEFT = r"(?:\b|_|\\[abfnrtv0]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|\[[0-9;]*m)"
"""The start of a word, also after an escape sequence whose last letter touches it."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CRYPT = "[./A-Za-z0-9]"


def _make_token_pattern(id: str, description: str, regex: str) -> SecretPattern:  # noqa: A002
    """Define a pattern whose prefix is unmistakable, whatever precedes it."""
    return SecretPattern(id=id, description=description, regex=regex)


def _make_word_pattern(id: str, description: str, regex: str) -> SecretPattern:  # noqa: A002
    """Define a pattern that matches only at the beginning of a word."""
    return SecretPattern(id=id, description=description, regex=f"{LEFT}({regex})")


_OURS = (
    _make_token_pattern(
        "agentd-key", "A key of this gateway", r"sk-agentd-[A-Za-z0-9]{12}-[A-Za-z0-9]{32}"
    ),
    _make_token_pattern("agentd-remote-key", "A key of this daemon", r"agent_[A-Za-z0-9]{32}"),
)

_SUPPLIERS = (
    _make_token_pattern(
        "anthropic", "Anthropic API key", r"sk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{16,}"
    ),
    _make_token_pattern("openrouter", "OpenRouter API key", r"sk-or-v1-[0-9a-f]{40,64}"),
    _make_token_pattern(
        "openai",
        "OpenAI API key, and those of its like",
        r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"
        r"|sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}",
    ),
    _make_word_pattern("sk", "A key as many suppliers make them", r"sk-[A-Za-z0-9]{32,64}"),
    _make_token_pattern("google-api", "Google API key", r"AIza[A-Za-z0-9_-]{35}"),
    _make_token_pattern("groq", "Groq API key", r"gsk_[A-Za-z0-9]{40,64}"),
    _make_token_pattern("xai", "xAI API key", r"xai-[A-Za-z0-9]{60,}"),
    _make_token_pattern("perplexity", "Perplexity API key", r"pplx-[A-Za-z0-9]{40,64}"),
    _make_word_pattern("replicate", "Replicate token", r"r8_[A-Za-z0-9]{37}"),
    _make_token_pattern(
        "huggingface", "Hugging Face token", r"hf_[A-Za-z]{30,40}|api_org_[A-Za-z]{30,40}"
    ),
)

_CLOUDS = (
    _make_word_pattern(
        "aws-access-key", "AWS access key id", r"(?:A3T[A-Z0-9]|A[KSBC][IC]A)[A-Z2-7]{16}"
    ),
    SecretPattern(
        id="aws-secret-key",
        description="AWS secret access key",
        regex=r"(?i:secret_?access_?key|aws_?secret_?key)[^A-Za-z0-9/+]{1,12}"
        r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
        entropy=3.0,
    ),
    _make_token_pattern("google-oauth", "Google OAuth secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _make_token_pattern("google-access", "Google access token", r"ya29\.[A-Za-z0-9_-]{20,}"),
    SecretPattern(
        id="azure-storage",
        description="Azure storage key",
        regex=r"AccountKey=([A-Za-z0-9+/]{86}==)",
    ),
    _make_token_pattern("digitalocean", "DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    _make_word_pattern("databricks", "Databricks token", r"dapi[0-9a-f]{32}(?:-[0-9])?"),
    _make_word_pattern("vault", "HashiCorp Vault token", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _make_token_pattern("tailscale", "Tailscale key", r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]+"),
)

_SERVICES = (
    _make_token_pattern(
        "github",
        "GitHub token",
        r"gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}",
    ),
    _make_token_pattern(
        "gitlab",
        "GitLab token",
        r"gl(?:pat|dt|ptt|rt|ft|soat|cbt|imt|agent|oas|ffct)-[A-Za-z0-9_-]{20,}"
        r"(?:\.[A-Za-z0-9_-]{2,20}){0,3}",
    ),
    _make_token_pattern(
        "slack",
        "Slack token",
        r"xox[a-eoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,}",
    ),
    SecretPattern(
        id="slack-hook",
        description="Slack webhook",
        regex=r"hooks\.slack\.com\\?/(?:services|workflows|triggers)\\?/([A-Za-z0-9+/\\]{30,})",
    ),
    _make_token_pattern(
        "stripe",
        "Stripe key",
        r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{24,}",
    ),
    _make_token_pattern("npm", "npm token", r"npm_[A-Za-z0-9]{36}"),
    _make_token_pattern("pypi", "PyPI token", r"pypi-AgE[A-Za-z0-9_-]{40,}"),
    SecretPattern(
        id="telegram",
        description="Token of a Telegram bot",
        regex=r"(?:^|[^0-9])([0-9]{6,16}:[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)",
    ),
    _make_token_pattern(
        "sendgrid", "SendGrid key", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"
    ),
    _make_word_pattern("twilio", "Twilio API key", r"SK[0-9a-f]{32}"),
    _make_token_pattern("grafana", "Grafana token", r"gl(?:sa|c)_[A-Za-z0-9_+/=-]{32,}"),
    _make_token_pattern("notion", "Notion token", r"ntn_[0-9]{11}[A-Za-z0-9]{35}"),
    _make_word_pattern("linear", "Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{40}"),
    _make_token_pattern("shopify", "Shopify token", r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"),
    _make_token_pattern("docker", "Docker Hub token", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,64}"),
    _make_token_pattern("sentry", "Sentry token", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    _make_token_pattern("postman", "Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _make_word_pattern("age", "age secret key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
)

_MORE_SUPPLIERS = (
    _make_token_pattern("cerebras", "Cerebras API key", r"csk-[a-z0-9]{40,64}"),
    _make_token_pattern("nvidia", "NVIDIA API key", r"nvapi-[A-Za-z0-9_-]{50,}"),
    _make_word_pattern("fireworks", "Fireworks API key", r"fw_[A-Za-z0-9]{22,40}"),
    _make_token_pattern("together", "Together API key", r"tgp_v[0-9]_[A-Za-z0-9_-]{40,}"),
    _make_word_pattern("jina", "Jina API key", r"jina_[A-Za-z0-9_-]{50,}"),
    _make_token_pattern("tavily", "Tavily API key", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{30,}"),
    _make_word_pattern("firecrawl", "Firecrawl API key", r"fc-[0-9a-f]{32}"),
    _make_word_pattern("elevenlabs", "ElevenLabs API key", r"sk_[0-9a-f]{48}"),
    _make_token_pattern(
        "langsmith", "LangSmith API key", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"
    ),
    _make_word_pattern("langfuse", "Langfuse secret key", rf"sk-lf-{_UUID}"),
    _make_word_pattern("pinecone", "Pinecone API key", r"pcsk_[A-Za-z0-9_]{50,}"),
    _make_word_pattern("bedrock", "Amazon Bedrock API key", r"ABSK[A-Za-z0-9+/]{100,}={0,2}"),
)

_HOSTS = (
    _make_word_pattern("google-refresh", "Google refresh token", r"1//0[A-Za-z0-9_-]{40,}"),
    _make_token_pattern(
        "azure-client", "Azure client secret", r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"
    ),
    _make_token_pattern("heroku", "Heroku API key", r"HRKU-[A-Za-z0-9_-]{36,}"),
    _make_word_pattern("alibaba", "Alibaba Cloud access key id", r"LTAI[A-Za-z0-9]{12,26}"),
    _make_token_pattern(
        "supabase", "Supabase key", r"sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,}"
    ),
    _make_token_pattern(
        "planetscale", "PlanetScale secret", r"pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,64}"
    ),
    _make_word_pattern("neon", "Neon key or password", r"napi_[a-z0-9]{60,}|npg_[A-Za-z0-9]{12,}"),
    _make_word_pattern("netlify", "Netlify token", r"nfp_[A-Za-z0-9]{36,}"),
    _make_word_pattern("render", "Render API key", r"rnd_[A-Za-z0-9]{24,}"),
    _make_token_pattern(
        "fly",
        "Fly token",
        r"FlyV1 fm[12][a-z]?_[A-Za-z0-9+/=_,-]{80,}|fm[12][a-z]?_[A-Za-z0-9+/=_-]{80,}",
    ),
    _make_word_pattern("fly-old", "Fly token", r"fo1_[A-Za-z0-9_-]{40,}"),
    _make_word_pattern("pulumi", "Pulumi token", r"pul-[0-9a-f]{40}"),
    _make_token_pattern(
        "terraform", "Terraform Cloud token", r"[A-Za-z0-9]+\.atlasv1\.[A-Za-z0-9_-]{50,}"
    ),
    _make_word_pattern("prefect", "Prefect API key", r"pn[ub]_[A-Za-z0-9]{36}"),
    _make_word_pattern(
        "cloudflare-ca", "Cloudflare origin CA key", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"
    ),
    _make_word_pattern(
        "doppler",
        "Doppler token",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    _make_word_pattern(
        "onepassword", "1Password service account token", r"ops_eyJ[A-Za-z0-9_-]{100,}={0,2}"
    ),
    _make_word_pattern("scaleway", "Scaleway access key", r"SCW[A-Z0-9]{17}"),
)

_BUILDS = (
    _make_token_pattern(
        "gitlab-runner", "GitLab runner registration token", r"GR1348941[A-Za-z0-9_-]{20,}"
    ),
    _make_word_pattern("bitbucket", "Bitbucket app password", r"ATBB[A-Za-z0-9]{32}"),
    _make_word_pattern("atlassian", "Atlassian API token", r"AT[AC]TT3xFf[A-Za-z0-9_=-]{100,}"),
    _make_word_pattern("rubygems", "RubyGems API key", r"rubygems_[0-9a-f]{48}"),
    _make_word_pattern("crates", "crates.io token", r"cio[A-Za-z0-9]{32}"),
    _make_word_pattern("nuget", "NuGet API key", r"oy2[a-z0-9]{43}"),
    _make_word_pattern("clojars", "Clojars deploy token", r"CLOJARS_[A-Za-z0-9]{60}"),
    _make_word_pattern("artifactory", "JFrog key", r"AKCp[A-Za-z0-9]{60,}|cmVmdGtu[A-Za-z0-9]{56}"),
    _make_token_pattern(
        "circleci", "CircleCI token", r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[0-9a-f]{40}"
    ),
    _make_word_pattern("buildkite", "Buildkite token", r"bk(?:ua|pat|ct|aj)_[0-9a-f]{40}"),
    _make_word_pattern("sonar", "SonarQube token", r"sq[apu]_[0-9a-f]{40}"),
    _make_word_pattern(
        "harness", "Harness token", r"[ps]at\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"
    ),
    _make_word_pattern(
        "sourcegraph", "Sourcegraph token", r"sgp_(?:[0-9A-Za-z]{16}_|local_)?[0-9a-f]{40}"
    ),
    _make_token_pattern("figma", "Figma token", r"fig[dou]_[A-Za-z0-9_-]{40,}"),
    _make_word_pattern("notion-old", "Notion token", r"secret_[A-Za-z0-9]{43}"),
    _make_word_pattern("airtable", "Airtable token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _make_word_pattern("clickup", "ClickUp token", r"pk_[0-9]{5,10}_[A-Z0-9]{32}"),
    _make_word_pattern("trello", "Trello token", r"ATTA[0-9a-f]{64}[0-9A-F]{8}"),
    _make_token_pattern("contentful", "Contentful token", r"CFPAT-[A-Za-z0-9_-]{43}"),
    _make_word_pattern("readme", "ReadMe API key", r"rdme_[a-z0-9]{70}"),
)

_MESSAGES = (
    _make_word_pattern(
        "discord",
        "Token of a Discord bot",
        r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
    ),
    _make_word_pattern(
        "mailgun", "Mailgun key", r"key-[0-9a-f]{32}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}"
    ),
    _make_word_pattern("mailchimp", "Mailchimp key", r"[0-9a-f]{32}-us[0-9]{1,2}"),
    _make_word_pattern("mandrill", "Mandrill key", r"md-[A-Za-z0-9_-]{22}"),
    _make_word_pattern("resend", "Resend key", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{16,}"),
    _make_token_pattern("brevo", "Brevo key", r"x(?:keys|smtps)ib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
)

_WATCHES = (
    _make_word_pattern(
        "new-relic",
        "New Relic key",
        r"NR(?:AK|II|IQ|SP|JS|RA|BR)-[A-Za-z0-9_-]{19,}|[0-9a-f]{36}NRAL",
    ),
    _make_token_pattern(
        "dynatrace", "Dynatrace token", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"
    ),
    _make_word_pattern("posthog", "PostHog personal key", r"phx_[A-Za-z0-9]{40,}"),
    _make_word_pattern("launchdarkly", "LaunchDarkly key", rf"(?:sdk|api)-{_UUID}"),
)

_MONEY = (
    _make_token_pattern("square", "Square token", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43}"),
    _make_word_pattern("square-access", "Square access token", r"EAAA[A-Za-z0-9_-]{60}"),
    _make_token_pattern(
        "braintree",
        "Braintree token",
        r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
    ),
    _make_word_pattern(
        "plaid", "Plaid token", rf"access-(?:sandbox|development|production)-{_UUID}"
    ),
    _make_token_pattern("flutterwave", "Flutterwave key", r"FLWSECK(?:_TEST)?-[0-9a-zA-Z]{32}-X"),
    _make_word_pattern("easypost", "EasyPost key", r"EZ[AT]K[A-Za-z0-9]{54}"),
    _make_token_pattern("shippo", "Shippo token", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    _make_token_pattern("duffel", "Duffel token", r"duffel_(?:live|test)_[A-Za-z0-9_-]{43}"),
)

_PEOPLE = (
    _make_word_pattern("facebook", "Facebook access token", r"EAA[A-Za-z0-9]{90,}"),
    SecretPattern(
        id="twitter",
        description="Bearer token of X",
        regex=r"(?:^|[^A-Za-z0-9+/=%])(A{20,24}[A-Za-z0-9%]{60,})",
        entropy=3.5,
    ),
    _make_word_pattern("hubspot", "HubSpot private app token", rf"pat-[a-z]{{2,3}}[0-9]?-{_UUID}"),
    _make_word_pattern("typeform", "Typeform token", r"tfp_[A-Za-z0-9_-]{40,}"),
    _make_word_pattern(
        "mapbox", "Mapbox secret token", r"sk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}"
    ),
    _make_word_pattern("dropbox", "Dropbox token", r"sl\.(?:u\.)?[A-Za-z0-9_-]{100,}"),
    _make_word_pattern("wallet", "Extended private key of a wallet", r"[xyzt]prv[A-Za-z0-9]{100,}"),
)

_HASHES = (
    _make_token_pattern(
        "password-hash",
        "A hash of a password, as in /etc/shadow, .htpasswd and databases",
        rf"\$(?:1|apr1)\${_CRYPT}{{1,8}}\${_CRYPT}{{22}}"
        rf"|\$[56]\$(?:rounds=[0-9]+\$)?{_CRYPT}{{1,16}}\${_CRYPT}{{43,86}}"
        rf"|\$2[abxy]?\$[0-9]{{2}}\${_CRYPT}{{53}}"
        rf"|\$g?[y7]\$(?:{_CRYPT}+\$)?{_CRYPT}+\${_CRYPT}{{43}}"
        r"|\$argon2(?:id|i|d)\$[a-z0-9=,$]+\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{20,}"
        r"|pbkdf2_sha(?:1|256|512)\$[0-9]+\$[^\s$\"']+\$[A-Za-z0-9+/]{27,}=*"
        r"|(?:scrypt|pbkdf2:sha(?:1|256|512)):[0-9:]+\$[^\s$\"']+\$[0-9a-f]{40,}"
        r"|SCRAM-SHA-(?:1|256)\$[0-9]+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+"
        r"|\{(?:S?SHA(?:256|384|512)?|S?MD5|CRYPT)\}[A-Za-z0-9+/$.]{20,}=*",
    ),
)

TOKENS: tuple[SecretPattern, ...] = (
    *(*_OURS, *_SUPPLIERS, *_MORE_SUPPLIERS, *_CLOUDS, *_HOSTS, *_SERVICES, *_BUILDS),
    *(*_MESSAGES, *_WATCHES, *_MONEY, *_PEOPLE, *_HASHES),
)

WORDS = {
    rule.regex: rule.regex.removeprefix(LEFT) for rule in TOKENS if rule.regex[: len(LEFT)] == LEFT
}
"""The patterns that begin with ``LEFT``, and what each finds behind it: a single group."""
