/**
 * A client for Retrospect in one file, without dependencies, for Node 22.18 or later.
 *
 *     import { Client, runCompleted } from "./retrospect.ts";
 *
 *     const client = new Client();                         // http://127.0.0.1:7717, tenant `default`
 *     const context = await client.context({ workflow: "deploy-shop", step: "deploy", runId: "4711" });
 *     prompt = `${prompt}\n\n${context.text}`;             // empty if there is nothing to say, or no answer in time
 *     ...
 *     await client.send(runCompleted("deploy-shop", "4711", "success", { trajectory }));
 *
 * Asking never fails and never takes longer than `timeoutMs`: without an answer the context is empty and says why. A
 * finished run is written to a folder first and sent from there, so that it outlives a gateway that is away: what was
 * not accepted is sent with the next one, or by `flush`. What the gateway refuses is kept in the folder `refused`, with
 * the reason beside it. The folder may be shared with the Python client.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

/** Type of the event of a finished run. */
const RUN_COMPLETED = "dev.retrospect.run.completed.v1";
/** Maximum number of events in the spool. Later ones are refused, so that a gateway that never comes fills no disk. */
const SPOOL_EVENTS_MAX = 10_000;
/** Milliseconds for an event to be accepted. */
const SEND_TIMEOUT_MS = 30_000;
/** Statuses after which the same event may be accepted later. */
const RETRIED_STATUSES = new Set([401, 403, 408, 409, 429, 500, 502, 503, 504]);

/** A memory in a context. */
export interface Memory {
  id: string;
  /** Weight, from 0 to 1,000 thousandths. */
  weight: number;
  title: string;
  newcomer: boolean;
  /** Why it is there; undefined if no task was named. */
  because?: { place: "weight" | "task" | "newcomer"; relevance: number; words: string[] };
}

/** What the next run of a step is told. */
export interface Context {
  /** Block for the prompt, unchanged; empty if there is nothing to say. */
  text: string;
  /** Chosen memories, best first. */
  memories: Memory[];
  /** Block of the repository's rules, for the prompt as well; empty without any. */
  rulesText: string;
  /** Why the context is empty, or why it is not known whether it was recorded; undefined otherwise. */
  reason?: string;
}

/** Step that is about to start. */
export interface ContextRequest {
  workflow: string;
  /** Name of the step, by default `main`. */
  step?: string;
  /** Run to which the memories are recorded as presented. */
  runId?: string;
  /** Repository that the run works on, as `owner/name`. */
  repo?: string;
  repoVisibility?: "public" | "private";
  /** Paths that the run touches, by which rules are left out. */
  paths?: string[];
  /** What the run is about to do, in plain text: what is about it comes first. */
  task?: string;
}

/** Search for what helps a run that is under way. */
export interface SearchRequest {
  query: string;
  /** Workflow whose memories are searched. Without it, only rules of `repo` are. */
  workflow?: string;
  /** Name of the step, by default `main`. */
  step?: string;
  /** Run to which what was found is recorded as presented. */
  runId?: string;
  repo?: string;
  repoVisibility?: "public" | "private";
  /** Maximum number of memories and rules, by default 5. */
  k?: number;
}

/** What a search has found. */
export interface SearchResult {
  /** Block to show an agent, unchanged: what stands in it is known not to be its own. */
  text: string;
  memories: Found[];
  /** Why nothing was found, or why it is not known whether it was recorded; undefined otherwise. */
  reason?: string;
}

/** A memory or rule that a search has found. */
export interface Found {
  id: string;
  kind: "memory" | "rule";
  weight: number;
  title: string;
  /** What it has in common with the query, from 0 to 1,000 thousandths. */
  relevance: number;
  /** Words of the query that it contains. */
  words: string[];
}

/**
 * Fields of the event's data besides workflow, run, outcome and attempt, such as `trajectory`, `task` and `repo`. `agentsMd`
 * is what the repository's `AGENTS.md` says, at most 64 KiB; it goes with the trajectory.
 */
export type RunFacts = Record<string, unknown> & {
  attempt?: number;
  source?: string;
  eventId?: string;
  agentsMd?: string;
  trajectory?: { extra?: object };
};

/** A CloudEvent. */
export type CloudEvent = Record<string, unknown>;

/** Who says what a memory did, and why. */
export interface Feedback {
  runId?: string;
  workflow?: string;
  step?: string;
  /** At most 1,024 bytes; people are shown it, agents are not. */
  why?: string;
  /** Name of a person. */
  by?: string;
}

