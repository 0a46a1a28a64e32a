"""Texts of every day's work that look a little like secrets, and hold none."""

import base64
import uuid
from hashlib import md5, sha1, sha256, sha512
from random import Random

_RANDOM = Random(11)  # noqa: S311


def _make_hash(how: type, number: int) -> str:
    return str(how(b"%d" % number).hexdigest())


def _make_integrity(number: int) -> str:
    return base64.b64encode(sha512(b"%d" % number).digest()).decode()


def _make_image(size: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + _RANDOM.randbytes(size)).decode()


_UUID = str(uuid.UUID(int=_RANDOM.getrandbits(128), version=4))

HASHES = [
    f"commit {_make_hash(sha1, 1)}",
    f"git checkout {_make_hash(sha1, 2)[:12]}",
    f"index {_make_hash(sha1, 3)[:7]}..{_make_hash(sha1, 4)[:7]} 100644",
    f"git+https://github.com/x/y.git#{_make_hash(sha1, 5)}",
    f"uses: actions/checkout@{_make_hash(sha1, 6)}  # v4.2.2",
    f"{_make_hash(sha256, 1)}  agentd-0.1.tar.gz",
    f"FROM python:3.11-slim@sha256:{_make_hash(sha256, 2)}",
    f"    --hash=sha256:{_make_hash(sha256, 3)}",
    f'"integrity": "sha512-{_make_integrity(1)}"',
    f'"integrity": "sha1-{base64.b64encode(sha1(b"1").digest()).decode()}"',  # noqa: S324
    f"github.com/pkg/errors v0.9.1 h1:{base64.b64encode(sha256(b'1').digest()).decode()}",
    f'checksum = "{_make_hash(sha256, 4)}"',
    f'ETag: "{_make_hash(md5, 1)}"',
    f"Content-MD5: {base64.b64encode(md5(b'1').digest()).decode()}",  # noqa: S324
    f'<script src=x.js integrity="sha384-{_make_integrity(2)[:64]}"></script>',
    f"id: {_UUID}",
    f"request_id={_UUID}",
    f'"trace_id": "{_make_hash(md5, 2)}"',
    f"traceparent: 00-{_make_hash(md5, 3)}-{_make_hash(md5, 4)[:16]}-01",
    f"X-Request-Id: {_UUID}",
    f"call_{_make_hash(sha1, 7)[:24]}",
    f"toolu_01{_make_integrity(3)[:22].replace('/', 'a').replace('+', 'b')}",
    f"msg_01{_make_integrity(4)[:22].replace('/', 'a').replace('+', 'b')}",
    f"chatcmpl-{_make_integrity(5)[:29].replace('/', 'a').replace('+', 'b')}",
    f"docker run -d {_make_hash(sha256, 5)[:12]}",
    f"key {_make_hash(md5, 5)} is not in the cache",
    "MD5 (file) = " + _make_hash(md5, 6),
    f"main.{_make_hash(md5, 7)[:8]}.chunk.js",
    f"/assets/index-{_make_hash(md5, 8)[:8]}.css",
    f"0x{_make_hash(sha1, 9)}",
    f"revision: {_make_hash(sha1, 10)}",
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{_make_integrity(6)[:43]} me@host",
    f"SHA256:{base64.b64encode(sha256(b'2').digest()).decode().rstrip('=')}",
    "a1:b2:c3:d4:e5:f6:07:18:29:3a:4b:5c:6d:7e:8f:90",
]

ENCODED = [
    f"data:image/png;base64,{_make_image(900)}",
    f'<img src="data:image/png;base64,{_make_image(300)}">',
    base64.encodebytes(_RANDOM.randbytes(900)).decode(),
    f"url(data:font/woff2;base64,d09GMgABAAAAA{_make_integrity(7)})",
    base64.b64encode(b"the quick brown fox jumps over the lazy dog, again and again").decode(),
    base64.b64encode(b'{"alg": "none", "words": ["one", "two", "three"], "count": 3}').decode(),
    b"nothing to see here, move along please".hex(),
    "%E4%BD%A0%E5%A5%BD%20%E4%B8%96%E7%95%8C",
    "https://host/search?q=how%20to%20reset%20my%20password%3F",
    "&lt;a href=&quot;https://host/&quot;&gt;Tom &amp; Jerry&lt;/a&gt;",
    "\\u4f60\\u597d\\u4e16\\u754c",
    "f\u200bamily: \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "ＨＥＬＬＯ　ＷＯＲＬＤ",
    "\\x1b[31mred\\x1b[0m",
    "53 6f 6d 65 20 70 6c 61 69 6e 20 77 6f 72 64 73",
    'mappings:"AAAA,SAAS,IAAI,CAAC,GAAG,KAAK,CAAC,MAAM,CAAC,CAAC,CAAC,EAAE,CAAC"',
]

