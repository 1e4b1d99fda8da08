"""The agent of STATE-Bench with the memories of Retrospect as its learnings.

Copy this file and `clients/python/retrospect.py` into the folder `agents/` of a checkout of STATE-Bench, and run the
benchmark with `--agent-class RetrospectAgent`. RETRO_URL names the gateway, and RETRO_STATE_BENCH_DOMAIN the domain of the
run: `travel`, `customer_support` or `shopping_assistant`.

Nothing is recorded: a held-out task must not change what the next one is told.
"""

import os
import sys
from pathlib import Path

from state_bench.agents.state_bench import StateBenchAgent

sys.path.insert(0, str(Path(__file__).resolve().parent))
from retrospect import Client  # noqa: E402

#: Seconds to wait for a search, and for each memory that is opened. An agent of the benchmark has no deadline.
TIMEOUT_S = 10.0


class RetrospectAgent(StateBenchAgent):
    """Agent that looks up learnings in Retrospect."""

    def retrieve_learnings(self, query: str, top_k: int = 3) -> list[str]:
        """Returns the memories of the domain about a text, best first, at most `top_k`; none without an answer."""
        client = Client(timeout=TIMEOUT_S)
        workflow = f"state-bench-{os.environ['RETRO_STATE_BENCH_DOMAIN']}"
        found = client.search(query, workflow=workflow, k=top_k)
        return [self._describe(client, one) for one in found.memories[:top_k]]

    @staticmethod
    def _describe(client: Client, found: dict) -> str:
        memory = client.memory(found["id"])
        content = ((memory or {}).get("lesson") or {}).get("content")
        return f"{found['title']}\n{content}" if content else found["title"]
