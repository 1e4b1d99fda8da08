//! A `retro up` that belongs to one test, with its folder, ports and commands. All of its processes end with
//! the test.

mod fleet;
mod freezable_proxy;
mod github;
mod lossy_proxy;
mod observer;
mod pending_start;
pub(crate) mod process;
mod publishing;
mod quarantine;
mod requests;
mod run_builder;
mod stalled;
mod supervised;
mod test_disk;
mod wait;
mod wire;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use retro_eval::http_client::configure_client;
use retro_store::Store;
use retro_store_sql::{PostgresStore, SqliteStore};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub(crate) use fleet::{DatabaseKind, Fleet};
pub(crate) use freezable_proxy::FreezableProxy;
pub(crate) use github::{BRIDGE_ENV, WEBHOOK_SECRET, Webhook, load_payload};
pub(crate) use lossy_proxy::{DropKind, LossyProxy};
pub(crate) use observer::Observer;
pub(crate) use process::BrokerProcess;
pub(crate) use quarantine::hold_memory;
pub(crate) use requests::EventsResponse;
pub(crate) use retro_testkit::{TEST_TIMEOUT, free_port};
pub(crate) use run_builder::{RunBuilder, build_correcting_runs, build_event};
pub(crate) use supervised::{SupervisedProcess, exit_causes};
pub(crate) use test_disk::{TestDisk, run_checked};
pub(crate) use wire::{NatsConnection, RawMessage};

/// Path of the built program.
pub(crate) const RETRO: &str = env!("CARGO_BIN_EXE_retro");
/// Variables that may be set in the environment of the test run and would change the program.
const CLEARED_VARIABLES: [&str; 18] = [
    "DATABASE_URL",
    "NATS_URL",
    "RETRO_CONFIG",
    "RETRO_TENANT",
    "RETRO_DATA_DIR",
    "RETRO_HTTP_LISTEN",
    "RETRO_CONTEXT_TIMEOUT_MS",
    "RETRO_PIPELINES",
    "RETRO_BRIDGE_LISTEN",
    "RETRO_GITHUB_SECRET",
    "RETRO_GITHUB_TENANTS",
    "RETRO_LOG",
    "RETRO_DATABASE_URL",
    "RUST_LOG",
    "RETRO_NATS_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "RETRO_OTLP_ENDPOINT",
    "TRACEPARENT",
];

/// Frequent sweeps keep tests fast, and a busy machine must not miss the renewal of the lease. Tests in which
/// the owner of a lease dies or hangs set a shorter lease.
const FAST_ENV: [(&str, &str); 3] =
    [("RETRO_SWEEP_INTERVAL_MS", "200"), ("RETRO_LEASE_S", "60"), ("NO_COLOR", "1")];
/// A minute instead of the default 200 ms for a context, because machines that run all tests at once are
/// slow.
const LONG_CONTEXT_TIMEOUT: (&str, &str) = ("RETRO_CONTEXT_TIMEOUT_MS", "60000");

/// Stories run side by side on disks of any size, and the broker reserves the space of its streams.
const SMALL_STREAMS: (&str, &str) = ("RETRO_STREAMS_MIB", "608");

/// Exit code and output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Parses stdout as JSON.
    pub(crate) fn parse_json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

/// A folder and the `retro up` that runs in it.
pub(crate) struct World {
    // Dropped before the folder into which it writes.
    up: Option<UpProcess>,
    nats_port: u16,
    /// URL of an external broker; `None` if the program supervises its own.
    nats_url: Option<String>,
    /// URL of an external database; `None` if it is the file in the folder.
    database_url: Option<String>,
    /// URL of the HTTP API, if a separate gateway serves it.
    http_url: Option<String>,
    /// URL for webhooks, if a separate bridge serves it.
    bridge_url: Option<String>,
    http: reqwest::Client,
    folder: TempDir,
}

struct UpProcess {
    process: Child,
    /// Supervised broker, if there is one.
    nats: Option<BrokerProcess>,
    nats_url: String,
    http_url: String,
}