/** What an agent found out about a failing call. */
export interface Lesson {
  workflow: string;
  runId: string;
  kind: "set_argument" | "add_argument" | "drop_argument" | "use_tool" | "call_first";
  tool: string;
  /** What the tool answered, verbatim. */
  errorQuote: string;
  step?: string;
  repo?: string;
  argument?: string;
  bad?: string;
  good?: string;
  /** A few words for people; no agent is handed them. */
  cause?: string;
}

export interface ClientOptions {
  /** Address of the gateway, by default RETRO_URL or http://127.0.0.1:7717. */
  url?: string;
  /**
   * Access token, which decides the tenant: by default RETRO_TOKEN, or the content of the file that RETRO_TOKEN_FILE
   * names, which is read for each request.
   */
  token?: string;
  /** Tenant of requests without a token, by default RETRO_TENANT or `default`. */
  tenant?: string;
  /** Longest time that asking takes, in milliseconds. */
  timeoutMs?: number;
  /** Folder for runs that wait to be sent, by default `~/.local/state/retrospect/spool`. */
  spool?: string;
}

/** The gateway answered with this status. */
class StatusError extends Error {
  readonly status: number;

  constructor(status: number, detail: string) {
    super(`the gateway answered ${status}: ${detail}`);
    this.status = status;
  }
}

/** Asks for context and sends finished runs. */
export class Client {
  readonly url: string;
  readonly tenant: string;
  readonly #token?: string;
  readonly timeoutMs: number;
  readonly spool: string;

  constructor(options: ClientOptions = {}) {
    this.url = (options.url || process.env.RETRO_URL || "http://127.0.0.1:7717").replace(/\/+$/, "");
    this.tenant = options.tenant || process.env.RETRO_TENANT || "default";
    this.#token = options.token || process.env.RETRO_TOKEN;
    this.timeoutMs = options.timeoutMs ?? 500;
    this.spool = options.spool || join(homedir(), ".local/state/retrospect/spool");
  }

  /** Returns what a run of the step is told. With `runId` it is recorded as presented to that run. Never throws. */
  async context(request: ContextRequest): Promise<Context> {
    const { workflow, step = "main", runId, repo, repoVisibility, paths, task } = request;
    const body = { workflow, step, run_id: runId, repo, repo_visibility: repoVisibility, paths, task };
    const [answer, reason] = await this.#ask("POST", "/v1/context", body);
    if (!answer) {
      return { text: "", memories: [], rulesText: "", reason };
    }
    const { text = "", memories = [], rules } = answer;
    return { text, memories, rulesText: rules?.text ?? "", reason: answer.reason ?? undefined };
  }

