//! Agents use memories over the Model Context Protocol, over HTTP and over the standard streams of `retro mcp`.

use std::process::Stdio;

use retro_core::recall::{FENCE_HINT, FENCE_TOOL_HINT, hint_at_tools};
use retro_eval::http_client::configure_client;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::world::{DatabaseKind, Fleet, World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";
const NEWEST: &str = "2026-07-28";
const PREVIOUS: &str = "2025-11-25";

/// A client that speaks one version of the protocol.
struct McpClient {
    http: reqwest::Client,
    url: String,
    version: &'static str,
    token: Option<String>,
}

impl McpClient {
    fn new(world: &World, version: &'static str) -> Self {
        let http = configure_client().build().expect("a client");
        Self { http, url: format!("{}/mcp", world.http_url()), version, token: None }
    }

    fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    fn build_post(&self) -> reqwest::RequestBuilder {
        let post = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        let post = post.header("mcp-protocol-version", self.version);
        match &self.token {
            Some(token) => post.bearer_auth(token),
            None => post,
        }
    }

    /// Returns the status and the body of a request.
    async fn send(&self, method: &str, params: Value) -> (u16, Value) {
        let message = build_request(self.version, method, params);
        let mut post = self.build_post();
        if self.version == NEWEST {
            post = post.header("mcp-method", method);
            let named = message["params"].get("name").or_else(|| message["params"].get("uri"));
            if let Some(name) = named.and_then(Value::as_str) {
                post = post.header("mcp-name", name);
            }
        }
        read_response(post.json(&message)).await
    }

    async fn request(&self, method: &str, params: Value) -> Value {
        let (status, answer) = self.send(method, params).await;
        assert_eq!((status, answer.get("error")), (200, None), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

fn build_request(version: &str, method: &str, mut params: Value) -> Value {
    if version == NEWEST {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
        });
    }
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn build_initialize(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}})
}

async fn read_response(request: reqwest::RequestBuilder) -> (u16, Value) {
    let response = request.send().await.expect("the program answers");
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or_default())
}

/// Returns the text of a tool's result that is not an error.
fn text_of(result: &Value) -> &str {
    assert_eq!(result["isError"], false, "{result}");
    json_text(&result["content"][0], "text")
}

/// Returns the words of a tool's error.
fn error_of(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    json_text(&result["content"][0], "text")
}

/// Starts a program that withholds nothing, and teaches it a memory. Returns its id.
async fn start_and_learn(tenant: &str, variables: &[(&str, &str)]) -> (World, String) {
    let mut world = World::empty();
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up_with_env(variables).await;
    let runs = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
    world.emit_and_wait(tenant, "runs.jsonl", &runs).await;
    let memories = world.run_json(&["--tenant", tenant, "memories", "list", "--status", "active"]).await;
    let id = json_text(json_items(&memories).first().expect("an active memory"), "id").to_owned();
    (world, id)
}

