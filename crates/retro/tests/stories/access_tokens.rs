//! Agents and people of other machines use the HTTP API over TLS, each with a token of their tenant.

use std::path::Path;

use reqwest::StatusCode;
use retro_eval::http_client::{configure_client, configure_trusting_client};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::{World, build_correcting_runs, json_items, json_text, project_path, run_command};

const WORKFLOW: &str = "release";

/// A certificate for this machine, as its server and whoever trusts it get it.
struct Certificate {
    der: Vec<u8>,
    pem: String,
    key_pem: String,
}

impl Certificate {
    fn generate() -> Self {
        Self::of_names(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
    }

    /// Generates a certificate for another name than the addresses of this machine.
    fn generate_for(name: &str) -> Self {
        Self::of_names(vec![name.to_owned()])
    }

    fn of_names(names: Vec<String>) -> Self {
        let pair = rcgen::generate_simple_self_signed(names).expect("names of hosts");
        let (der, pem) = (pair.cert.der().to_vec(), pair.cert.pem());
        Self { der, pem, key_pem: pair.signing_key.serialize_pem() }
    }

    /// Writes the files of the server and returns the variables that name them.
    fn install(&self, world: &World) -> [(&'static str, String); 2] {
        // The key first: a server that reads between the two must not find a pair that fits by chance.
        let key = world.write_file("server.key", &self.key_pem);
        [("RETRO_HTTP_CERT_FILE", world.write_file("server.pem", &self.pem)), ("RETRO_HTTP_KEY_FILE", key)]
    }
}

/// A client on another machine, with a token or without.
struct RemoteClient {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
}

impl RemoteClient {
    fn new(world: &World, certificate: &Certificate, token: Option<&str>) -> Self {
        let http = configure_trusting_client(&certificate.der).expect("a certificate");
        let http = http.build().expect("a client");
        let url = world.http_url().replace("0.0.0.0", "127.0.0.1");
        Self { http, url, token: token.map(str::to_owned) }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (StatusCode, Value) {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.expect("the program answers");
        let status = response.status();
        (status, serde_json::from_str(&response.text().await.expect("text")).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(self.http.post(format!("{}{path}", self.url)).json(body)).await
    }
}

async fn create_token(world: &World, tenant: &str, name: &str, scopes: &str) -> String {
    let create = ["--tenant", tenant, "tokens", "create", "--name", name, "--scopes", scopes];
    let created =
        world.run_json(&[&create[..], &["--expires-in", "90d", "--reason", "a test"]].concat()).await;
    json_text(&created, "token").to_owned()
}

/// Waits until the runs of the tenant acme have left an active memory.
async fn wait_for_lesson(world: &World) {
    let active = ["--tenant", "acme", "memories", "list", "--status", "active"];
    let active = async || (!json_items(&world.run_json(&active).await).is_empty()).then_some(());
    world.wait_for("a memory is active", active).await;
}

fn as_variables<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[tokio::test]
async fn an_agent_on_another_machine_uses_tls_and_a_token_of_its_tenant() {
    let (mut world, certificate) = (World::empty(), Certificate::generate());
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up_at("0.0.0.0:0", &as_variables(&certificate.install(&world))).await;
    assert!(world.http_url().starts_with("https://0.0.0.0:"), "{}", world.http_url());
    let token = create_token(&world, "acme", "ci", "emit,context").await;
    let (agent, stranger) = (
        RemoteClient::new(&world, &certificate, Some(&token)),
        RemoteClient::new(&world, &certificate, None),
    );

    let runs = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
    let events = agent.http.post(format!("{}/v1/events", agent.url));
    let events = events.header("content-type", "application/cloudevents-batch+json");
    let (status, answer) = agent.send(events.body(json!(runs).to_string())).await;
    assert!(status.is_success(), "{status} {answer}");
    wait_for_lesson(&world).await;
    let question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": "next"});
    let (status, context) = agent.post("/v1/context", &question).await;
    assert_eq!(status, StatusCode::OK, "{context}");
    assert!(json_text(&context, "text").contains("deploy_service"), "{context}");
    let memory = json_text(&json_items(&context["memories"])[0], "id").to_owned();
    let (status, read) = agent.get(&format!("/v1/memories/{memory}?run=next&workflow={WORKFLOW}")).await;
    assert_eq!((status, &read["recorded"]), (StatusCode::OK, &json!("recorded")), "{read}");
    assert_eq!(agent.get("/v1/memories").await.0, StatusCode::FORBIDDEN, "it is no person");
    let said = |of: Value| {
        let mut said = json!({"memory": memory, "verdict": "helped"});
        said.as_object_mut().expect("an object").extend(of.as_object().expect("an object").clone());
        said
    };
    let (status, answer) =
        agent.post("/v1/feedback", &said(json!({"run": "next", "workflow": WORKFLOW}))).await;
    assert_eq!((status, &answer["recorded"]), (StatusCode::OK, &json!("recorded")), "{answer}");
    let (status, answer) = agent.post("/v1/feedback", &said(json!({"by": "ada"}))).await;
    assert_eq!((status, &answer["code"]), (StatusCode::FORBIDDEN, &json!("insufficient_scope")), "{answer}");
    let person = create_token(&world, "acme", "ada", "operate").await;
    let person = RemoteClient::new(&world, &certificate, Some(&person));
    let (status, answer) = person.post("/v1/feedback", &said(json!({"by": "ada"}))).await;
    assert_eq!((status, &answer["recorded"]), (StatusCode::OK, &json!("recorded")), "{answer}");

    // A token of another tenant sees nothing of it, whatever a header says; no token sees nothing at all.
    let other = create_token(&world, "globex", "ci", "context,operate").await;
    let other = RemoteClient::new(&world, &certificate, Some(&other));
    let (status, context) = other.post("/v1/context", &question).await;
    assert_eq!((status, &context["memories"]), (StatusCode::OK, &json!([])));
    assert_eq!(other.get(&format!("/v1/memories/{memory}")).await.0, StatusCode::NOT_FOUND);
    let asked = other.http.post(format!("{}/v1/context", other.url)).header("Retro-Tenant", "acme");
    assert_eq!(other.send(asked.json(&question)).await.0, StatusCode::FORBIDDEN);
    let asked = stranger.http.post(format!("{}/v1/context", stranger.url)).header("Retro-Tenant", "acme");
    assert_eq!(stranger.send(asked.json(&question)).await.0, StatusCode::UNAUTHORIZED);
    for (path, expected) in [("/livez", 200), ("/readyz", 200), ("/metrics", 401), ("/v1/runs", 401)] {
        assert_eq!(stranger.get(path).await.0, expected, "{path}");
    }
    let plain = configure_client().build().expect("a client");
    let plain = plain.get(format!("{}/livez", agent.url.replace("https", "http"))).send().await;
    assert!(plain.is_err(), "nothing is served without TLS: {plain:?}");

    let listed = world
        .wait_for("the use of the token is recorded", async || {
            assert_eq!(agent.post("/v1/context", &question).await.0, StatusCode::OK);
            let listed = world.run_json(&["--tenant", "acme", "tokens", "list"]).await;
            listed[1]["last_used_at"].is_string().then_some(listed)
        })
        .await;
    assert_eq!((json_items(&listed).len(), &listed[1]["name"]), (2, &json!("ci")), "{listed}");
    let revoke = ["--tenant", "acme", "tokens", "revoke", "ci", "--reason", "it was in a log", "--by", "ada"];
    assert_eq!(world.run_json(&revoke).await, json!(["ci"]));
    let revoked =
        async || (agent.post("/v1/context", &question).await.0 == StatusCode::UNAUTHORIZED).then_some(());
    world.wait_for("the revoked token is refused", revoked).await;
    let log = std::fs::read_to_string(world.path("retro.log")).expect("the log can be read");
    assert!(!log.contains(&token[30..]), "the log has a token");
    world.stop().await;
}

/// What people decide over HTTP is stored with the name that the request gives, which nobody verifies, and with the access
/// token that it had.
#[tokio::test]
async fn a_decision_names_the_token_with_which_it_was_made() {
    let mut world = World::empty();
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up_with_env(&[("RETRO_HTTP_REQUIRE_TOKENS", "true")]).await;
    let agent = create_token(&world, "acme", "agents", "emit,context").await;
    let token = create_token(&world, "acme", "ci-ops", "read,operate").await;
    world
        .emit_and_wait("acme", "runs.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    wait_for_lesson(&world).await;
    let acme = async |words: &[&str]| world.run_json(&[&["--tenant", "acme"], words].concat()).await;
    let id = json_text(&json_items(&acme(&["memories", "list"]).await)[0], "id").to_owned();
    let tokens = acme(&["tokens", "list"]).await;
    let id_of = |name: &str| {
        let token = json_items(&tokens).iter().find(|token| token["name"] == name).expect("the token");
        json_text(token, "id").to_owned()
    };
    let expected = json!({"id": id_of("ci-ops"), "name": "ci-ops"});

    let http = configure_client().build().expect("a client");
    let post = async |token: &str, path: &str, body: Value| {
        let request = http.post(format!("{}{path}", world.http_url())).bearer_auth(token).json(&body);
        let response = request.send().await.expect("the program answers");
        let status = response.status();
        let text = response.text().await.expect("text");
        assert!(status.is_success(), "{path}: {status} {text}");
    };
    let anna = json!({"by": "anna", "reason": "we looked at it"});
    post(&token, &format!("/v1/memories/{id}/pin"), anna.clone()).await;
    let switch = json!({"by": "anna", "reason": "an incident", "workflow": WORKFLOW, "state": "engaged"});
    post(&token, "/v1/kill-switches", switch).await;
    post(&token, "/v1/feedback", json!({"memory": id, "verdict": "helped", "by": "anna"})).await;
    let of_agent = json!({"memory": id, "verdict": "helped", "run": "next", "workflow": WORKFLOW});
    post(&agent, "/v1/feedback", of_agent).await;
    world.publish_event("acme", WORKFLOW, &json!("no event at all")).await;
    let letters = async || {
        let listed = acme(&["dead-letters", "list"]).await;
        json_items(&listed).first().map(|letter| json_text(letter, "id").to_owned())
    };
    let letter = world.wait_for("the dead letter is stored", letters).await;
    post(&token, &format!("/v1/dead-letters/{letter}/discard"), anna).await;

    let why = acme(&["memories", "why", &id]).await;
    let pinned = json_items(&why["history"]).iter().find(|entry| entry["change"] == "pinned");
    assert_eq!(pinned.expect("it was pinned")["with_token"], expected, "{why}");
    let said = |source: &str| {
        let rows = json_items(&why["feedback"]).iter();
        rows.clone().find(|row| row["source"] == source).unwrap_or_else(|| panic!("{source}: {why}")).clone()
    };
    assert_eq!(said("person")["with_token"], expected);
    assert_eq!(said("agent")["with_token"]["name"], "agents");
    let by = format!("anna, with token ci-ops (id {})", id_of("ci-ops"));
    let switches = acme(&["kill-switches", "list"]).await;
    assert_eq!(switches[0]["engaged"]["with_token"], expected, "{switches}");
    let text = async |words: &[&str]| world.run_retro(&[&["--tenant", "acme"], words].concat()).await.out;
    let shown = text(&["dead-letters", "show", &letter]).await;
    assert!(shown.contains(&format!("discarded by {by} at ")), "{shown}");
    assert!(text(&["memories", "why", &id]).await.contains("ci-ops"));
    // Over the command line there is no token; and nothing that is exported depends on one.
    acme(&["memories", "unpin", &id, "--by", "anna", "--reason", "done"]).await;
    let why = acme(&["memories", "why", &id]).await;
    let last = json_items(&why["history"]).last().expect("a change").clone();
    assert_eq!((&last["change"], last.get("with_token")), (&json!("unpinned"), None));
    let exported = text(&["export", "--canonical"]).await;
    assert!(exported.contains("anna") && !exported.contains("ci-ops"), "{exported}");
    let verified = acme(&["verify"]).await;
    assert!(verified["problems"].as_array().is_none_or(Vec::is_empty), "{verified}");
    world.stop().await;
}

/// `retro ready` and `retro doctor` ask the process over TLS, whatever names its certificate has.
#[tokio::test]
async fn a_process_that_speaks_tls_is_asked_if_it_is_ready() {
    let (mut world, certificate) = (World::empty(), Certificate::generate_for("retro.example"));
    let files = certificate.install(&world);
    world.up_at("127.0.0.1:0", &as_variables(&files)).await;
    let url = world.http_url().to_owned();
    let ask = async |command: &str, variables: &[(&str, &str)]| {
        let mut asked = world.command(&[command]);
        run_command(asked.envs(variables.iter().copied())).await
    };
    let ready = ask("ready", &as_variables(&files)).await;
    assert_eq!((ready.code, ready.out.trim()), (Some(0), &*format!("{url} is ready")), "{ready:?}");
    let doctor = ask("doctor", &as_variables(&files)).await;
    assert!(doctor.code == Some(0) && doctor.out.contains(&format!("is ready at {url}")), "{doctor:?}");
    assert!(doctor.out.contains("GitHub token  none: logs of failed CI runs are not read"), "{doctor:?}");
    // A configuration that does not know the certificate does not trust it.
    let unknown = ask("ready", &[]).await;
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(
        unknown.out.contains("its certificate is not trusted (`http_cert_file` is not set here"),
        "{unknown:?}"
    );
    let other = Certificate::generate_for("retro.example");
    let other = world.write_file("other.pem", &other.pem);
    let wrong = [("RETRO_HTTP_CERT_FILE", other.as_str()), ("RETRO_HTTP_KEY_FILE", files[1].1.as_str())];
    let unknown = ask("ready", &wrong).await;
    assert!(unknown.out.contains("it is not the one in") && unknown.out.contains("other.pem"), "{unknown:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let (mut world, first, second) = (World::empty(), Certificate::generate(), Certificate::generate());
    world.up_at("127.0.0.1:0", &as_variables(&first.install(&world))).await;
    assert_eq!(RemoteClient::new(&world, &first, None).get("/v1/memories").await.0, StatusCode::OK);
    second.install(&world);
    world
        .wait_for("the second certificate is served", async || {
            let client = RemoteClient::new(&world, &second, None);
            let answer = client.http.get(format!("{}/livez", client.url)).send().await;
            answer.is_ok().then_some(())
        })
        .await;
    world.stop().await;
}

/// Calls each operation of the API with a token of each scope. The description says which of them it is for.
#[tokio::test]
async fn every_operation_needs_the_scope_that_its_description_names() {
    const SCOPES: [&str; 4] = ["emit", "context", "read", "operate"];
    let mut world = World::empty();
    world
        .up_with_env(&[("RETRO_HTTP_REQUIRE_TOKENS", "true"), ("RETRO_TOKEN_REQUESTS_PER_S", "100000")])
        .await;
    let (http, mut tokens) = (configure_client().build().expect("a client"), Vec::new());
    for scope in SCOPES {
        tokens.push(create_token(&world, "default", scope, scope).await);
    }
    let document = world.run_json(&["openapi"]).await;
    let mut protected = 0;
    for (path, item) in document["paths"].as_object().expect("paths") {
        let called = path.replace("{id}", "00000000-0000-8000-8000-000000000000");
        let called = called.replace("{workflow}", "w").replace("{run}", "r");
        for (method, operation) in item.as_object().expect("operations") {
            let security = operation["security"].as_array().map(Vec::as_slice).unwrap_or_default();
            let needed: Vec<&str> = security
                .iter()
                .filter_map(|one| one["token"].as_array())
                .map(|scopes| scopes.first().and_then(Value::as_str).unwrap_or("any"))
                .collect();
            let call = async |token: Option<&String>| {
                let method = reqwest::Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                let request = http.request(method, format!("{}{called}", world.http_url()));
                let request = token.iter().fold(request, |request, token| request.bearer_auth(token));
                let response = request.json(&json!({})).send().await.expect("the program answers");
                response.status().as_u16()
            };
            let without = call(None).await;
            if needed.is_empty() {
                assert!(
                    ["/livez", "/readyz", "/v1/openapi.json"].contains(&path.as_str()),
                    "{method} {path}"
                );
                assert_eq!(without, 200, "{method} {path}");
                continue;
            }
            protected += 1;
            assert_eq!(without, 401, "{method} {path} without a token");
            for (scope, token) in SCOPES.iter().zip(&tokens) {
                let is_allowed = needed.contains(scope)
                    || needed.contains(&"any")
                    || (*scope == "operate" && needed.contains(&"read"));
                let status = call(Some(token)).await;
                assert!(
                    status != 401 && (status != 403) == is_allowed,
                    "{method} {path} with {scope}: {status}"
                );
            }
        }
    }
    assert!(protected > 40, "only {protected} operations need a token");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_would_show_tokens_to_others_does_not_start() {
    let world = World::empty();
    let (one, two) = (Certificate::generate(), Certificate::generate());
    let (certificate, key) =
        (world.write_file("one.pem", &one.pem), world.write_file("two.key", &two.key_pem));
    let start = async |listen: &str, variables: &[(&str, &str)]| {
        let mut command = world.command(&["up", "--http-listen", listen]);
        let output = run_command(command.envs(variables.iter().copied())).await;
        assert_eq!(output.code, Some(1), "{output:?}");
        output.err
    };
    let said = start("0.0.0.0:0", &[]).await;
    assert!(said.contains("http_listen is 0.0.0.0:0") && said.contains("`http_cert_file`"), "{said}");
    let pair = [("RETRO_HTTP_CERT_FILE", certificate.as_str()), ("RETRO_HTTP_KEY_FILE", key.as_str())];
    let said = start("0.0.0.0:0", &pair).await;
    assert!(said.contains("two.key: is not the key of") && said.contains("one.pem"), "{said}");
    assert!(!world.data_dir().join("instance.json").exists());
}

#[tokio::test]
async fn the_clients_in_single_files_send_their_token() {
    let mut world = World::empty();
    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.up_with_env(&[("RETRO_HTTP_REQUIRE_TOKENS", "true")]).await;
    let token = create_token(&world, "acme", "ci", "emit,context").await;
    let (token_file, url) = (world.write_file("token", format!("{token}\n")), world.http_url().to_owned());
    let installed = project_path(".tools/bin/node");
    let node = if Path::new(&installed).exists() { installed } else { "node".to_owned() };
    let node = std::env::var("RETRO_NODE").unwrap_or(node);
    let run = async |program: &str, client: &str, variable: (&str, &str), words: &[&str]| {
        let mut command = Command::new(program);
        command.arg(project_path(client)).args(["--url", &url, "--timeout", "10", "--spool"]);
        command.arg(world.path("spool")).args(words).env(variable.0, variable.1);
        run_command(&mut command).await
    };
    let runs = build_correcting_runs(WORKFLOW, "deploy_service", 0..10);
    let files: Vec<String> = runs
        .iter()
        .enumerate()
        .map(|(nth, run)| world.write_file(&format!("{nth}.json"), run.to_string()))
        .collect();
    let send = |files: &[String]| [&["send".to_owned()][..], files].concat();
    let words = |words: &[String]| words.to_vec();
    let (first, rest) = files.split_at(5);
    let python = ("python3", "clients/python/retrospect.py");
    let typescript = (node.as_str(), "clients/typescript/retrospect.ts");
    // With a token that is not accepted, a run waits in the spool.
    let sent = words(&send(&first[..1]));
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    for (nth, (program, client)) in [python, typescript].into_iter().enumerate() {
        let kept = run(program, client, ("RETRO_TOKEN", "retro_wrong"), &sent).await;
        assert_eq!(kept.code, Some(1), "{kept:?}");
        let spool = std::fs::read_dir(world.path("spool")).expect("the spool");
        let waiting = spool.filter(|file| {
            file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|kind| kind == "json"))
        });
        // Each writes the event in its own way.
        assert_eq!(waiting.count(), nth + 1, "{kept:?}");
    }
    for ((program, client), files) in [(python, first), (typescript, rest)] {
        let sent = words(&send(files));
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        let sent = run(program, client, ("RETRO_TOKEN_FILE", &token_file), &sent).await;
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    wait_for_lesson(&world).await;
    for (program, client) in [python, typescript] {
        let ask = ["context", "--workflow", WORKFLOW, "--step", "deploy"];
        let asked = run(program, client, ("RETRO_TOKEN", &token), &ask).await;
        assert!(asked.code == Some(0) && asked.out.contains("deploy_service"), "{asked:?}");
        let asked = run(program, client, ("RETRO_TENANT", "acme"), &ask).await;
        assert!(asked.code == Some(0) && asked.out.is_empty(), "{asked:?}");
    }
    world.stop().await;
}
