//! A `retro up` of a test's own: its folder, its ports, its commands. When the test ends, nothing of it runs on.

mod asked;
mod awaited;
mod cut;
mod fleet;
mod github;
mod held;
mod line;
pub(crate) mod process;
mod runs;
mod spoken;
mod supervised;
mod waiting;
mod wire;
mod witness;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use retro_store::Store;
use retro_store_postgres::PostgresStore;
use retro_store_sqlite::SqliteStore;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub(crate) use asked::Posted;
pub(crate) use cut::{Cut, Loses};
pub(crate) use fleet::{Fleet, Kind};
pub(crate) use github::{BRIDGED, SECRET, Webhook, real};
pub(crate) use line::Line;
pub(crate) use process::Nats;
pub(crate) use retro_testkit::{TEST_TIMEOUT, free_port};
pub(crate) use runs::{Run, event, mending};
pub(crate) use supervised::{Supervised, causes};
pub(crate) use wire::{Sent, Wire};
pub(crate) use witness::Witness;

/// The built program.
pub(crate) const RETRO: &str = env!("CARGO_BIN_EXE_retro");
/// What an environment could bring in from outside.
const VARIABLES: [&str; 18] = [
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

/// How a process of a story is impatient, and how it is not: looks come quickly, and a lease outlives whatever keeps a busy
/// machine from renewing it. Stories in which somebody dies or stands still with a lease say how long it is.
const QUICK: [(&str, &str); 3] = [("RETRO_SWEEP_MS", "200"), ("RETRO_LEASE_S", "60"), ("NO_COLOR", "1")];
/// A fifth of a second is enough for an agent, and not for a machine that runs every story at once.
const ANSWERS_WITHIN: (&str, &str) = ("RETRO_CONTEXT_TIMEOUT_MS", "60000");

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// Its data.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }
}

/// A folder, and the `retro up` that runs in it.
pub(crate) struct World {
    // Dropped before the folder that it writes into.
    up: Option<Up>,
    nats_port: u16,
    /// The broker that it was given, if it supervises none.
    nats_url: Option<String>,
    /// The database that it was given, if it is not the file in its folder.
    database_url: Option<String>,
    /// The HTTP side, if it is another process's.
    http_url: Option<String>,
    /// Where webhooks are taken, if it is another process's.
    bridge_url: Option<String>,
    http: reqwest::Client,
    folder: TempDir,
}

struct Up {
    process: Child,
    /// Its broker, if it supervises one.
    nats: Option<Nats>,
    nats_url: String,
    http_url: String,
}

impl Up {
    fn is_without_broker(&self) -> bool {
        self.nats.is_none_or(Nats::is_gone)
    }
}

impl World {
    /// A folder in which nothing runs yet.
    pub(crate) fn empty() -> Self {
        let http = reqwest::Client::builder().timeout(TEST_TIMEOUT).build().expect("a client without TLS");
        let folder = TempDir::new().expect("a temporary folder can be made");
        let (nats_url, database_url, http_url, bridge_url) = (None, None, None, None);
        Self { up: None, nats_port: free_port(), nats_url, database_url, http_url, bridge_url, http, folder }
    }

    /// A running program.
    pub(crate) async fn start() -> Self {
        let mut world = Self::empty();
        world.up().await;
        world
    }

    /// Starts the program in this folder and waits until it can be reached.
    pub(crate) async fn up(&mut self) {
        self.up_with(&[]).await;
    }

    /// The same with more in its environment.
    pub(crate) async fn up_with(&mut self, variables: &[(&str, &str)]) {
        let up = self.command(&["up", "--nats-port", &self.nats_port.to_string()]);
        self.start_up(up, variables).await;
        let pid = self.pid();
        let nats = self.until("its broker is there", async || Nats::of(pid)).await;
        self.up.as_mut().expect("it runs").nats = Some(nats);
    }

    /// Starts the program over a broker of somebody else's.
    pub(crate) async fn up_on(&mut self, nats_url: &str) {
        self.up_on_with(nats_url, &[]).await;
    }

    /// The same with more in its environment.
    pub(crate) async fn up_on_with(&mut self, nats_url: &str, variables: &[(&str, &str)]) {
        self.nats_url = Some(nats_url.to_owned());
        let up = self.command(&["up"]);
        self.start_up(up, variables).await;
    }

