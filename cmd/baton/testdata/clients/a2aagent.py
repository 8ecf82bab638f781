"""An agent on the official server of A2A: a2a-sdk 1, a2a-sdk 0.3 or google-adk.

    a2aagent.py PORT sdk|adk

Each task works until somebody posts to /finish. GET /count returns how many tasks were made.
"""

import asyncio
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

port, kind = int(sys.argv[1]), sys.argv[2]
base = f"http://127.0.0.1:{port}"
finish = asyncio.Event()
tasks = []


async def count(_):
    return PlainTextResponse(str(len(tasks)))


async def end(_):
    finish.set()
    return PlainTextResponse("")


extra = [Route("/count", count), Route("/finish", end, methods=["POST"])]


def sdk_app():
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part

    try:
        from a2a.types import TextPart  # of 0.3

        def text(words):
            return Part(root=TextPart(text=words))
    except ImportError:
        TextPart = None

        def text(words):
            return Part(text=words)

    class Executor(AgentExecutor):
        async def execute(self, context, event_queue):
            tasks.append(context.task_id)
            if TextPart is None:
                from a2a.types import Task, TaskState, TaskStatus

                await event_queue.enqueue_event(
                    Task(id=context.task_id, context_id=context.context_id, status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
                )
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            await updater.start_work(updater.new_agent_message([text("reading")]))
            await finish.wait()
            await updater.add_artifact([text("three found")])
            await updater.complete()

        async def cancel(self, context, event_queue):
            await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    members = dict(
        name="Researcher", description="Finds sources", version="1", default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True), skills=[AgentSkill(id="cite", name="Cite", description="Cites", tags=["cite"])],
    )
    if TextPart is not None:
        from a2a.server.apps import A2AStarletteApplication

        card = AgentCard(url=base + "/", **members)
        handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore())
        return A2AStarletteApplication(agent_card=card, http_handler=handler).build(routes=extra)
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.types import AgentInterface

    interface = AgentInterface(url=base + "/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(supported_interfaces=[interface], **members)
    handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=extra + create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/rpc"))


def adk_app():
    from google.adk.a2a.utils.agent_to_a2a import to_a2a
    from google.adk.agents import BaseAgent
    from google.adk.events import Event
    from google.genai import types

    class Researcher(BaseAgent):
        async def _run_async_impl(self, ctx):
            tasks.append(ctx.invocation_id)
            await finish.wait()
            yield Event(
                invocation_id=ctx.invocation_id, author=self.name, content=types.Content(role="model", parts=[types.Part(text="three found")])
            )

    app = to_a2a(Researcher(name="researcher", description="Finds sources"), host="127.0.0.1", port=port)
    app.router.routes.extend(extra)
    return app


uvicorn.run({"sdk": sdk_app, "adk": adk_app}[kind](), host="127.0.0.1", port=port, log_level="warning")