#[tokio::test]
async fn an_agent_is_told_searches_reads_and_judges_memories_in_both_versions() {
    let (mut world, id) = start_and_learn("default", &[]).await;
    for version in [NEWEST, PREVIOUS] {
        let client = McpClient::new(&world, version);
        if version == NEWEST {
            let server = client.request("server/discover", json!({})).await;
            assert!(json_items(&server["supportedVersions"]).contains(&json!(NEWEST)), "{server}");
            assert!(json_text(&server, "instructions").contains("memory_list"), "{server}");
        } else {
            let server = client.request("initialize", build_initialize(version)).await;
            assert_eq!(server["protocolVersion"], version, "{server}");
            assert!(json_text(&server, "instructions").contains("memory_list"), "{server}");
            let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(read_response(client.build_post().json(&note)).await.0, 202);
        }

        let listed = client.request("tools/list", json!({})).await;
        // A client that kept a list would hide that a memory was presented; older versions know nothing of it.
        let ttl = if version == NEWEST { json!(0) } else { Value::Null };
        assert_eq!(listed["ttlMs"], ttl, "{listed}");
        let tools = json_items(&listed["tools"]);
        let check = |tool: &str, result: &Value| {
            let described = tools.iter().find(|one| one["name"] == tool).expect("the tool is listed");
            let schema = jsonschema::validator_for(&described["outputSchema"]).expect("a schema");
            let problems: Vec<_> =
                schema.iter_errors(&result["structuredContent"]).map(|e| e.to_string()).collect();
            assert_eq!(problems, [""; 0], "{tool}: {result}");
        };

        let run = format!("run-of-{version}");
        let question =
            json!({"workflow": WORKFLOW, "step": "deploy", "run": run, "task": "Deploy the service"});
        let told = client.call("memory_list", question.clone()).await;
        check("memory_list", &told);
        let context =
            json!({"workflow": WORKFLOW, "step": "deploy", "run_id": run, "task": "Deploy the service"});
        let context = world.fetch_context("default", &context).await;
        let text = json_text(&context, "text");
        assert!(text.contains(FENCE_HINT) && text_of(&told).contains(FENCE_TOOL_HINT), "{told}");
        assert_eq!(
            text_of(&told),
            hint_at_tools(text),
            "the same as over the HTTP API, but for what to call"
        );
        assert!(text_of(&told).contains("deploy_service"), "{told}");

        let found =
            json!({"workflow": WORKFLOW, "step": "deploy", "query": "deploy_service", "k": 3, "run": run});
        let found = client.call("memory_search", found).await;
        check("memory_search", &found);
        assert_eq!(found["structuredContent"]["memories"][0]["id"], id, "{found}");
        assert!(text_of(&found).contains("deploy_service"), "{found}");

        let read =
            client.call("memory_read", json!({"memory": &id[..8], "run": run, "workflow": WORKFLOW})).await;
        check("memory_read", &read);
        assert_eq!(read["structuredContent"]["recorded"], "recorded", "{read}");
        assert!(
            text_of(&read).contains(&id) && text_of(&read).contains("seen in 4 runs.\nRun release-"),
            "{read}"
        );

        let said = json!({"memory": id, "verdict": "helped", "why": "it named the field", "run": run,
            "workflow": WORKFLOW});
        let judged = client.call("memory_feedback", said.clone()).await;
        check("memory_feedback", &judged);
        assert_eq!(judged["structuredContent"]["recorded"], "recorded", "{judged}");
        let again = client.call("memory_feedback", said).await;
        assert!(text_of(&again).starts_with("already_recorded"), "{again}");

        let lesson = json!({"workflow": WORKFLOW, "step": "deploy", "run": run, "kind": "add_argument",
            "tool": "scale", "argument": "replicas", "good": "2", "error_quote": "Error: replicas is required"});
        let saved = client.call("memory_save", lesson).await;
        check("memory_save", &saved);
        let outcome = if version == NEWEST { "saved" } else { "known" };
        assert!(text_of(&saved).starts_with(&format!("{outcome}: ")), "{saved}");

        let prompt = json!({"name": "memories", "arguments": {"workflow": WORKFLOW, "step": "deploy"}});
        let prompt = client.request("prompts/get", prompt).await;
        assert!(json_text(&prompt["messages"][0]["content"], "text").contains("deploy_service"), "{prompt}");
        let resource =
            client.request("resources/read", json!({"uri": format!("retrospect://memories/{id}")})).await;
        assert!(json_text(&resource["contents"][0], "text").contains("deploy_service"), "{resource}");
        let templates = client.request("resources/templates/list", json!({})).await;
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "retrospect://memories/{id}");
        assert_eq!(client.request("resources/list", json!({})).await["resources"], json!([]));
    }
    let shown = world.run_retro(&["memories", "show", &id]).await.out;
    for version in [NEWEST, PREVIOUS] {
        assert!(shown.contains(&format!("helped — agent run-of-{version}")), "{shown}");
    }
    world.verify_store().await;
    world.stop().await;
}

async fn create_token(world: &World, tenant: &str, scopes: &str) -> String {
    let name = scopes.replace(',', "-");
    let create = ["--tenant", tenant, "tokens", "create", "--name", &name, "--scopes", scopes];
    let limits = ["--expires-in", "90d", "--reason", "a test"];
    let created = world.run_json(&[&create[..], &limits].concat()).await;
    json_text(&created, "token").to_owned()
}