    fn spawn(&self, up: &mut Command, variables: &[(&str, &str)]) -> Child {
        assert!(self.up.is_none(), "it runs already");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("retro.log"));
        up.envs(QUICK)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(log.expect("the log can be written"))
            .spawn()
            .expect("the program starts")
    }

    async fn start_up(&mut self, mut up: Command, variables: &[(&str, &str)]) {
        let mut process = self.spawn(up.args(["--http-listen", "127.0.0.1:0"]), variables);
        let instance = self.instance_of(&mut process).await;
        let url = |key: &str| instance[key].as_str().expect("an address").to_owned();
        self.up = Some(Up { process, nats: None, nats_url: url("nats_url"), http_url: url("http_url") });
    }

    /// Waits until a process says where it is.
    async fn instance_of(&self, process: &mut Child) -> Value {
        let pid = process.id().expect("it was not waited for");
        self.until("`retro up` says where it is", async || {
            if let Some(status) = process.try_wait().expect("our own child") {
                panic!("`retro up` ended with {status}:\n{}", self.log());
            }
            let text = std::fs::read_to_string(self.data().join("instance.json")).ok()?;
            serde_json::from_str::<Value>(&text).ok().filter(|instance| instance["pid"] == pid)
        })
        .await
    }

    /// Ends the program by SIGKILL and waits until its broker is gone too.
    pub(crate) async fn kill(&mut self) {
        let mut up = self.up.take().expect("it runs");
        up.process.start_kill().expect("our own child");
        up.process.wait().await.expect("our own child");
        self.until("the broker of the killed program is gone", async || up.is_without_broker().then_some(()))
            .await;
    }

    /// Waits until the program has ended by itself, as a test asked it to, and its broker with it.
    pub(crate) async fn crashed(&mut self) {
        let mut up = self.up.take().expect("it runs");
        let ended = tokio::time::timeout(TEST_TIMEOUT, up.process.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("`retro up` does not crash:\n{}", self.log()));
        assert!(!status.expect("our own child").success(), "it ended in order");
        self.until("the broker of the crashed program is gone", async || {
            up.is_without_broker().then_some(())
        })
        .await;
    }

    /// Waits until the program has died of a SIGKILL that is not ours.
    pub(crate) async fn died(&mut self, of: &str) {
        let mut up = self.up.take().expect("it runs");
        let status = tokio::time::timeout(TEST_TIMEOUT, up.process.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("it does not die at {of}:\n{}", self.log()));
        let signal = status.expect("our own child").signal();
        assert_eq!(signal, Some(9), "it ended otherwise at {of}:\n{}", self.log());
    }

    /// Ends the program in order: status 0, and its broker is gone.
    pub(crate) async fn stop(&mut self) {
        let mut up = self.up.take().expect("it runs");
        process::terminate(up.process.id().expect("it was not waited for"));
        let status = tokio::time::timeout(TEST_TIMEOUT, up.process.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("`retro up` does not stop:\n{}", self.log()));
        let status = status.expect("our own child");
        assert!(status.success(), "`retro up` ended with {status}:\n{}", self.log());
        assert!(up.is_without_broker(), "`retro up` has ended and its broker runs on");
        assert!(!self.data().join("instance.json").exists(), "it says where it is, and is not there");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running().process.id().expect("it was not waited for")
    }

    /// The broker that the program supervises at this moment.
    pub(crate) fn broker(&self) -> Option<Nats> {
        Nats::of(self.pid())
    }

    pub(crate) fn http_url(&self) -> &str {
        self.http_url.as_deref().unwrap_or_else(|| &self.running().http_url)
    }

    pub(crate) fn nats_url(&self) -> &str {
        self.nats_url.as_deref().unwrap_or_else(|| &self.running().nats_url)
    }

    fn running(&self) -> &Up {
        self.up.as_ref().expect("it runs")
    }

    /// A file beside the data.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder given as `--data-dir`.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes a file beside the data and returns its path as an argument. It is there as a whole or not at all: the program
    /// may read it at any moment.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let (path, unfinished) = (self.path(name), self.path("unfinished"));
        std::fs::write(&unfinished, content).expect("the folder can be written");
        std::fs::rename(&unfinished, &path).expect("the folder can be written");
        as_argument(&path)
    }

    /// Writes the policy that the program and its commands live under; returns the file's path.
    pub(crate) fn write_policy(&self, text: &str) -> String {
        std::fs::create_dir_all(self.pipelines().join("retrospective")).expect("the folder can be written");
        self.write("pipelines/retrospective/pipeline.toml", text)
    }

    fn pipelines(&self) -> PathBuf {
        self.path("pipelines")
    }

    /// Writes events, one a line.
    pub(crate) fn write_events<'a>(&self, name: &str, events: impl IntoIterator<Item = &'a Value>) -> String {
        self.write(name, events.into_iter().map(|event| format!("{event}\n")).collect::<String>())
    }

    /// A command of the program on this folder, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(RETRO);
        command.args(arguments).arg("--data-dir").arg(self.data()).stdin(Stdio::null()).kill_on_drop(true);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        command.envs([ANSWERS_WITHIN]);
        if self.pipelines().exists() {
            command.env("RETRO_PIPELINES", self.pipelines());
        }
        let given = [("NATS_URL", &self.nats_url), ("DATABASE_URL", &self.database_url)];
        command.envs(given.into_iter().filter_map(|(name, url)| Some((name, url.as_ref()?))));
        command
    }

    /// Carries out a command, whatever comes of it.
    pub(crate) async fn retro(&self, arguments: &[&str]) -> Answer {
        carry_out(&mut self.command(arguments)).await
    }

    /// Carries out a command that has to succeed, and reads its JSON.
    pub(crate) async fn ask(&self, arguments: &[&str]) -> Value {
        let answer = self.retro(&[arguments, &["-o", "json"]].concat()).await;
        assert_eq!(answer.code, Some(0), "`retro {}`: {answer:?}\n{}", arguments.join(" "), self.log());
        answer.json()
    }

    /// Emits every event and waits until the program has nothing left to do.
    pub(crate) async fn emit(&self, tenant: &str, name: &str, events: &[Value]) {
        let file = self.write_events(name, events);
        let pace = events.len().to_string();
        let sent = self.ask(&["--tenant", tenant, "emit", &file, "--pace", &pace]).await;
        assert_eq!(sent["sent"], events.len());
        self.still().await;
    }

    /// The address of the database as the checker takes it.
    pub(crate) fn database_address(&self) -> String {
        let file = || format!("sqlite:{}", as_argument(&self.data().join("retro.db")));
        self.database_url.clone().unwrap_or_else(file)
    }

    /// The database, beside the program.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        match &self.database_url {
            Some(url) => Arc::new(PostgresStore::open(url).await.expect("the database is there")),
            None => {
                let file = self.data().join("retro.db");
                Arc::new(SqliteStore::open(&file).await.expect("the database is there"))
            }
        }
    }

    /// `retro verify` says that everything is in order; returns how much it looked at.
    pub(crate) async fn sound(&self) -> Value {
        let answer = self.retro(&["verify", "-o", "json"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}\n{}", self.log());
        answer.json()["checked"].take()
    }

    /// What `retro export --canonical` prints for the default tenant.
    pub(crate) async fn export(&self) -> String {
        let answer = self.retro(&["export", "--canonical"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.out
    }
}

/// Runs a command to its end.
pub(crate) async fn carry_out(command: &mut Command) -> Answer {
    let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("a command ends");
    let output = output.expect("a command starts");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A path as an argument.
pub(crate) fn as_argument(path: &Path) -> String {
    path.to_str().expect("a path of UTF-8").to_owned()
}

/// A file of the project.
pub(crate) fn project(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    as_argument(&root.join(path))
}

/// The real runs of the demo, a workflow a file.
pub(crate) fn airline() -> String {
    project("crates/xtask/fixtures/demo/airline-customer-service.jsonl.zst")
}

/// The other real runs of the demo.
pub(crate) fn intercode() -> String {
    project("crates/xtask/fixtures/demo/intercode-sql.jsonl.zst")
}

/// The items of a JSON array.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("not a list: {value}"))
}

/// A string in a JSON value.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text `{key}`: {value}"))
}
