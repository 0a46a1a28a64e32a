"""The Model Context Protocol: any MCP client can command the daemon at ``/mcp``."""
