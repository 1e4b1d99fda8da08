"""Memories for graphs of LangGraph, in one file beside `retrospect.py`, without further dependencies.

    from retrospect import Client
    from retrospect_langgraph import Memories

    memories = Memories(Client(), workflow="support")
    graph.add_node("agent", memories.node(call_model, step="agent"))
    ...
    config = {"configurable": {"thread_id": "4711"}}
    state = graph.compile().invoke({"messages": [("user", "Where is my order?")]}, config)
    memories.finish("4711", state["messages"], "success")

A wrapped node is called with a system message in front of its messages, if there is something to say. The message is
not part of the state, so it is not kept and not sent to anybody else. Nothing fails or waits for long without a gateway.
"""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any, Callable, Iterable, Optional

from retrospect import Client, run_completed

#: Key in the metadata of a message by which it tells the step of the node that wrote it. Models are not sent metadata.
STEP_KEY = "retrospect_step"
#: Names of who speaks, by the types and roles of messages.
SOURCES = {"human": "user", "user": "user", "ai": "agent", "assistant": "agent"}


class Memories:
    """Memories of one workflow, for the nodes of a graph."""

    def __init__(self, client: Client, workflow: str) -> None:
        self.client = client
        self.workflow = workflow

    def node(self, function: Callable, step: Optional[str] = None, **asked: Any) -> Callable:
        """Wraps a node: a function of a state with `messages`, and of the config if it takes one. `step` is the node's
        name by default. `asked` are further arguments of `Client.context`, such as `repo`."""
        named = step or getattr(function, "__name__", "main")
        takes_config = "config" in inspect.signature(function).parameters

        def arguments(state: Any, config: Optional[dict], context: Any) -> tuple:
            blocks = [block for block in (context.text, context.rules_text) if block]
            if blocks:
                message = {"role": "system", "content": "\n".join(blocks)}
                state = {**state, "messages": [message, *state.get("messages", [])]}
            return (state, config) if takes_config else (state,)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awrapped(state, config=None):
                context = await self.client.acontext(self.workflow, named, run_id_of(config), **asked)
                return _stamp(await function(*arguments(state, config, context)), named)

            return _with_config(awrapped)

        @functools.wraps(function)
        def wrapped(state, config=None):
            context = self.client.context(self.workflow, named, run_id_of(config), **asked)
            return _stamp(function(*arguments(state, config, context)), named)

        return _with_config(wrapped)

    def finish(self, run_id: str, messages: Iterable[Any], outcome: str, **facts: Any) -> bool:
        """Sends a finished run with its messages. Returns True if it was accepted; otherwise it is kept and sent later."""
        trajectory = {
            "schema_version": "ATIF-v1.7",
            "agent": {"name": "langgraph", "version": "unknown"},
            "steps": read_messages(messages),
        }
        facts.setdefault("source", "/clients/langgraph")
        return self.client.send(run_completed(self.workflow, run_id, outcome, trajectory=trajectory, **facts))


def run_id_of(config: Optional[dict]) -> Optional[str]:
    """Returns the thread of a run, by which `finish` names it too; None without one, and then nothing is recorded."""
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread)


def read_messages(messages: Iterable[Any]) -> "list[dict]":
    """Returns the steps of a trajectory: messages of LangChain, or objects with `role` and `content`. The result of a
    tool belongs to the step that called it."""
    steps: "list[dict]" = []
    callers: "dict[str, dict]" = {}
    for message in messages:
        kind = _field(message, "type") or _field(message, "role")
        text = _text(_field(message, "content"))
        if kind == "tool":
            call = str(_field(message, "tool_call_id"))
            result: "dict[str, Any]" = {"source_call_id": call, "content": text}
            if _field(message, "status") in ("error", "success"):
                result["is_error"] = _field(message, "status") == "error"
            if call in callers:
                callers[call].setdefault("observation", {"results": []})["results"].append(result)
                continue
        step: "dict[str, Any]" = {
            "step_id": len(steps) + 1,
            "source": SOURCES.get(str(kind), "system"),
            "message": text,
        }
        calls = [_call(one) for one in _field(message, "tool_calls") or []]
        if calls:
            step["tool_calls"] = calls
            callers.update((call["tool_call_id"], step) for call in calls)
        metadata = _field(message, "response_metadata")
        if isinstance(metadata, dict) and metadata.get(STEP_KEY):
            step["step"] = metadata[STEP_KEY]
        if text or calls:
            steps.append(step)
    return steps


def _call(call: dict) -> dict:
    """Returns a call as LangChain writes it, or as the OpenAI format does."""
    function = call.get("function") or {}
    arguments = call.get("args", function.get("arguments", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"arguments": arguments}
    return {
        "tool_call_id": str(call.get("id")),
        "function_name": call.get("name") or function.get("name") or "unknown",
        "arguments": arguments,
    }


def _text(content: Any) -> str:
    """Returns the text of a message, of which parts may be images."""
    if isinstance(content, list):
        parts = (part if isinstance(part, str) else _field(part, "text") for part in content)
        return "\n".join(str(part) for part in parts if part)
    return "" if content is None else str(content)


def _field(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, dict) else getattr(message, name, None)


def _stamp(update: Any, step: str) -> Any:
    """Notes the step in the messages of a node's update, and returns the update."""
    messages = update.get("messages") if isinstance(update, dict) else None
    for message in messages if isinstance(messages, list) else [messages]:
        metadata = getattr(message, "response_metadata", None)
        if isinstance(metadata, dict):
            metadata[STEP_KEY] = step
    return update


def _with_config(function: Callable) -> Callable:
    """Shows the wrapper's own parameters, by which LangGraph decides to pass the config."""
    del function.__wrapped__
    function.__annotations__ = {}
    return function
