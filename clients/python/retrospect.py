#!/usr/bin/env python3
"""A client for Retrospect in one file, for Python 3.9 or later, without dependencies.

    from retrospect import Client

    client = Client()                                        # http://127.0.0.1:7717, tenant `default`
    context = client.context("deploy-shop", step="deploy", run_id="4711")
    prompt = f"{prompt}\n\n{context.text}"                   # empty if there is nothing to say, or no answer in time
    ...
    client.send(run_completed("deploy-shop", "4711", "success", trajectory=trajectory))

Asking never fails and never takes longer than `timeout`: without an answer the context is empty and says why. A
finished run is written to a folder first and sent from there, so that it outlives a gateway that is away: what was not
accepted is sent with the next one, or by `flush`. What the gateway refuses is kept in the folder `refused`, with the
reason beside it. `acontext` and `asend` are the same for asyncio.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import os
import ssl
import sys
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Optional

log = logging.getLogger("retrospect")

#: Type of the event of a finished run.
RUN_COMPLETED = "dev.retrospect.run.completed.v1"
#: Maximum number of events in the spool. Later ones are refused, so that a gateway that never comes fills no disk.
SPOOL_EVENTS_MAX = 10_000
#: Seconds for an event to be accepted.
SEND_TIMEOUT_S = 30.0
#: Statuses after which the same event may be accepted later: with 401 and 403, once there is another token.
RETRIED_STATUSES = frozenset({401, 403, 408, 409, 429, 500, 502, 503, 504})


@dataclass
class Context:
    """What the next run of a step is told."""

    #: Block for the prompt, unchanged; empty if there is nothing to say.
    text: str = ""
    #: Chosen memories, best first: objects with `id`, `weight`, `title`, `newcomer`.
    memories: list = field(default_factory=list)
    #: Block of the repository's rules, for the prompt as well; empty without any.
    rules_text: str = ""
    #: Why the context is empty, or why it is not known whether it was recorded; None otherwise.
    reason: Optional[str] = None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as the error that it is."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _read_token() -> Optional[str]:
    path = os.environ.get("RETRO_TOKEN_FILE")
    return Path(path).read_text(encoding="ascii").strip() if path else None


class Client:
    """Asks for context and sends finished runs.

    `url` defaults to RETRO_URL. `token`, an access token that decides the tenant, defaults to RETRO_TOKEN or to the content
    of the file that RETRO_TOKEN_FILE names, which is read for each request. Without one, `tenant` names the tenant, by
    default RETRO_TENANT. RETRO_CA_FILE names a PEM file of authorities to trust instead of the machine's.
    `timeout` is the longest time in seconds that asking takes. `spool` is the folder for runs that wait to be sent, by default `~/.local/state/retrospect/spool`.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        tenant: Optional[str] = None,
        timeout: float = 0.5,
        spool: Optional[os.PathLike] = None,
        token: Optional[str] = None,
    ) -> None:
        self.url = (url or os.environ.get("RETRO_URL") or "http://127.0.0.1:7717").rstrip("/")
        self.tenant = tenant or os.environ.get("RETRO_TENANT") or "default"
        self.token = token or os.environ.get("RETRO_TOKEN")
        self.timeout = timeout
        self.spool = Path(spool) if spool else Path.home() / ".local/state/retrospect/spool"
        local = urllib.parse.urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")
        # The proxy of the environment cannot reach this machine's own gateway.
        handlers: "list[urllib.request.BaseHandler]" = [urllib.request.ProxyHandler({})] if local else []
        if os.environ.get("RETRO_CA_FILE"):
            trusted = ssl.create_default_context(cafile=os.environ["RETRO_CA_FILE"])
            handlers.append(urllib.request.HTTPSHandler(context=trusted))
        # A redirect would take the token to another host.
        handlers.append(_NoRedirects())
        self._opener = urllib.request.build_opener(*handlers)

    def context(
        self,
        workflow: str,
        step: str = "main",
        run_id: Optional[str] = None,
        repo: Optional[str] = None,
        repo_visibility: Optional[str] = None,
        paths: Iterable[str] = (),
        task: Optional[str] = None,
    ) -> Context:
        """Returns what a run of the step is told. With `run_id` it is recorded as presented to that run. `task` is what the
        run is about to do, in plain text: what is about it comes first. Never raises."""
        asked = {"workflow": workflow, "step": step, "run_id": run_id, "repo": repo}
        asked.update(repo_visibility=repo_visibility, paths=list(paths), task=task)
        body = {name: value for name, value in asked.items() if value not in (None, [])}
        answer, reason = self._ask("POST", "/v1/context", body)
        if answer is None:
            return Context(reason=reason)
        rules = answer.get("rules") or {}
        return Context(
            text=answer.get("text", ""),
            memories=answer.get("memories", []),
            rules_text=rules.get("text", ""),
            reason=answer.get("reason"),
        )

    def search(
        self,
        query: str,
        workflow: Optional[str] = None,
        step: str = "main",
        run_id: Optional[str] = None,
        repo: Optional[str] = None,
        repo_visibility: Optional[str] = None,
        k: int = 5,
    ) -> Context:
        """Returns at most `k` memories of the step and rules of the repository about a text, best first. With `run_id` they
        are recorded as presented to that run. Show an agent `text`: what stands in it is known not to be its own. Never
        raises."""
        asked = {"query": query, "k": k, "workflow": workflow, "step": step, "run": run_id}
        asked.update(repo=repo, repo_visibility=repo_visibility)
        parameters = urllib.parse.urlencode({name: value for name, value in asked.items() if value is not None})
        answer, reason = self._ask("GET", f"/v1/memories/search?{parameters}", None)
        if answer is None:
            return Context(reason=reason)
        return Context(answer.get("text", ""), answer.get("memories", []), reason=answer.get("reason"))

    def memory(self, memory: str, run_id: Optional[str] = None, workflow: Optional[str] = None) -> Optional[dict]:
        """Returns a memory in full, by its id or the digits that the block shows; None without an answer or such a
        memory. With `run_id` it is recorded as read by that run. Never raises."""
        asked = {"run": run_id, "workflow": workflow}
        query = urllib.parse.urlencode({name: value for name, value in asked.items() if value})
        path = f"/v1/memories/{urllib.parse.quote(memory, safe='')}" + (f"?{query}" if query else "")
        answer, _ = self._ask("GET", path, None)
        return answer and answer.get("memory")

    def feedback(
        self,
        memory: str,
        verdict: str,
        run_id: Optional[str] = None,
        workflow: Optional[str] = None,
        step: Optional[str] = None,
        why: Optional[str] = None,
        by: Optional[str] = None,
    ) -> Optional[str]:
        """Says what a memory did: `helped`, `hurt` or `wrong`. An agent names its `run_id` and `workflow`, a person its name
        in `by`. Returns `recorded`, `already_recorded`, `refused` or `unknown`; None without an answer or such a memory.
        Saying it again is safe. Never raises."""
        asked = {"memory": memory, "verdict": verdict, "run": run_id, "workflow": workflow}
        asked.update(step=step, why=why, by=by)
        answer, _ = self._ask("POST", "/v1/feedback", {name: value for name, value in asked.items() if value})
        return answer and answer.get("recorded")

    def save_lesson(self, workflow: str, run_id: str, kind: str, tool: str, error_quote: str, **fields: Any) -> Optional[str]:
        """Saves what the agent found out, in fields: `kind` is `set_argument`, `add_argument`, `drop_argument`, `use_tool` or
        `call_first`; `fields` are `step`, `repo`, `argument`, `bad`, `good` and `cause`. Returns `saved`, `known`, `refused`
        or `unknown`; None without an answer or with a wrong field, which is logged. Saving it again is safe. Never
        raises."""
        asked = {"workflow": workflow, "run": run_id, "kind": kind, "tool": tool, "error_quote": error_quote, **fields}
        answer, _ = self._ask("POST", "/v1/lessons", {name: value for name, value in asked.items() if value})
        return answer and answer.get("saved")

    def send(self, event: dict) -> bool:
        """Stores an event in the spool and sends what is there. Returns True if this event was accepted; otherwise it is
        kept. Raises OSError if it cannot be stored, and ValueError if the spool is full."""
        path = self._store(event)
        self.flush()
        return not path.exists() and not (self.spool / "refused" / path.name).exists()

    def flush(self) -> int:
        """Sends the events of the spool, oldest first, until one cannot be sent. Returns the number of those that wait."""
        waiting = self._list()
        for nth, path in enumerate(waiting):
            if not self._send_file(path):
                return len(waiting) - nth
        return 0

    async def acontext(self, *args: Any, **kwargs: Any) -> Context:
        """`context` for asyncio."""
        return await asyncio.to_thread(self.context, *args, **kwargs)

    async def asend(self, event: dict) -> bool:
        """`send` for asyncio."""
        return await asyncio.to_thread(self.send, event)

    def _ask(self, method: str, path: str, body: Optional[dict]) -> "tuple[Optional[dict], Optional[str]]":
        """Returns the answer, or None and the reason, after `timeout` at the latest."""
        result: "list[tuple[Optional[dict], Optional[str]]]" = []

        def ask() -> None:
            try:
                result.append((json.loads(self._request(method, path, body, self.timeout)), None))
            except urllib.error.HTTPError as error:
                result.append((None, f"the gateway answered {error.code}: {_explain(error)}"))
            except Exception as error:  # whatever it is, the run goes on
                result.append((None, f"no answer of the gateway: {error}"))

        # A thread, because the time-out of a socket starts again with every byte.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(self.timeout)
        answer, reason = result[0] if result else (None, f"no answer of the gateway within {self.timeout} s")
        if reason:
            log.warning("%s", reason)
        return answer, reason

    def _request(self, method: str, path: str, body: Optional[dict], timeout: float) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        token = self.token or _read_token()
        if token:
            request.add_header("authorization", f"Bearer {token}")
        else:
            request.add_header("retro-tenant", self.tenant)
        if path == "/v1/events":
            request.add_header("content-type", "application/cloudevents+json")
        elif data is not None:
            request.add_header("content-type", "application/json")
        with self._opener.open(request, timeout=timeout) as answer:
            return answer.read()

    def _store(self, event: dict) -> Path:
        self.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(self._list()) >= SPOOL_EVENTS_MAX:
            raise ValueError(f"{self.spool} holds {SPOOL_EVENTS_MAX} events that were not sent")
        data = json.dumps(event).encode()
        # The same event has the same name, so storing it again adds nothing.
        path = self.spool / f"{hashlib.sha256(data).hexdigest()}.json"
        handle, temporary = tempfile.mkstemp(dir=self.spool, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        return path

    def _list(self) -> "list[Path]":
        def stored_at(path: Path) -> int:
            try:
                return path.stat().st_mtime_ns
            except FileNotFoundError:  # another process has sent it
                return 0

        return sorted(self.spool.glob("*.json"), key=lambda path: (stored_at(path), path.name))

    def _send_file(self, path: Path) -> bool:
        """Sends an event of the spool. Returns False if it has to wait."""
        try:
            event = json.loads(path.read_bytes())
        except FileNotFoundError:
            return True
        try:
            self._request("POST", "/v1/events", event, SEND_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            reason = f"{error.code}: {_explain(error)}"
            if error.code in RETRIED_STATUSES:
                log.warning("%s waits: the gateway answered %s", path.name, reason)
                return False
            self._refuse(path, reason)
            return True
        except OSError as error:
            log.warning("%s waits: no answer of the gateway: %s", path.name, error)
            return False
        path.unlink(missing_ok=True)
        return True

    def _refuse(self, path: Path, reason: str) -> None:
        log.error("%s is refused: %s", path.name, reason)
        folder = self.spool / "refused"
        folder.mkdir(exist_ok=True)
        (folder / f"{path.stem}.reason").write_text(reason + "\n")
        try:
            path.replace(folder / path.name)
        except FileNotFoundError:
            pass


def run_completed(
    workflow: str,
    run_id: str,
    outcome: str,
    trajectory: Optional[dict] = None,
    source: str = "/clients/python",
    attempt: int = 1,
    event_id: Optional[str] = None,
    agents_md: Optional[str] = None,
    **facts: Any,
) -> dict:
    """Returns the event of a finished run. `facts` are further fields of its data, such as `task`, `repo`, `user` and
    `self_feedback`. `agents_md` is what the repository's `AGENTS.md` says, at most 64 KiB; it goes with the trajectory. The event of the same attempt has the same id, so sending it again counts nothing twice."""
    data: "dict[str, Any]" = {"workflow": workflow, "run_id": run_id, "outcome": outcome, "attempt": attempt, **facts}
    if trajectory is not None and agents_md is not None:
        trajectory = {**trajectory, "extra": {**(trajectory.get("extra") or {}), "agents_md": agents_md}}
    if trajectory is not None:
        data["trajectory"] = trajectory
    identity = event_id or f"{workflow}/{run_id}/{attempt}"
    return {"specversion": "1.0", "type": RUN_COMPLETED, "source": source, "id": identity, "data": data}


def read_claude_code(transcript: "os.PathLike[str] | str", workflow: str = "claude-code", **facts: Any) -> Optional[dict]:
    """Returns the event of a session of Claude Code, from its transcript; None if nothing was said in it. A session that
    goes on has more to tell, so its next event has another id and replaces this one, until a retrospective has looked at
    the run."""
    steps: "list[dict]" = []
    calls: "dict[str, dict]" = {}
    session = None
    for line in Path(transcript).read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the last line of a session that was killed
            continue
        if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant") or entry.get("isMeta"):
            continue
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            continue
        session = entry.get("sessionId") or session
        source = "agent" if entry["type"] == "assistant" else "user"
        for part in content:
            part = part if isinstance(part, dict) else {"text": part}
            _add_part(steps, calls, source, part, entry.get("timestamp"))
    if not steps or not session:
        return None
    trajectory = {"schema_version": "ATIF-v1.7", "agent": {"name": "claude-code", "version": "unknown"}, "steps": steps}
    facts.setdefault("outcome", "unknown")
    content = steps if facts.get("agents_md") is None else [steps, facts["agents_md"]]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    return run_completed(
        workflow, session, trajectory=trajectory, source="/clients/claude-code", event_id=f"{session}/{digest}", **facts
    )


def _add_part(steps: "list[dict]", calls: "dict[str, dict]", source: str, part: dict, time: Optional[str]) -> None:
    """Adds a part of a message: a text, a thought, a call of a tool, or its result, which belongs to the call's step."""
    kind = part.get("type")
    step: "dict[str, Any]" = {"step_id": len(steps) + 1, "source": source, "message": "", "timestamp": time}
    if kind == "tool_result":
        content = part.get("content")
        if isinstance(content, list):
            content = "\n".join(str(one.get("text", "")) for one in content if isinstance(one, dict))
        call = calls.get(str(part.get("tool_use_id")))
        result = {"content": content, "source_call_id": part.get("tool_use_id")}
        if isinstance(part.get("is_error"), bool):
            result["is_error"] = part["is_error"]
        if call is not None:
            call.setdefault("observation", {"results": []})["results"].append(result)
            return
        step.update(source="system", message=str(content or ""))
    elif kind == "tool_use":
        arguments = dict(part.get("input") or {})
        if "command" in arguments:  # what the agent tells people about it is no part of a command
            arguments.pop("description", None)
        call_id = str(part.get("id"))
        step["tool_calls"] = [
            {"tool_call_id": call_id, "function_name": part.get("name", "unknown"), "arguments": arguments}
        ]
        calls[call_id] = step
    elif kind == "thinking":
        step["reasoning_content"] = part.get("thinking", "")
    else:
        step["message"] = str(part.get("text") or "")
    if step["message"] or step.get("tool_calls") or step.get("reasoning_content"):
        steps.append(step)


def answer_hook(client: Client, called: dict, workflow: str, step: str) -> Optional[dict]:
    """Answers a hook of Claude Code: gives the context at the start of a session, and sends its transcript at the end.
    Returns the object to print, or None."""
    event, session = called.get("hook_event_name"), called.get("session_id")
    if event == "SessionStart":
        context = client.context(workflow, step, run_id=session)
        text = "\n".join(block for block in (context.text, context.rules_text) if block)
        return text and {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} or None
    if event == "SessionEnd" and called.get("transcript_path"):
        run = read_claude_code(Path(called["transcript_path"]).expanduser(), workflow)
        if run:
            client.send(run)
    return None


def _explain(error: urllib.error.HTTPError) -> str:
    """Returns what a problem document says, or the status."""
    try:
        problem = json.loads(error.read())
        return str(problem.get("detail") or problem.get("title") or error.reason)
    except Exception:
        return str(error.reason)


def main() -> int:
    parser = argparse.ArgumentParser(description="Asks Retrospect for context, and sends finished runs.")
    parser.add_argument("--url", help="address of the gateway [default: RETRO_URL, or http://127.0.0.1:7717]")
    parser.add_argument("--tenant", help="tenant, without a token [default: RETRO_TENANT, or default]")
    parser.add_argument("--timeout", type=float, default=0.5, help="seconds after which asking gives up")
    parser.add_argument("--spool", help="folder for runs that wait to be sent")
    commands = parser.add_subparsers(dest="command", required=True)
    context = commands.add_parser("context", help="print the block for the prompt of a run")
    context.add_argument("--workflow", required=True)
    context.add_argument("--step", default="main")
    context.add_argument("--run", help="record it as presented to this run")
    context.add_argument("--repo")
    context.add_argument("--task", help="what the run is about to do; what is about it comes first")
    search = commands.add_parser("search", help="print the memories and rules about a text")
    search.add_argument("query")
    search.add_argument("--workflow")
    search.add_argument("--step", default="main")
    search.add_argument("--run", help="record them as presented to this run")
    search.add_argument("--repo")
    send = commands.add_parser("send", help="send events from files, or from stdin with -")
    send.add_argument("files", nargs="+", metavar="FILE")
    transcript = commands.add_parser("transcript", help="send a session of Claude Code, by its transcript")
    transcript.add_argument("file", metavar="FILE")
    transcript.add_argument("--workflow", default="claude-code")
    transcript.add_argument("--outcome", default="unknown")
    transcript.add_argument("--repo")
    transcript.add_argument("--agents-md", metavar="FILE", help="what the repository's AGENTS.md says goes with the run")
    commands.add_parser("flush", help="send what waits in the spool")
    hook = commands.add_parser("hook", help="answer a hook of Claude Code, which is on stdin")
    hook.add_argument("--workflow", default="claude-code")
    hook.add_argument("--step", default="main")
    arguments = parser.parse_args()
    logging.basicConfig(format="retrospect: %(message)s")
    client = Client(arguments.url, arguments.tenant, arguments.timeout, arguments.spool)
    if arguments.command == "context":
        answer = client.context(
            arguments.workflow, arguments.step, arguments.run, arguments.repo, task=arguments.task
        )
        blocks = [block for block in (answer.text, answer.rules_text) if block]
        if blocks:
            print("\n".join(blocks))
        return 0
    if arguments.command == "search":
        found = client.search(arguments.query, arguments.workflow, arguments.step, arguments.run, arguments.repo)
        if found.text:
            print(found.text)
        return 0
    if arguments.command == "send":
        accepted = [client.send(json.loads(_read(name))) for name in arguments.files]
        return 0 if all(accepted) else 1
    if arguments.command == "transcript":
        facts = {"repo": arguments.repo} if arguments.repo else {}
        if arguments.agents_md:
            facts["agents_md"] = Path(arguments.agents_md).read_text(encoding="utf-8")
        run = read_claude_code(arguments.file, arguments.workflow, outcome=arguments.outcome, **facts)
        if run is None:
            log.error("%s: nothing was said in the session", arguments.file)
        return 0 if run and client.send(run) else 1
    if arguments.command == "hook":
        try:
            answer = answer_hook(client, json.load(sys.stdin), arguments.workflow, arguments.step)
            if answer:
                print(json.dumps(answer))
        except Exception:  # a session must not fail for its memory
            log.exception("the hook failed")
        return 0
    return 1 if client.flush() else 0


def _read(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text()


if __name__ == "__main__":
    sys.exit(main())
