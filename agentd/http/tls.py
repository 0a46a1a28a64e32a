"""TLS for the daemon's port: on other devices, browsers give a page less without it."""

import os
import ssl

from agentd.core.errors import ConfigError, ConfigProblem


def load_tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a certificate (with those above it) and its key. Blocking.

    ``ConfigError`` for files that are missing, do not belong together, or for a key that others
    may read.
    """
    for path in (certificate, key):
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise ConfigError([ConfigProblem(path, 0, f"cannot be read: {reason}")]) from error
        if path == key and mode & 0o007:
            what = f"can be accessed by others; chmod o-rwx {path}"
            raise ConfigError([ConfigProblem(path, 0, what)])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        what = f"is not a certificate with the key {key}: {getattr(error, 'reason', error)}"
        raise ConfigError([ConfigProblem(certificate, 0, what)]) from error
    return context