impl UpProcess {
    fn is_without_broker(&self) -> bool {
        self.nats.is_none_or(BrokerProcess::is_gone)
    }
}

impl World {
    /// Returns a world with an empty folder, in which nothing runs.
    pub(crate) fn empty() -> Self {
        let http = configure_client().timeout(TEST_TIMEOUT).build().expect("a client for plain HTTP");
        let folder = TempDir::new().expect("a temporary folder can be made");
        let (nats_url, database_url, http_url, bridge_url) = (None, None, None, None);
        Self { up: None, nats_port: free_port(), nats_url, database_url, http_url, bridge_url, http, folder }
    }

    /// Starts `retro up` in a new folder.
    pub(crate) async fn start() -> Self {
        let mut world = Self::empty();
        world.up().await;
        world
    }

    /// Starts `retro up` in this folder and waits until it can be reached.
    pub(crate) async fn up(&mut self) {
        self.up_with_env(&[]).await;
    }

    /// Starts `retro up` with additional environment variables and waits until it can be reached.
    pub(crate) async fn up_with_env(&mut self, variables: &[(&str, &str)]) {
        self.up_at("127.0.0.1:0", variables).await;
    }

    /// Starts `retro up` on this address and waits until it can be reached.
    pub(crate) async fn up_at(&mut self, http_listen: &str, variables: &[(&str, &str)]) {
        let up = self.command(&["up", "--nats-port", &self.nats_port.to_string()]);
        self.start_and_wait(up, http_listen, variables).await;
        let pid = self.pid();
        let nats = self.wait_for("the broker is running", async || BrokerProcess::find_child(pid)).await;
        self.up.as_mut().expect("a running process").nats = Some(nats);
    }

    /// Starts `retro up` over an external broker.
    pub(crate) async fn up_with_broker(&mut self, nats_url: &str) {
        self.up_with_broker_and_env(nats_url, &[]).await;
    }

    /// Starts `retro up` over an external broker, with additional environment variables.
    pub(crate) async fn up_with_broker_and_env(&mut self, nats_url: &str, variables: &[(&str, &str)]) {
        self.nats_url = Some(nats_url.to_owned());
        let up = self.command(&["up"]);
        self.start_and_wait(up, "127.0.0.1:0", variables).await;
    }

