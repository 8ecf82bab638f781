"""An agent host on the official MCP client for Python. It reads calls as lines of JSON, and writes
a line for each answer.

agenthost.py http MODE URL SEED: logs in with the key of a seed, as the extension
io.modelcontextprotocol/oauth-client-credentials has it.
agenthost.py stdio MODE COMMAND...: starts a server.
"""

import asyncio
import json
import sys

import httpx2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mcp import Client, StdioServerParameters
from mcp.client.auth.extensions.client_credentials import PrivateKeyJWTOAuthProvider, SignedJWTParameters
from mcp.client.streamable_http import streamable_http_client


class Kept:
    """Keeps tokens in memory."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def base58(data):
    digits, number = "", int.from_bytes(data, "big")
    while number:
        number, rest = divmod(number, 58)
        digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[rest] + digits
    return digits


def login(url, seed):
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    did = "did:key:z" + base58(b"\xed\x01" + public)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    assertion = SignedJWTParameters(issuer=did, subject=did, signing_key=pem.decode(), signing_algorithm="EdDSA")
    return PrivateKeyJWTOAuthProvider(
        server_url=url, storage=Kept(), client_id=did, assertion_provider=assertion.create_assertion_provider(),
    )


async def answer(client, what, arguments):
    match what:
        case "about":
            return {"version": client.protocol_version, "server": client.server_info.name if client.server_info else None}
        case "tools":
            return [tool.name for tool in (await client.list_tools()).tools]
        case "read":
            return (await client.read_resource(arguments[0])).contents[0].text
        case "wait":
            seen = []

            async def progress(done, total, message):
                seen.append([done, total, message])

            result = await client.call_tool("inbox_wait", arguments[0], progress_callback=progress)
            return {"result": result.structured_content, "progress": seen}
    result = await client.call_tool(what, arguments[0] if arguments else {})
    return {"error": result.is_error, "text": result.content[0].text, "result": result.structured_content}


async def serve(client):
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        what, *arguments = json.loads(line)
        try:
            said = await answer(client, what, arguments)
        except Exception as e:  # the test reads what went wrong
            said = {"exception": repr(e)}
        print(json.dumps(said), flush=True)


async def main():
    kind, mode, *rest = sys.argv[1:]
    if kind == "stdio":
        server = StdioServerParameters(command=rest[0], args=rest[1:])
        async with Client(server, mode=mode) as client:
            await serve(client)
        return
    url, seed = rest
    async with httpx2.AsyncClient(auth=login(url, seed), timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            await serve(client)


asyncio.run(main())
