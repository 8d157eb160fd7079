"""Drives `flamelet mcp` by the official client (PyPI `mcp`): lists its tools, calls each of them, and tries what it
must refuse. Arguments: the command, a folder with profiles, the address of a service, the text of a secret file.
Prints one line for each check; an exception fails the test."""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import Client, MCPError, StdioServerParameters

flamelet, folder, address, secret = sys.argv[1:]
BUSY = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"


def text_of(result):
    assert len(result.content) == 1 and result.content[0].type == "text", result
    assert len(result.content[0].text) < 25000, len(result.content[0].text)
    return result.content[0].text


async def good(client, tool, expected, **arguments):
    result = await client.call_tool(tool, arguments)
    text = text_of(result)
    assert not result.is_error and expected in text, (tool, arguments, text)
    assert secret not in text, (tool, arguments, text)
    print("ok:", tool, arguments)
    return text


async def bad(client, tool, expected, **arguments):
    result = await client.call_tool(tool, arguments)
    text = text_of(result)
    assert result.is_error and expected in text and "\n" not in text.strip(), (tool, arguments, text)
    assert secret not in text, (tool, arguments, text)
    print("ok: refused:", tool, arguments)


async def questions(client):
    await good(client, "open", "cpu.pb.gz")
    await good(client, "open", "Sample types:", path="cpu.pb.gz")
    await good(client, "explain", "Quality:", profile="cpu.pb.gz")
    await good(client, "top", "flat%", profile="cpu.pb.gz", rows=5, cum=True)
    await good(client, "top", "Quality:", profile="cpu.pb.gz", by="yours")
    await good(client, "peek", "flat%", profile="cpu.pb.gz", function="main")
    await good(client, "list", "Total:", profile="cpu.pb.gz", function="main.main")
    await good(client, "diff", "before: Quality:", before="cpu.pb.gz", after="cpu.pb.gz")


async def bad_arguments(client):
    await bad(client, "top", "'profile' is missing")
    await bad(client, "top", "must be a whole number", profile="cpu.pb.gz", rows="many")
    await bad(client, "top", "there is no parameter", profile="cpu.pb.gz", line=3)
    await bad(client, "peek", "expression", profile="cpu.pb.gz", function="(")
    try:
        await client.call_tool("delete", {})
    except MCPError as error:
        assert "there is no tool 'delete'" in str(error), error
    else:
        raise AssertionError("a tool that is not there answers")
    print("ok: refused: an unknown tool")


async def outside(client):
    for path in ["/etc/passwd", "../secret.txt", "link.pb.gz", f"{folder}/../secret.txt", "/"]:
        await bad(client, "top", "not in an allowed folder", profile=path)
        await bad(client, "open", "not in an allowed folder", path=path)


async def hostile(client):
    """The profile names the secret as source and as binary; only what is below the folder is shown."""
    text = await good(client, "list", "line_of_the_secret", profile="hostile.pb", function=".")
    assert "fn shown() {}" in text, text
    for tool in ["top", "explain"]:
        await good(client, tool, "Quality:", profile="hostile.pb")


async def take(client):
    fetched = await good(client, "fetch", "Kept in memory as fetched-1", address=address, seconds=1)
    assert "Quality:" in fetched, fetched
    await good(client, "top", "flat%", profile="fetched-1")
    await bad(client, "fetch", "is not allowed", address="http://127.0.0.1:1/debug/pprof/heap")
    await bad(client, "fetch", "302", address=f"{address}/redirect")
    await good(client, "record", "recording-2", command=["sh", "-c", BUSY], seconds=60, save_as="sh.pb.gz")
    await good(client, "top", "Quality:", profile="recording-2")
    await good(client, "open", "Sample types:", path="sh.pb.gz")
    await bad(client, "record", "exists already", command=["true"], save_as="sh.pb.gz")
    await bad(client, "record", "must be a file name", command=["true"], save_as="../sh.pb.gz")
    await bad(client, "record", "give either", process="1", command=["true"])
    await bad(client, "record", "no_such_program", command=["no_such_program"])


async def talk(mode, version):
    host = address.removeprefix("http://")
    with tempfile.TemporaryDirectory() as kept:
        words = ["mcp", "--allow", folder, "--host", host, "--allow-record", "--write", kept]
        server = StdioServerParameters(command=flamelet, args=words, cwd="/")
        async with Client(server, mode=mode, read_timeout_seconds=300) as client:
            assert client.protocol_version == version, client.protocol_version
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert tools == ["open", "explain", "top", "peek", "list", "diff", "record", "fetch"], tools
            print("ok: lists", tools, "in", version)
            await questions(client)
            await bad_arguments(client)
            await outside(client)
            await hostile(client)
            await take(client)
        assert [path.name for path in Path(kept).iterdir()] == ["sh.pb.gz"]


async def careful():
    """Without options, nothing is recorded, fetched or written."""
    server = StdioServerParameters(command=flamelet, args=["mcp"], cwd=folder)
    async with Client(server, mode="legacy", read_timeout_seconds=300) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["open", "explain", "top", "peek", "list", "diff"], tools
        await bad(client, "record", "--allow-record", command=["true"])
        await bad(client, "fetch", "--host", address=address)
        await good(client, "top", "flat%", profile="cpu.pb.gz")


asyncio.run(talk("legacy", "2025-11-25"))
asyncio.run(talk("auto", "2026-07-28"))
asyncio.run(careful())
