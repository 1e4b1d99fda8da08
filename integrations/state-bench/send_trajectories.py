#!/usr/bin/env python3
"""Sends the train trajectories of STATE-Bench to Retrospect as finished runs.

    python3 send_trajectories.py …/datasets/train_task_trajectories/travel

The folder's name is the domain, and its runs are those of the workflow `state-bench-DOMAIN`. Sending them again counts
nothing twice. `--print` writes the events instead, one a line, for `retro validate` or `retro emit`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients" / "python"))
from retrospect import Client, run_completed  # noqa: E402

#: What the benchmark's simulated user says when it has nothing more to say.
END_MARK = "[TASK_DONE]"


def read_trajectory(path: Path, workflow: str) -> dict:
    """Returns the event of the run in a file. Raises ValueError if the file is no trajectory of the benchmark.

    The benchmark writes all calls of a turn beside the answer that follows them, each with its result. They were made
    one after another, so each is a turn of its own here. No outcome is labelled, so it is `unknown`.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    messages = document.get("conversation") if isinstance(document, dict) else None
    if not isinstance(messages, list) or not messages:
        raise ValueError(f"{path}: it has no list `conversation`")
    turns: "list[dict[str, Any]]" = []
    task = None
    for place, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        source = {"system": "system", "user": "user", "assistant": "agent"}.get(role)
        if source is None:
            raise ValueError(f"{path}: message {place} has the role {role!r}")
        for call in message.get("tool_calls") or []:
            turns.append(_to_turn(len(turns), call))
        text = message.get("content") or ""
        if not text or (source == "user" and text == END_MARK):
            continue
        if source == "user":
            task = task or text
        turns.append({"step_id": len(turns) + 1, "source": source, "message": text})
    trajectory = {"schema_version": "ATIF-v1.7", "agent": {"name": "state-bench", "version": "unknown"}, "steps": turns}
    return run_completed(
        workflow, path.stem, "unknown", trajectory=trajectory, source="/integrations/state-bench", task=task
    )


def _to_turn(place: int, call: dict) -> dict:
    call_id = f"call-{place}"
    result = call.get("result")
    content = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    made = {"tool_call_id": call_id, "function_name": call["name"], "arguments": call.get("arguments") or {}}
    return {
        "step_id": place + 1,
        "source": "agent",
        "message": "",
        "tool_calls": [made],
        "observation": {"results": [{"source_call_id": call_id, "content": content}]},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with the trajectories of one domain")
    parser.add_argument("--limit", type=int, help="maximum number of trajectories, in the order of their names")
    parser.add_argument("--url", help="address of the gateway (RETRO_URL)")
    parser.add_argument("--tenant", help="tenant, where no token decides it (RETRO_TENANT)")
    parser.add_argument("--print", action="store_true", help="write the events to stdout instead of sending them")
    options = parser.parse_args()
    files = sorted(options.folder.glob("*.json"))[: options.limit]
    if not files:
        print(f"{options.folder} has no trajectories (*.json)", file=sys.stderr)
        return 2
    workflow = f"state-bench-{options.folder.resolve().name}"
    client: Optional[Client] = None if options.print else Client(url=options.url, tenant=options.tenant)
    accepted = 0
    for path in files:
        try:
            event = read_trajectory(path, workflow)
        except (ValueError, KeyError, TypeError) as problem:
            print(f"skipped: {problem}", file=sys.stderr)
            continue
        if client is None:
            print(json.dumps(event, ensure_ascii=False))
            accepted += 1
        else:
            accepted += client.send(event)
    if client is not None:
        print(f"{accepted} of {len(files)} trajectories were accepted as runs of {workflow}", file=sys.stderr)
    return 0 if accepted == len(files) else 1


if __name__ == "__main__":
    sys.exit(main())
