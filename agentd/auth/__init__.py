"""Authentication and authorization: API keys, users, roles, sessions, login codes and the gate."""
