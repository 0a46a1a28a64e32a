"""OpenAI Codex by its app server."""
