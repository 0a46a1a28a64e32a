"""The keys of the daemons that are crashed, and their hashes."""

import hashlib

KEY = "agent_" + "Cr4sh" * 6 + "xy"
KEY_HASH = hashlib.sha256(KEY.encode()).hexdigest()
MANAGEMENT_KEY = "manage-" + "Cr4sh" * 6
MANAGEMENT_HASH = hashlib.sha256(MANAGEMENT_KEY.encode()).hexdigest()