#[tokio::test]
async fn a_token_decides_whose_memories_an_agent_sees() {
    let (mut world, id) = start_and_learn("acme", &[("RETRO_HTTP_REQUIRE_TOKENS", "true")]).await;
    let client = |token: &str| McpClient::new(&world, NEWEST).with_token(token);
    let question = json!({"workflow": WORKFLOW, "step": "deploy"});
    let own = client(&create_token(&world, "acme", "context").await);
    assert!(text_of(&own.call("memory_list", question.clone()).await).contains("deploy_service"));

    let other = client(&create_token(&world, "globex", "context").await);
    let told = other.call("memory_list", question.clone()).await;
    assert_eq!(told["structuredContent"]["memories"], json!([]), "{told}");
    let searched = json!({"workflow": WORKFLOW, "step": "deploy", "query": "deploy_service"});
    let found = other.call("memory_search", searched).await;
    assert_eq!(found["structuredContent"]["memories"], json!([]), "{found}");
    for (tool, arguments) in [
        ("memory_read", json!({"memory": id})),
        ("memory_feedback", json!({"memory": id, "verdict": "wrong", "run": "r", "workflow": WORKFLOW})),
    ] {
        let refused = other.call(tool, arguments).await;
        assert!(error_of(&refused).starts_with("`memory`: there is no memory"), "{refused}");
    }
    let uri = json!({"uri": format!("retrospect://memories/{id}")});
    let (_, refused) = other.send("resources/read", uri).await;
    assert!(json_text(&refused["error"], "message").contains("there is no memory"), "{refused}");
    // No argument and no header names another tenant.
    let named = json!({"workflow": WORKFLOW, "step": "deploy", "tenant": "acme"});
    let refused = other.call("memory_list", named).await;
    assert!(error_of(&refused).contains("unknown field `tenant`"), "{refused}");
    let list = build_request(NEWEST, "tools/call", json!({"name": "memory_list", "arguments": question}));
    let named = other.build_post().header("mcp-method", "tools/call").header("mcp-name", "memory_list");
    let (status, refused) = read_response(named.header("retro-tenant", "acme").json(&list)).await;
    assert_eq!((status, &refused["code"]), (403, &json!("other_tenant")), "{refused}");

    let (status, refused) = McpClient::new(&world, NEWEST).send("tools/list", json!({})).await;
    assert_eq!((status, &refused["code"]), (401, &json!("missing_token")), "{refused}");
    let reader = client(&create_token(&world, "acme", "read,emit").await);
    let (status, refused) = reader.send("tools/list", json!({})).await;
    assert_eq!((status, &refused["code"]), (403, &json!("insufficient_scope")), "{refused}");
    // Where each request needs a token, any name of the host is right, as behind a proxy.
    let proxied = own.build_post().header("host", "retro.example").header("mcp-method", "tools/list");
    let (status, listed) = read_response(proxied.json(&build_request(NEWEST, "tools/list", json!({})))).await;
    assert_eq!((status, json_items(&listed["result"]["tools"]).len()), (200, 5), "{listed}");
    world.stop().await;
}