PLACEHOLDERS = [
    *("password: changeme", "password=<password>", "PASSWORD=${PASSWORD}", "PASSWORD=$PASSWORD"),
    *("password: '***********'", "password: ********", "API_KEY=xxxxxxxxxxxxxxxx"),
    *("API_KEY=your_api_key_here", 'api_key = "YOUR-API-KEY"', "token: <token>", "TOKEN=<TOKEN>"),
    *("secret: ${{ secrets.GITHUB_TOKEN }}", "token: {{ token }}", 'password: "{{ vault_pw }}"'),
    *("password: !vault |", "password: {{ .Values.db.password }}", "password: %PASSWORD%"),
    *("PASSWORD=%DB_PASSWORD%", "password: $(cat /run/secrets/pw)", 'PASSWORD="$(pass show x)"'),
    *("DB_PASSWORD=$(openssl rand -hex 16)", "api-key: REPLACE_ME", "password: [REDACTED]"),
    *("Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "Bearer ${ACCESS_TOKEN}"),
    *("Authorization: Basic <credentials>", "curl -u user:password https://host"),
    *("curl -u $USER:$PASSWORD https://host", 'curl -u "${U}:${P}" https://host'),
    *("curl -u <user>:<password> https://host", "mysql -u root -p", "mysql -uroot -p shop"),
    *("mysql -u root -p$MYSQL_PASSWORD", "mysql -p${PW} shop", "sshpass -p $PW ssh host"),
    *('sshpass -p "$SSHPASS" ssh host', "docker login -u me --password-stdin"),
    *("docker login -u $U -p $P", "redis-cli -a $REDIS_PASSWORD", "tool --password <password>"),
    *("tool --token $TOKEN", "tool --token=${TOKEN}", "tool --api-key YOUR_API_KEY"),
    *("tool --token TOKEN", "use --password to give one, or --token instead of it"),
    *("--secret-key string   the key that is to be used", "postgres://user:password@localhost/db"),
    *(
        "postgres://${USER}:${PASSWORD}@db/x",
        "redis://:password@localhost",
        "amqp://guest:guest@mq",
    ),
    *("https://user:pass@host/", "mongodb://<user>:<password>@host/", "ENV DB_PASSWORD ${PW}"),
    *("ARG NPM_TOKEN", "ENV API_KEY=", "machine host login me password $PW", "SECRET_KEY=example"),
    *("<password>${db.password}</password>", "<password></password>", "<apiKey>string</apiKey>"),
    *('password = "password"', "password: 'secret'", 'pwd = "********"', "sk-xxxxxxxxxxxxxxxxxxxx"),
    *("AKIAIOSFODNN7EXAMPLE"[:14] + "...", "ghp_xxxxxxxxxxxx", "sk-ant-...", "-p 8080:80"),
    *(
        "define('DB_PASSWORD', 'your_password');",
        "define('AUTH_KEY', 'put your unique phrase here');",
    ),
    *('define("DB_PASSWORD", getenv("DB_PASSWORD"));', "docker run -u 1000:1000 image"),
]

CODE = [
    *(
        "password = getpass()",
        "password = getpass.getpass('Password: ')",
        "token = get_token(user)",
    ),
    *("password = request.form['password']", "const { password } = req.body;", "pw = prompt()"),
    *('password = os.environ["DB_PASSWORD"]', 'token = os.getenv("API_TOKEN")', "token = next(it)"),
    *("this.password = password;", "self.token = token", "password: str", "password: String,"),
    *("password: string;", "val password: CharArray", "private String password;", "token: Token"),
    *("password?: string | undefined", "let secret = config.secret_key;", "key = lambda x: x[1]"),
    *(
        "def login(username, password):",
        "if password != confirm_password:",
        "tokens = text.split()",
    ),
    *("token_count = len(tokens)", "max_tokens=4096", '"max_tokens": 64000', "MAX_TOKENS = 8192"),
    *("tokenizer = AutoTokenizer.from_pretrained(name)", "secret = Secret.from_name('db')"),
    *("const apiKey = process.env.OPENAI_API_KEY;", "api_key=settings.API_KEY.get_secret_value()"),
    *("password = hash_password(plain)", "password=self._password,", "password=user_password,"),
    *(
        '<input type="password" name="password" id="password">',
        "<label for=password>Password</label>",
    ),
    *(
        '<string name="password">Password</string>',
        '<string name="wrong_password">Wrong one</string>',
    ),
    *(
        "<PasswordBox x:Name='PasswordInput' />",
        "$password = $_POST['password'];",
        "$token = $this->x",
    ),
    *(
        '"password": "Passwort"',
        '"password": "Enter your password"',
        '"password": "required|min:8"',
    ),
    *(
        "'password': 'Mot de passe'",
        '"forgot_password": "Forgot your password?"',
        "password: required",
    ),
    *('"passwordMismatch": "The passwords do not match"', '"password": "invalid_credentials"'),
    *(
        'type: "password"',
        'autocomplete="current-password"',
        "format: password",
        '"auth": "required"',
    ),
    *(
        "PASSWORD_MIN_LENGTH = 12",
        "PASSWORD_RESET_TIMEOUT=259200",
        "TOKEN_TTL=3600",
        "KEY_LENGTH=32",
    ),
    *(
        "KEY_FILE=/etc/ssl/private/server.key",
        "SSH_KEY_PATH=~/.ssh/id_ed25519",
        "SECRET_NAME=db-creds",
    ),
    *("TOKEN_URL=https://host/oauth2/token", "primary_key=True", "foreign_key = 'users.id'"),
    *(
        "cache_key = f'users:{user_id}:v2'",
        "public_key: /etc/ssl/server.pub",
        "sort_key: created_at",
    ),
    *(
        'key="created_at_desc"',
        "PARTITION KEY (tenant_id, user_id)",
        "for key, value in d.items():",
    ),
    *(
        "auth=('user', 'password')",
        'login("user", "password")',
        "auth=HTTPBasicAuth(user, password)",
    ),
    *("new NetworkCredential(user, password)", "user.setPassword(password);", "setPassword('')"),
    *(
        '.password("password")',
        "CREATE USER me IDENTIFIED BY :password",
        "ALTER ROLE me PASSWORD NULL",
    ),
    *("csrfmiddlewaretoken", "<meta name=csrf-token content=''>", '@Value("${db.password}")'),
    *(
        'variable "db_password" {\n  type = string\n  sensitive = true\n}',
        "secretKeyRef:\n  name: db",
    ),
    *(
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:",
        "password_hash = sa.Column(sa.String)",
    ),
    *('type Credentials struct {\n\tPassword string `json:"password"`\n}', "password => $password"),
    *('expect(page.getByLabel("Password")).toBeVisible()', "getByTestId('password-input-field')"),
    *("!function(e,t){var n=e.token,r=t.key;n&&(r=n.split('.')[1])}(window,document);",),
    *(
        "var a=b.password,c=d.apiKey||e.key;function f(g){return g.token}",
        ".btn-token{color:#1a2b3c}",
    ),
    *(
        'if (token === "undefined") return',
        "assert token == expected_token",
        "token ??= await fetch()",
    ),
    *("logger.info('password changed for %s', user)", "raise ValueError('password is too short')"),
    *("case TokenKind::Identifier => self.advance(),", "std::string token = lexer.next_token();"),
    *("secret_key_base: <%= ENV['SECRET_KEY_BASE'] %>", "password: <%= ENV.fetch('PW') %>"),
    *("api_key: !Ref ApiKeyParameter", "SecretString: !Sub '{{resolve:secretsmanager:x}}'"),
    *("Password: {type: string, format: password, minLength: 8}", "passwordPolicy: strong"),
    *(
        "pass",
        "    pass\n",
        "bypass = compute_bypass(x)",
        "compass: north-east",
        "passed = 12 of 12",
    ),
    *("pat = re.compile(r'[a-z]+')", "path: src/agentd/proxy", "patch: 1.2.3-rc.1", "psk = None"),
]

PROSE = [
    "Your password must have at least eight characters, one of them a digit.",
    "The token: keep it somewhere safe, and never commit it.",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt.",
    "The secret: practise every day, for years.",
    "To reset the password: open Settings, then choose Security.",
    "Passwords are hashed with scrypt; keys are compared in constant time.",
    "basic authentication-and-authorisation concepts",
    "The bearer certificates-of-deposit are kept in a safe.",
    "API keys: see the section about access keys below.",
    "密码：请输入您的密码，然后点击登录。",
    "パスワード：８文字以上で入力してください",
    "Пароль: введите пароль ещё раз",
    "agentd 0.1.0 (build 20240131, python 3.11.7, tornado 6.4.1)",
    "version = 1.2.3-alpha.4+build.20240131",
    "https://docs.python.org/3/library/secrets.html#secrets.token_urlsafe",
    "https://github.com/owner/repo/blob/main/src/secret_rules.py#L10-L20",
    "s3://bucket/path/to/object-2024-01-31.parquet",
    "arn:aws:iam::123456789012:role/deploy-role",
    "2024-01-31T12:34:56.789Z INFO [main] Token refreshed in 123 ms",
    "192.168.10.20:5432 2001:db8:85a3::8a2e:370:7334",
    "+49 30 123456-78, IBAN DE89 3704 0044 0532 0130 00",
    "Copyright (c) 2024 The Authors. All rights reserved.",
    "rwxr-xr-x 2 root root 4096 Jan 31 12:34 .ssh",
    "error[E0308]: mismatched types, expected `Token`, found `&str`",
    'File "/usr/lib/python3.11/getpass.py", line 77, in unix_getpass',
    "npm ERR! code E401 Unable to authenticate, need: Basic realm",
    'WWW-Authenticate: Bearer realm="api", error="invalid_token"',
    "Set the variable OPENAI_API_KEY to your key, and restart.",
    "root:x:0:0:root:/root:/bin/bash",
    "me:!:19000:0:99999:7:::",
    "src/main.c:1234:5:error:expected",
    "127.0.0.1:8080:80:tcp is published",
    "sha256sum -c SHA256SUMS && echo OK",
    "The Cookie: header is dropped, as are all others.",
    "mysql -h localhost -P 3306 -u root --protocol=tcp",
    "7z x -o/tmp/out archive.7z && zip -r out.zip out",
    "curl -fsSL https://host/install.sh | sh -s -- --user",
    "wget -qO- https://host/key.gpg | gpg --dearmor",
    "git log --author=token --pretty=format:%h%x09%s",
    "ssh -i ~/.ssh/id_ed25519 -p 2222 deploy@host",
]

MINIFIED = [
    *("keep_secret = 'keep_old_secret_active_for_24_hours'", "private_key: PKCS7PrivateKeyTypes"),
    *("PWDPROMPT='Password:'", "token: Token256Kind = next(tokens)", "password: str = None"),
    *("password: @user.password", "secret: *default_secret", "const token: Token = lexer.next2();"),
    *("env=dict(os.environ, PYTHONPATH=pythonpath)", "self._auth = BedrockAwsAuth(region)"),
    *(
        "for(let tokenStartI=0;for(let i=0;i<n;i++)){}",
        "this.tokenize=tokenize}equals(left,right){",
    ),
    *("token_type = 'invalid-obs-local-part'", "GRANT = 'urn:ietf:params:oauth:token-type:jwt'"),
    *("<code>{ passphrase: &#x3C;string|buffer> }</code>", "SPATCH_USE_O_DEPENDENCIES=NoThanks"),
]

INNOCENTS: list[str] = [*HASHES, *ENCODED, *PLACEHOLDERS, *CODE, *PROSE, *MINIFIED]
"""None of them is to be changed."""
