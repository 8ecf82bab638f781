"""Calls the official client of A2A as it is told on stdin.

    tasks.py URL TOKEN

Each line of stdin is a list: a function below and its arguments. Each line of stdout is
what it returned, or {"raised": the class of the error}.
"""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import MessageToDict
from jwt import PyJWKSet

base, token = sys.argv[1:]
http = httpx.AsyncClient(headers={"Authorization": "Bearer " + token}, timeout=30)
clients = {}
streams = {}


def key(kid, jku):
    """Returns the key of a signature, from the set that the signature names."""
    keys = PyJWKSet.from_dict(httpx.get(jku).raise_for_status().json())
    return keys[kid]


async def connect(path, streaming):
    """Fetches and verifies the card of an endpoint, and makes a client of it."""
    resolver = A2ACardResolver(http, base + path)
    card = await resolver.get_agent_card(signature_verifier=create_signature_verifier(key, ["EdDSA"]))
    clients[path] = ClientFactory(ClientConfig(streaming=streaming, httpx_client=http)).create(card)
    return MessageToDict(card)


def request(text, data, immediately):
    message = Message(message_id=text, role=Role.ROLE_USER, context_id="thesis", parts=[Part(text=text)])
    if data is not None:
        message.parts.add().data.struct_value.update(data)
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=immediately))


async def send(path, text, data, handoff=None):
    message = request(text, data, True)
    if handoff:
        message.message.metadata.update({"handoff": handoff})
    async for event in clients[path].send_message(message):
        return MessageToDict(event)


async def stream(path, text):
    """Sends a message and returns the first event; more() returns the next ones."""
    streams[path] = clients[path].send_message(request(text, None, False))
    return await more(path)


async def subscribe(path, task):
    streams[path] = clients[path].subscribe(SubscribeToTaskRequest(id=task))
    return await more(path)


async def more(path):
    try:
        return MessageToDict(await anext(streams[path]))
    except StopAsyncIteration:
        return "over"


async def cut(path):
    await streams.pop(path).aclose()


async def get(path, task):
    return MessageToDict(await clients[path].get_task(GetTaskRequest(id=task)))


async def cancel(path, task):
    return MessageToDict(await clients[path].cancel_task(CancelTaskRequest(id=task)))


async def tasks(path, size, page):
    found = await clients[path].list_tasks(ListTasksRequest(page_size=size, page_token=page, context_id="thesis"))
    return [[t.id for t in found.tasks], found.next_page_token, found.total_size]


async def push(path, task, url):
    config = TaskPushNotificationConfig(task_id=task, id="mine", url=url, token="t0ken")
    made = await clients[path].create_task_push_notification_config(config)
    listed = await clients[path].list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task))
    await clients[path].delete_task_push_notification_config(DeleteTaskPushNotificationConfigRequest(task_id=task, id="mine"))
    return [MessageToDict(made), len(listed.configs)]


async def serve():
    for line in iter(sys.stdin.readline, ""):
        name, *arguments = json.loads(line)
        try:
            answer = await globals()[name](*arguments)
        except Exception as error:
            answer = {"raised": type(error).__name__}
        print(json.dumps(answer), flush=True)


asyncio.run(serve())
