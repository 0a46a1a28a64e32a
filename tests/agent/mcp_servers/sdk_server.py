"""A server of the official Python SDK: ``sdk_server.py stdio`` or ``sdk_server.py PORT``."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf000000020001e221bc330000000049454e44ae426082"
)
server = MCPServer("kitchen", instructions="Boils water.")


class Kind(BaseModel):
    """The form of a question."""

    kind: str


class Recipe(BaseModel):
    """A form that one answer is not enough for."""

    kind: str
    minutes: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def environment(name: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
def draw() -> Image:
    """Draw a pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("The kettle is empty.")


@server.tool()
def die() -> str:
    """End the program."""
    sys.stderr.write("the kettle exploded\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
async def boil(ctx: Context, minutes: int = 60) -> str:
    """Boil water for a long time, with progress; write a file if that is cancelled."""
    try:
        for minute in range(minutes):
            await ctx.report_progress(minute, minutes, "boiling")
            await anyio.sleep(0.05)
    except anyio.get_cancelled_exc_class():
        Path("cancelled").write_text("yes")
        raise
    return "hot"


@server.tool()
async def where(ctx: Context) -> str:
    """Return the roots."""
    found = await ctx.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def brew(ctx: Context) -> str:
    """Ask which tea is wanted, and brew it."""
    answer = await ctx.elicit("Which tea?", Kind)
    return f"brewed {answer.data.kind}" if answer.action == "accept" else answer.action


@server.tool()
async def steep(ctx: Context) -> str:
    """Ask which tea is wanted, and for how long."""
    return (await ctx.elicit("How?", Recipe)).action


@server.tool()
async def learn(ctx: Context) -> str:
    """Learn to whistle: another tool."""

    def whistle() -> str:
        """Whistle."""
        return "fweee"

    server.add_tool(whistle)
    await ctx.session.send_tool_list_changed()
    return "learned"


@server.resource("tea://menu")
def menu() -> str:
    """Return the teas."""
    return "green, black"


@server.prompt()
def order(tea: str) -> str:
    """Order a tea."""
    return f"Bring me {tea}."


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