#[tokio::test]
async fn hostile_input_gets_an_error_that_names_the_matter_and_the_server_lives() {
    let mut world = World::start().await;
    let client = McpClient::new(&world, PREVIOUS);
    for (arguments, part) in [
        (json!({}), "missing field `workflow`"),
        (json!({"workflow": ["w"]}), "`workflow`: invalid type"),
        (json!({"workflow": ""}), "`workflow`"),
        (json!({"workflow": "w", "paths": {"deep": "x".repeat(50_000)}}), "`paths`: invalid type"),
        (json!({"workflow": "w", "limit": 3}), "unknown field `limit`"),
    ] {
        let refused = client.call("memory_list", arguments).await;
        assert!(error_of(&refused).contains(part) && error_of(&refused).len() < 2_000, "{part}: {refused}");
    }
    let said = json!({"memory": "0123456789", "verdict": "hurt", "run": "r", "workflow": "w", "why": "w".repeat(1025)});
    assert!(error_of(&client.call("memory_feedback", said).await).contains("`why` is 1025 bytes long"));
    for (method, params, code) in [
        ("tools/call", json!({"name": "rm", "arguments": {}}), -32602),
        ("tools/call", json!({"name": "memory_list", "arguments": "x"}), -32602),
        ("tools/call", json!({}), -32602),
        ("prompts/get", json!({"name": "memories"}), -32602),
        ("resources/read", json!({"uri": "file:///etc/passwd"}), -32002),
        ("sampling/createMessage", json!({}), -32601),
    ] {
        let (_, refused) = client.send(method, params).await;
        assert_eq!(refused["error"]["code"], code, "{method}: {refused}");
    }
    let nested = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    for (body, status) in [
        ("{\"jsonrpc\"".to_owned(), 400),
        ("[]".to_owned(), 400),
        (nested, 400),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(70_000)}})
                .to_string(),
            413,
        ),
    ] {
        let posted = client.build_post().header("content-type", "application/json").body(body);
        assert_eq!(read_response(posted).await.0, status);
    }
    let ping = || build_request(PREVIOUS, "ping", json!({}));
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let (status, refused) = read_response(client.build_post().header(name, value).json(&ping())).await;
        assert_eq!((status, &refused["code"]), (403, &json!("cross_site")), "{refused}");
    }
    let rebound = client.build_post().header("host", "evil.example");
    assert_eq!(read_response(rebound.json(&ping())).await.0, 403);
    let (status, _) = read_response(client.http.get(&client.url).header("accept", "text/event-stream")).await;
    assert_eq!(status, 405, "the server says nothing unasked");
    client.request("ping", json!({})).await;
    world.stop().await;
}

#[tokio::test]
async fn without_the_database_an_agent_gets_nothing_and_the_reason() {
    let mut fleet = Fleet::unstarted(DatabaseKind::Postgres).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    fleet.up_with_env(&[("RETRO_CONTEXT_TIMEOUT_MS", "2000")]).await;
    let runs = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
    fleet.emit_and_wait("default", "runs.jsonl", &runs).await;
    let client = McpClient::new(&fleet, NEWEST);
    let has_memories = async || {
        let told = client.call("memory_list", json!({"workflow": WORKFLOW, "step": "deploy"})).await;
        text_of(&told).contains("deploy_service").then_some(())
    };
    fleet.wait_for("an agent gets the learned memory", has_memories).await;
    fleet.stop_database();

    // A step that the gateway has not in memory.
    let asked = json!({"workflow": "another"});
    let told = client.call("memory_list", asked).await;
    assert_eq!(told["structuredContent"]["memories"], json!([]));
    assert!(text_of(&told).starts_with("no memories: "), "{told}");
    let found = client.call("memory_search", json!({"workflow": "another", "query": "deploy"})).await;
    assert!(text_of(&found).starts_with("no memories: "), "{found}");
    let read = client.call("memory_read", json!({"memory": "0123456789"})).await;
    assert_eq!(read["structuredContent"]["memory"], Value::Null, "{read}");
    assert!(!text_of(&read).is_empty());
    let said = json!({"memory": "0123456789", "verdict": "hurt", "run": "r", "workflow": "another"});
    let said = client.call("memory_feedback", said).await;
    assert!(text_of(&said).starts_with("unknown: "), "{said}");
    let prompt = json!({"name": "memories", "arguments": {"workflow": "another"}});
    let prompt = client.request("prompts/get", prompt).await;
    assert!(json_text(&prompt["messages"][0]["content"], "text").starts_with("no memories: "), "{prompt}");
    fleet.start_database().await;
    fleet.stop_up().await;
    fleet.stop_all().await;
}