    fn spawn_up(&self, up: &mut Command, variables: &[(&str, &str)]) -> Child {
        assert!(self.up.is_none(), "the program is already running");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("retro.log"));
        up.envs(FAST_ENV)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(log.expect("the log can be written"))
            .spawn()
            .expect("the program starts")
    }

    async fn start_and_wait(&mut self, mut up: Command, http_listen: &str, variables: &[(&str, &str)]) {
        let mut process = self.spawn_up(up.args(["--http-listen", http_listen]), variables);
        let instance = self.wait_for_instance(&mut process).await;
        let url = |key: &str| instance[key].as_str().expect("an address").to_owned();
        self.up =
            Some(UpProcess { process, nats: None, nats_url: url("nats_url"), http_url: url("http_url") });
    }

    /// Waits until a process has written its `instance.json`.
    async fn wait_for_instance(&self, process: &mut Child) -> Value {
        let pid = process.id().expect("the process was not reaped");
        self.wait_for("`retro up` has written its instance.json", async || {
            if let Some(status) = process.try_wait().expect("our own child") {
                panic!("`retro up` ended with {status}:\n{}", self.log_tail());
            }
            let text = std::fs::read_to_string(self.data_dir().join("instance.json")).ok()?;
            serde_json::from_str::<Value>(&text).ok().filter(|instance| instance["pid"] == pid)
        })
        .await
    }

    /// Kills the program with SIGKILL and waits until its broker is gone as well.
    pub(crate) async fn kill(&mut self) {
        let mut up = self.up.take().expect("a running process");
        up.process.start_kill().expect("our own child");
        up.process.wait().await.expect("our own child");
        self.wait_for("the broker of the killed program is gone", async || {
            up.is_without_broker().then_some(())
        })
        .await;
    }

    /// Waits until the program has crashed at an injected fault and its broker has ended with it.
    pub(crate) async fn wait_for_crash(&mut self) {
        let mut up = self.up.take().expect("a running process");
        let ended = tokio::time::timeout(TEST_TIMEOUT, up.process.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("`retro up` does not crash:\n{}", self.log_tail()));
        assert!(!status.expect("our own child").success(), "the program ended without a crash");
        self.wait_for("the broker of the crashed program is gone", async || {
            up.is_without_broker().then_some(())
        })
        .await;
    }

    /// Waits until the program has died of a SIGKILL that the test did not send.
    pub(crate) async fn wait_for_kill(&mut self, of: &str) {
        let mut up = self.up.take().expect("a running process");
        let status = tokio::time::timeout(TEST_TIMEOUT, up.process.wait()).await;
        let status =
            status.unwrap_or_else(|_| panic!("the program does not die at {of}:\n{}", self.log_tail()));
        let signal = status.expect("our own child").signal();
        assert_eq!(signal, Some(9), "the program was not killed at {of}:\n{}", self.log_tail());
    }

    /// Stops the program gracefully, and asserts exit code 0 and that its broker is gone.
    pub(crate) async fn stop(&mut self) {
        let mut up = self.up.take().expect("a running process");
        process::terminate(up.process.id().expect("the process was not reaped"));
        let status = tokio::time::timeout(TEST_TIMEOUT, up.process.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("`retro up` does not stop:\n{}", self.log_tail()));
        let status = status.expect("our own child");
        assert!(status.success(), "`retro up` ended with {status}:\n{}", self.log_tail());
        assert!(up.is_without_broker(), "`retro up` has ended and its broker runs on");
        assert!(
            !self.data_dir().join("instance.json").exists(),
            "instance.json remains after the program has ended"
        );
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running_process().process.id().expect("the process was not reaped")
    }

    /// Returns the broker that the program currently supervises.
    pub(crate) fn find_broker(&self) -> Option<BrokerProcess> {
        BrokerProcess::find_child(self.pid())
    }

    pub(crate) fn http_url(&self) -> &str {
        self.http_url.as_deref().unwrap_or_else(|| &self.running_process().http_url)
    }

    pub(crate) fn nats_url(&self) -> &str {
        self.nats_url.as_deref().unwrap_or_else(|| &self.running_process().nats_url)
    }

    fn running_process(&self) -> &UpProcess {
        self.up.as_ref().expect("a running process")
    }

    /// Returns the path of a file next to the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the data folder, passed as `--data-dir`.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes a file next to the data folder and returns its path as an argument. The file is renamed into
    /// place, because the program may read it at any moment.
    pub(crate) fn write_file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let (path, unfinished) = (self.path(name), self.path("unfinished"));
        std::fs::write(&unfinished, content).expect("the folder can be written");
        std::fs::rename(&unfinished, &path).expect("the folder can be written");
        to_argument(&path)
    }

    /// Writes the policy of the program and its commands and returns the path of the file.
    pub(crate) fn write_policy(&self, text: &str) -> String {
        std::fs::create_dir_all(self.pipelines_dir().join("retrospective"))
            .expect("the folder can be written");
        self.write_file("pipelines/retrospective/pipeline.toml", text)
    }

    /// Writes the settings of the review pipeline, beside a policy.
    pub(crate) fn write_review_settings(&self, text: &str) -> String {
        std::fs::create_dir_all(self.pipelines_dir().join("review")).expect("the folder can be written");
        self.write_file("pipelines/review/pipeline.toml", text)
    }

    fn pipelines_dir(&self) -> PathBuf {
        self.path("pipelines")
    }

    /// Writes events, one per line, and returns the path of the file.
    pub(crate) fn write_events<'a>(&self, name: &str, events: impl IntoIterator<Item = &'a Value>) -> String {
        self.write_file(name, events.into_iter().map(|event| format!("{event}\n")).collect::<String>())
    }

    /// Returns a command of the program on this folder, without starting it.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(RETRO);
        command
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data_dir())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        for variable in CLEARED_VARIABLES {
            command.env_remove(variable);
        }
        command.envs([LONG_CONTEXT_TIMEOUT, SMALL_STREAMS]);
        if self.pipelines_dir().exists() {
            command.env("RETRO_PIPELINES", self.pipelines_dir());
        }
        // It tries to listen, and another program may have the default port.
        if arguments.contains(&"doctor") {
            command.env("RETRO_HTTP_LISTEN", "127.0.0.1:0");
        }
        let given = [("NATS_URL", &self.nats_url), ("DATABASE_URL", &self.database_url)];
        command.envs(given.into_iter().filter_map(|(name, url)| Some((name, url.as_ref()?))));
        command
    }

    /// Runs a command and returns its output, whatever the exit code.
    pub(crate) async fn run_retro(&self, arguments: &[&str]) -> CommandOutput {
        run_command(&mut self.command(arguments)).await
    }

    /// Runs a command that must succeed and returns its JSON output.
    pub(crate) async fn run_json(&self, arguments: &[&str]) -> Value {
        let answer = self.run_retro(&[arguments, &["-o", "json"]].concat()).await;
        assert_eq!(answer.code, Some(0), "`retro {}`: {answer:?}\n{}", arguments.join(" "), self.log_tail());
        answer.parse_json()
    }

    /// Emits all events and waits until the program is idle.
    pub(crate) async fn emit_and_wait(&self, tenant: &str, name: &str, events: &[Value]) {
        let file = self.write_events(name, events);
        let pace = events.len().to_string();
        let sent = self.run_json(&["--tenant", tenant, "emit", &file, "--pause-every", &pace]).await;
        assert_eq!(sent["sent"], events.len());
        self.wait_until_idle().await;
    }

    /// Returns the address of the database in the checker's format.
    pub(crate) fn database_address(&self) -> String {
        let file = || format!("sqlite:{}", to_argument(&self.data_dir().join("retro.db")));
        self.database_url.clone().unwrap_or_else(file)
    }

    /// Opens the database without the program.
    pub(crate) async fn open_store(&self) -> Arc<dyn Store> {
        match &self.database_url {
            Some(url) => Arc::new(PostgresStore::open(url).await.expect("the database exists")),
            None => {
                let file = self.data_dir().join("retro.db");
                Arc::new(SqliteStore::open(&file).await.expect("the database exists"))
            }
        }
    }

    /// Asserts that `retro verify` succeeds and returns the numbers of what it checked.
    pub(crate) async fn verify_store(&self) -> Value {
        let answer = self.run_retro(&["verify", "-o", "json"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}\n{}", self.log_tail());
        answer.parse_json()["checked"].take()
    }

    /// Returns the output of `retro export --canonical` for the default tenant.
    pub(crate) async fn export_canonical(&self) -> String {
        let answer = self.run_retro(&["export", "--canonical"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.out
    }
}

/// Runs a command to its end and returns its output.
pub(crate) async fn run_command(command: &mut Command) -> CommandOutput {
    let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("a command ends");
    let output = output.expect("a command starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8 output");
    CommandOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Returns a path as a command argument.
pub(crate) fn to_argument(path: &Path) -> String {
    path.to_str().expect("a path of UTF-8").to_owned()
}

/// Returns the path of a file in the repository.
pub(crate) fn project_path(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    to_argument(&root.join(path))
}

/// Returns the path of the demo's real runs of an airline agent.
pub(crate) fn airline_fixture() -> String {
    project_path("crates/tools/xtask/fixtures/demo/airline-customer-service.jsonl.zst")
}

/// Returns the path of the demo's real runs of an SQL agent.
pub(crate) fn intercode_fixture() -> String {
    project_path("crates/tools/xtask/fixtures/demo/intercode-sql.jsonl.zst")
}

/// Returns the items of a JSON array.
pub(crate) fn json_items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("not a list: {value}"))
}

/// Returns a string field of a JSON object.
pub(crate) fn json_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}`: {value}"))
}