  /**
   * Returns the memories of a step and the rules of a repository about a text, best first. With `runId` they are recorded
   * as presented to that run. Never throws.
   */
  async search(request: SearchRequest): Promise<SearchResult> {
    const { query, workflow, step = "main", runId, repo, repoVisibility, k = 5 } = request;
    const asked = { query, k, workflow, step, run: runId, repo, repo_visibility: repoVisibility };
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries(asked)) {
      if (value !== undefined) parameters.set(name, String(value));
    }
    const [answer, reason] = await this.#ask("GET", `/v1/memories/search?${parameters}`);
    if (!answer) {
      return { text: "", memories: [], reason };
    }
    const { text = "", memories = [] } = answer;
    return { text, memories, reason: answer.reason ?? undefined };
  }

  /**
   * Returns a memory in full, by its id or the digits that the block shows; undefined without an answer or such a
   * memory. With `runId` it is recorded as read by that run. Never throws.
   */
  async memory(memory: string, asked: { runId?: string; workflow?: string } = {}): Promise<unknown> {
    const query = new URLSearchParams();
    if (asked.runId) query.set("run", asked.runId);
    if (asked.workflow) query.set("workflow", asked.workflow);
    const path = `/v1/memories/${encodeURIComponent(memory)}${query.size ? `?${query}` : ""}`;
    const [answer] = await this.#ask("GET", path);
    return answer?.memory ?? undefined;
  }

  /**
   * Says what a memory did. An agent names its `runId` and `workflow`, a person its name in `by`. Returns `recorded`,
   * `already_recorded`, `refused` or `unknown`; undefined without an answer or such a memory. Saying it again is safe.
   * Never throws.
   */
  async feedback(memory: string, verdict: "helped" | "hurt" | "wrong", said: Feedback): Promise<string | undefined> {
    const { runId, workflow, step, why, by } = said;
    const [answer] = await this.#ask("POST", "/v1/feedback", { memory, verdict, run: runId, workflow, step, why, by });
    return answer?.recorded ?? undefined;
  }

  /**
   * Saves what the agent found out, in fields. Returns `saved`, `known`, `refused` or `unknown`; undefined without an
   * answer or with a wrong field, which is logged. Saving it again is safe. Never throws.
   */
  async saveLesson(lesson: Lesson): Promise<string | undefined> {
    const { runId, errorQuote, ...fields } = lesson;
    const [answer] = await this.#ask("POST", "/v1/lessons", { ...fields, run: runId, error_quote: errorQuote });
    return answer?.saved ?? undefined;
  }

  /**
   * Stores an event in the spool and sends what is there. Returns true if this event was accepted; otherwise it is kept.
   * Throws if it cannot be stored, or if the spool is full.
   */
  async send(event: CloudEvent): Promise<boolean> {
    const path = await this.#store(event);
    await this.flush();
    return !(await exists(path)) && !(await exists(join(this.spool, "refused", basename(path))));
  }

  /** Sends the events of the spool, oldest first, until one cannot be sent. Returns the number of those that wait. */
  async flush(): Promise<number> {
    const waiting = await this.#list();
    for (const [nth, path] of waiting.entries()) {
      if (!(await this.#sendFile(path))) {
        return waiting.length - nth;
      }
    }
    return 0;
  }

  /** Returns the answer, or undefined and the reason, after `timeoutMs` at the latest. */
  async #ask(method: string, path: string, body?: unknown): Promise<[any, string | undefined]> {
    try {
      return [JSON.parse(await this.#request(method, path, body, this.timeoutMs)), undefined];
    } catch (error) {
      const late = (error as Error).name === "TimeoutError";
      const why = late ? ` within ${this.timeoutMs} ms` : `: ${describe(error)}`;
      const reason = error instanceof StatusError ? error.message : `no answer of the gateway${why}`;
      console.warn(`retrospect: ${reason}`);
      return [undefined, reason];
    }
  }

  /** Sends a request and returns the body of the answer. The time-out includes reading it. */
  async #request(method: string, path: string, body: unknown, timeoutMs: number): Promise<string> {
    const type = path === "/v1/events" ? "application/cloudevents+json" : "application/json";
    const token = this.#token || (await readToken());
    const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : { "retro-tenant": this.tenant };
    if (body !== undefined) {
      headers["content-type"] = type;
    }
    const signal = AbortSignal.timeout(timeoutMs);
    // A redirect would take the token to another host.
    const init: RequestInit = { method, headers, signal, redirect: "error", body: body === undefined ? undefined : JSON.stringify(body) };
    const answer = await fetch(this.url + path, init);
    const text = await answer.text();
    if (!answer.ok) {
      throw new StatusError(answer.status, explain(text, answer.statusText));
    }
    return text;
  }

  async #store(event: CloudEvent): Promise<string> {
    await mkdir(this.spool, { recursive: true, mode: 0o700 });
    if ((await this.#list()).length >= SPOOL_EVENTS_MAX) {
      throw new Error(`${this.spool} holds ${SPOOL_EVENTS_MAX} events that were not sent`);
    }
    const data = JSON.stringify(event);
    // The same event has the same name, so storing it again adds nothing.
    const path = join(this.spool, `${createHash("sha256").update(data).digest("hex")}.json`);
    const temporary = join(this.spool, `${randomUUID()}.part`);
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(data);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    return path;
  }

  /** Lists the events of the spool, oldest first. */
  async #list(): Promise<string[]> {
    const names = await readdir(this.spool).catch((error) => orMissing(error, [] as string[]));
    const stored = names.filter((name) => name.endsWith(".json")).map(async (name) => {
      // Another process may have sent it.
      const time = await stat(join(this.spool, name)).then((found) => found.mtimeMs, () => 0);
      return { name, time };
    });
    const sorted = (await Promise.all(stored)).sort((one, other) =>
      one.time - other.time || (one.name < other.name ? -1 : 1)
    );
    return sorted.map(({ name }) => join(this.spool, name));
  }

  /** Sends an event of the spool. Returns false if it has to wait. */
  async #sendFile(path: string): Promise<boolean> {
    const data = await readFile(path, "utf8").catch((error) => orMissing(error, undefined));
    if (data === undefined) {
      return true;
    }
    let event: unknown;
    try {
      event = JSON.parse(data);
    } catch {
      await this.#refuse(path, "it is no JSON");
      return true;
    }
    try {
      await this.#request("POST", "/v1/events", event, SEND_TIMEOUT_MS);
    } catch (error) {
      if (error instanceof StatusError && !RETRIED_STATUSES.has(error.status)) {
        await this.#refuse(path, error.message);
        return true;
      }
      console.warn(`retrospect: ${basename(path)} waits: ${describe(error)}`);
      return false;
    }
    await rm(path, { force: true });
    return true;
  }

  async #refuse(path: string, reason: string): Promise<void> {
    console.error(`retrospect: ${basename(path)} is refused: ${reason}`);
    const folder = join(this.spool, "refused");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, `${basename(path, ".json")}.reason`), `${reason}\n`);
    await rename(path, join(folder, basename(path))).catch((error) => orMissing(error, undefined));
  }
}