/// Returns the resident memory of a process, in KiB.
fn read_resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the line");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_thousand_clients_that_begin_and_never_return_leave_nothing() {
    const ABANDONED: usize = 1_000;
    /// What the allocator may keep of a thousand requests after a thousand others: 2 KiB of each. That no task is left is
    /// tested where tasks can be counted.
    const REMAINING_KIB: u64 = 2 * 1024;
    let mut world = World::start().await;
    let client = McpClient::new(&world, PREVIOUS);
    let begin = async |times: usize| {
        for _ in 0..times {
            let initialize = build_request(PREVIOUS, "initialize", build_initialize(PREVIOUS));
            let response = client.build_post().json(&initialize).send().await.expect("the program answers");
            assert_eq!(response.status().as_u16(), 200);
            assert!(response.headers().get("mcp-session-id").is_none(), "nothing is kept for the client");
            response.bytes().await.expect("a body");
        }
    };
    begin(ABANDONED).await;
    let before = read_resident_kib(world.pid());
    begin(ABANDONED).await;
    let after = read_resident_kib(world.pid());
    println!("{before} KiB before, {after} KiB after");
    assert!(after < before + REMAINING_KIB, "{before} KiB before, {after} KiB after");
    world.stop().await;
}

/// `retro mcp`, and its streams.
struct StdioServer {
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl StdioServer {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut command = world.command(&[&["mcp"], arguments].concat());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = piped.spawn().expect("the program starts");
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { process, stdin, stdout }
    }

    async fn write(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    async fn request(&mut self, message: &Value) -> Value {
        self.write(&message.to_string()).await;
        let line = self.stdout.next_line().await.expect("text").expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?} is not JSON: {error}"))
    }

    /// Closes stdin, and returns the exit code and what is left on both streams.
    async fn stop(self) -> (Option<i32>, String, String) {
        let Self { process, stdin, mut stdout } = self;
        drop(stdin);
        let mut rest = String::new();
        while let Some(line) = stdout.next_line().await.expect("text") {
            rest.push_str(&line);
        }
        let ended = process.wait_with_output().await.expect("our own child");
        (ended.status.code(), rest, String::from_utf8_lossy(&ended.stderr).into_owned())
    }
}

#[tokio::test]
async fn an_agent_on_this_machine_speaks_over_the_standard_streams() {
    let (mut world, id) = start_and_learn("acme", &[]).await;
    let call = |version: &str, tool: &str, arguments: Value| {
        build_request(version, "tools/call", json!({"name": tool, "arguments": arguments}))
    };
    let question = json!({"workflow": WORKFLOW, "step": "deploy", "run": "local"});

    let mut server = StdioServer::start(&world, &["--tenant", "acme"]);
    let answer = server.request(&build_request(PREVIOUS, "initialize", build_initialize(PREVIOUS))).await;
    assert_eq!(answer["result"]["protocolVersion"], PREVIOUS, "{answer}");
    server.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
    let told = server.request(&call(PREVIOUS, "memory_list", question.clone())).await;
    assert!(text_of(&told["result"]).contains("deploy_service"), "{told}");
    assert_eq!(told["result"]["structuredContent"]["recorded"], "recorded", "{told}");
    let refused = server.request(&call(PREVIOUS, "memory_read", json!({"memory": 5}))).await;
    assert!(error_of(&refused["result"]).contains("`memory`"), "{refused}");
    let said = json!({"memory": id, "verdict": "helped", "run": "local", "workflow": WORKFLOW});
    let said = server.request(&call(PREVIOUS, "memory_feedback", said)).await;
    assert_eq!(said["result"]["structuredContent"]["recorded"], "recorded", "{said}");
    let (code, out, err) = server.stop().await;
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));

    // The newest version begins without a handshake; another tenant sees nothing.
    let mut server = StdioServer::start(&world, &["--tenant", "globex"]);
    let told = server.request(&call(NEWEST, "memory_list", question.clone())).await;
    assert_eq!(told["result"]["structuredContent"]["memories"], json!([]), "{told}");
    assert_eq!(server.stop().await.0, Some(0));
    world.verify_store().await;
    world.stop().await;

    // A folder without a database, as before the first `retro up`.
    let nothing = World::empty();
    let mut server = StdioServer::start(&nothing, &[]);
    let told = server.request(&call(NEWEST, "memory_list", question)).await;
    assert!(text_of(&told["result"]).starts_with("no memories: "), "{told}");
    assert_eq!(server.stop().await.0, Some(0));
}
