"""The MCP client: servers whose tools, resources and prompts the agents may use.

Why no official SDK: the Python SDK brings pydantic, starlette, httpx and anyio (about 20 MB, a
second of start-up) into the serving process, and starts programs that nothing would end after a
``kill -9``. What a client needs of the protocol is small: JSON-RPC over the subprocess and HTTP
layers that are here. The tests run it against servers of the official SDKs.
"""