/**
 * Returns the event of a finished run. The event of the same attempt has the same id, so sending it again counts nothing
 * twice.
 */
export function runCompleted(workflow: string, runId: string, outcome: string, facts: RunFacts = {}): CloudEvent {
  const { attempt = 1, source = "/clients/typescript", eventId, agentsMd, ...more } = facts;
  if (agentsMd !== undefined && more.trajectory) {
    more.trajectory = { ...more.trajectory, extra: { ...more.trajectory.extra, agents_md: agentsMd } as object };
  }
  const data = { workflow, run_id: runId, outcome, attempt, ...more };
  const id = eventId ?? `${workflow}/${runId}/${attempt}`;
  return { specversion: "1.0", type: RUN_COMPLETED, source, id, data };
}

/** Returns the value if a file is missing, because another process has sent it. Throws every other error. */
function orMissing<T>(error: Error & { code?: string }, value: T): T {
  if (error.code === "ENOENT") {
    return value;
  }
  throw error;
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(() => true, () => false);
}

/** Returns what a problem document says, or the status. */
function explain(body: string, status: string): string {
  try {
    const problem = JSON.parse(body);
    return String(problem.detail ?? problem.title ?? status);
  } catch {
    return status;
  }
}

/** Returns the message of an error, with its cause, in which `fetch` says what is wrong. */
async function readToken(): Promise<string | undefined> {
  const path = process.env.RETRO_TOKEN_FILE;
  return path ? (await readFile(path, "ascii")).trim() : undefined;
}

function describe(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

const USAGE = `usage: retrospect.ts [--url URL] [--tenant TENANT] [--timeout SECONDS] [--spool FOLDER] COMMAND

  context --workflow W [--step S] [--run R] [--repo R] [--task T]   prints the block for the prompt of a run
  search QUERY --workflow W [--step S] [--run R] [--repo R]         prints the memories and rules about a text
  send FILE...   sends events from files, or from stdin with -
  flush          sends what waits in the spool`;

async function main(words: string[]): Promise<number> {
  const options = new Map<string, string>();
  const rest: string[] = [];
  for (let nth = 0; nth < words.length; nth++) {
    const word = words[nth];
    if (!word.startsWith("--")) {
      rest.push(word);
    } else if (words[nth + 1] === undefined) {
      console.error(`retrospect: ${word} has no value\n${USAGE}`);
      return 2;
    } else {
      options.set(word.slice(2), words[++nth]);
    }
  }
  const seconds = options.get("timeout");
  const timeoutMs = seconds === undefined ? undefined : Number(seconds) * 1000;
  const client = new Client({ url: options.get("url"), tenant: options.get("tenant"), timeoutMs, spool: options.get("spool") });
  const [command, ...files] = rest;
  const workflow = options.get("workflow");
  if (command === "context" && workflow) {
    const step = options.get("step");
    const [runId, repo, task] = ["run", "repo", "task"].map((name) => options.get(name));
    const { text, rulesText } = await client.context({ workflow, step, runId, repo, task });
    const blocks = [text, rulesText].filter((block) => block);
    if (blocks.length) {
      console.log(blocks.join("\n"));
    }
    return 0;
  }
  if (command === "search" && files.length === 1 && (workflow || options.has("repo"))) {
    const [step, runId, repo] = ["step", "run", "repo"].map((name) => options.get(name));
    const { text } = await client.search({ query: files[0], workflow, step, runId, repo });
    if (text) {
      console.log(text);
    }
    return 0;
  }
  if (command === "send" && files.length) {
    let accepted = true;
    for (const file of files) {
      const event = JSON.parse(await readFile(file === "-" ? "/dev/stdin" : file, "utf8"));
      accepted = (await client.send(event)) && accepted;
    }
    return accepted ? 0 : 1;
  }
  if (command === "flush") {
    return (await client.flush()) ? 1 : 0;
  }
  console.error(USAGE);
  return 2;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = await main(process.argv.slice(2));
}
