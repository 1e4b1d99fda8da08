//! The keys of the program's configuration.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use retro_core::id::Tenant;
use retro_events::github::tenants::{EntryError, GithubTenants};
use retro_events::hosts::{DatarefHosts, HostError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::embedder::{self, Embedder};
use crate::layers::{self, Loaded};
use crate::problem::Problems;
use crate::secret::Secret;

/// What a process is started with: addresses, folders, bounds and secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder of the SQLite database, the supervised broker's store and `instance.json`.
    pub data_dir: PathBuf,
    /// Address of the HTTP side. Loopback only.
    #[schemars(example = "127.0.0.1:7717")]
    pub http_listen: SocketAddr,
    /// Address that serves `/livez`, `/readyz` and `/metrics` and nothing else, for whoever runs a fleet; it may be one that other
    /// machines reach, and port 0 takes a free one. Without it only the gateway's HTTP side tells.
    #[schemars(example = "0.0.0.0:7718")]
    pub health_listen: Option<SocketAddr>,
    /// Address of the bridge, which takes GitHub's webhooks at `/github/webhook` and nothing else. Each is signed, so it may be an
    /// address that other machines reach; TLS is somebody's in front of it. Port 0 takes a free one.
    #[schemars(example = "0.0.0.0:7719")]
    pub bridge_listen: SocketAddr,
    /// The secret of GitHub's webhooks, at least 8 bytes; while it is changed several, one a line. Without one there is no
    /// bridge, unless a tenant has one of its own. Whoever knows it may say anything of every repository that `github_tenants` names.
    #[schemars(example = "a long random text")]
    pub github_secret: Option<Secret>,
    /// A file that holds `github_secret`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_secret")]
    pub github_secret_file: Option<PathBuf>,
    /// Secrets that speak for one tenant alone, one a line: `tenant = secret`, of at least 8 bytes, and several of a tenant while one is
    /// changed. Whoever knows one may say anything of that tenant's repositories and nothing of another's, so that teams who set up
    /// their hooks themselves need no bridge each.
    #[schemars(example = "acme = a long random text")]
    pub github_tenant_secrets: Option<Secret>,
    /// A file that holds `github_tenant_secrets`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_tenant_secrets")]
    pub github_tenant_secrets_file: Option<PathBuf>,
    /// Whose a repository is, entries separated by commas or lines: `owner/name = tenant`, `owner/* = tenant`, with the host
    /// before it for an Enterprise host, the number of a GitHub App's installation, or `* = tenant` for everything else. The most
    /// precise holds. What belongs to nobody is left alone.
    #[schemars(example = "acme/shop = shop, acme/* = acme, 4242 = acme")]
    pub github_tenants: String,
    /// A Postgres database to use instead of SQLite under `data_dir`. `DATABASE_URL` in the environment means the same.
    #[schemars(example = "postgres://retro@127.0.0.1:5432/retro")]
    pub database_url: Option<Secret>,
    /// A file that holds `database_url`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_database_url")]
    pub database_url_file: Option<PathBuf>,
    /// A NATS server to use instead of supervising one, or several separated by commas. `NATS_URL` in the environment
    /// means the same.
    #[schemars(example = "nats://127.0.0.1:4222")]
    pub nats_url: Option<Secret>,
    /// A file that holds `nats_url`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_nats_url")]
    pub nats_url_file: Option<PathBuf>,
    /// The nats-server to supervise; without it PATH and the project's tools folder are searched.
    #[schemars(example = "/usr/local/bin/nats-server")]
    pub nats_server: Option<PathBuf>,
    /// Port of the supervised nats-server; 0 for a free one.
    #[schemars(range(min = 0, max = 65535))]
    pub nats_port: u16,
    /// Folder of the pipelines, with `retrospective/pipeline.toml`; without it the built-in policy holds.
    #[schemars(example = "/etc/retro/pipelines")]
    pub pipelines: Option<PathBuf>,
    /// A directory of weights in the form of Model2Vec (`config.json`, `tokenizer.json`, `model.safetensors`) by which lessons are
    /// compared, instead of the built-in embedder; read at the start and never fetched. Its scale lies beside them as
    /// `retrospect.json`, or is `embedder_scale`.
    #[schemars(example = "/var/lib/retro/potion-base-8M")]
    pub embedder_dir: Option<PathBuf>,
    /// The base address of an OpenAI-compatible API whose `/embeddings` compares lessons instead of the built-in embedder. It sees the
    /// titles of memories and findings, and what reviews ask for. While it is away they are compared by the built-in one; after three failures in a row it is
    /// left alone for 5 s, and longer while it stays away, up to 5 minutes.
    #[schemars(example = "https://api.openai.com/v1")]
    pub embedder_url: Option<String>,
    /// The model that it is asked for; another model is another embedder, whose vectors are made anew in the background.
    #[schemars(example = "text-embedding-3-small")]
    pub embedder_model: Option<String>,
    /// Components of its vectors; 0: not said. An answer with others is refused.
    #[schemars(range(min = 0, max = 4096))]
    pub embedder_dimensions: u32,
    /// What the embedder's cosines mean: those from which two lessons are about one thing, one is kept away by a tombstone, and both
    /// are one memory, in thousandths. They stand where the policy says 500, 600 and 700.
    #[schemars(example = "430, 560, 720")]
    pub embedder_scale: Option<String>,
    /// The key that it is asked with, as a bearer token.
    #[schemars(example = "a long random text")]
    pub embedder_key: Option<Secret>,
    /// A file that holds `embedder_key`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_embedder_key")]
    pub embedder_key_file: Option<PathBuf>,
    /// How long the embedder at `embedder_url` may take for what it is asked at once, milliseconds, a second try included; then the
    /// built-in one takes its place.
    #[schemars(range(min = 100, max = 60_000))]
    pub embedder_ms: u64,
    /// Hosts that a run's body may be fetched from over https, separated by commas. Bodies elsewhere are refused.
    #[schemars(example = "runs.example.com, archive.example.com:8443")]
    pub dataref_hosts: String,
    /// Investigations carried out side by side, each of another retrospective.
    #[schemars(range(min = 1, max = 64))]
    pub investigators: u32,
    /// How long an investigation's claim holds without a heartbeat, seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub lease_s: u64,
    /// Hard deadline of one attempt at an investigation, seconds.
    #[schemars(range(min = 1, max = 86400))]
    pub deadline_s: u64,
    /// How long what is in hand may take after the signal to stop, seconds; then investigations are released, so that
    /// another process has them at once. Whoever starts processes should wait 10 seconds longer before killing one.
    #[schemars(range(min = 1, max = 3600))]
    pub finish_s: u64,
    /// Pause between two looks for work that no message announced, milliseconds.
    #[schemars(range(min = 50, max = 600_000))]
    pub sweep_ms: u64,
    /// Pause between two looks whether the broker still has what it had and whether what it believes to be done was done,
    /// milliseconds.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub backstop_ms: u64,
    /// How long the broker waits for an answer before it delivers a message again, seconds; a handler that is at work
    /// says so every third of it.
    #[schemars(range(min = 1, max = 3600))]
    pub ack_wait_s: u64,
    /// How long handling one batch of messages may take, seconds; after that it is ended, which counts as an attempt.
    #[schemars(range(min = 1, max = 3600))]
    pub handle_max_s: u64,
    /// The wait before a message is handled again that failed once, milliseconds; doubled each time, at most a minute.
    #[schemars(range(min = 10, max = 60_000))]
    pub retry_first_ms: u64,
    /// A replay of a dead letter that nothing came of for so long, seconds, was lost with the broker and is sent again; the
    /// time doubles with each sending. Longer than a message waits behind others.
    #[schemars(range(min = 1, max = 86_400))]
    pub replay_lost_s: u64,
    /// How long the reviewer waits after somebody speaks about a pull request before it decides what of it is a rule, seconds: a
    /// review and its comments are events of their own, and come in any order.
    #[schemars(range(min = 0, max = 86_400))]
    pub review_wait_s: u64,
    /// How long an agent that asks for context, or opens a memory, waits for the database, milliseconds; then it is answered
    /// with nothing and the reason, and its run goes on.
    #[schemars(range(min = 1, max = 60_000))]
    pub answer_ms: u64,
    /// Pause between two looks at how things stand, for the metrics: lag, ages, what is open; seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub levels_s: u64,
    /// Bodies of `POST /v1/events` that are in hand at once, MiB, as far as they have arrived; beyond it a request is answered 429. Handling one takes
    /// up to four times its size in memory, and the largest has 17 MiB. 6 MiB more are kept for tenants that have no more than 256 KiB in hand.
    #[schemars(range(min = 17, max = 65536))]
    pub intake_mib: u32,
    /// Webhooks of GitHub that are in hand at once, MiB, as far as they have arrived; beyond it one is answered 503, which GitHub shows. The largest has 25 MB.
    #[schemars(range(min = 25, max = 65536))]
    pub bridge_mib: u32,
    /// What one tenant may have of `intake_mib`, MiB, so that one that sends much leaves room for the others.
    #[schemars(range(min = 17, max = 65536))]
    pub intake_tenant_mib: u32,
    /// Bodies of runs, days after their retrospective closed; and all details of a run that was not counted, days after it
    /// came. Whoever asks for a body later is told that it is gone.
    #[schemars(range(min = 1, max = 3650))]
    pub keep_bodies_days: u32,
    /// What investigations had behind them, days after it was written. Never before their retrospective has ended.
    #[schemars(range(min = 1, max = 3650))]
    pub keep_journals_days: u32,
    /// What the events of runs said, days after their retrospective closed, and after their bodies; identities stay for
    /// ever.
    #[schemars(range(min = 1, max = 3650))]
    pub keep_runs_days: u32,
    /// Inbox rows, days; a digest of each stays for ever, so that an event counts once however late it comes again.
    #[schemars(range(min = 1, max = 3650))]
    pub keep_events_days: u32,
    /// Messages of our own, days after they were sent: as long as the broker keeps them, so that one that lost everything
    /// can be fed again. A day is far more than it takes to tell a message from its repetition.
    #[schemars(range(min = 1, max = 3650))]
    pub keep_messages_days: u32,
    /// A collector nearby that takes OTLP over HTTP, without TLS: traces and metrics go to `/v1/traces` and `/v1/metrics` there.
    /// Without one nothing is sent anywhere. `OTEL_EXPORTER_OTLP_ENDPOINT` in the environment means the same.
    #[schemars(example = "http://127.0.0.1:4318")]
    pub otlp_endpoint: Option<String>,
    /// What is logged, in the syntax of `tracing`: `info`, `retro_counter=debug,info`.
    pub log: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(".retro"),
            http_listen: SocketAddr::from(([127, 0, 0, 1], 7717)),
            health_listen: None,
            bridge_listen: SocketAddr::from(([127, 0, 0, 1], 7719)),
            github_secret: None,
            github_secret_file: None,
            github_tenant_secrets: None,
            github_tenant_secrets_file: None,
            github_tenants: String::new(),
            database_url: None,
            database_url_file: None,
            nats_url: None,
            nats_url_file: None,
            nats_server: None,
            nats_port: 0,
            pipelines: None,
            embedder_dir: None,
            embedder_url: None,
            embedder_model: None,
            embedder_dimensions: 0,
            embedder_scale: None,
            embedder_key: None,
            embedder_key_file: None,
            embedder_ms: 5000,
            dataref_hosts: String::new(),
            investigators: 2,
            lease_s: 60,
            deadline_s: 600,
            finish_s: 10,
            sweep_ms: 2000,
            backstop_ms: 10_000,
            ack_wait_s: 30,
            handle_max_s: 120,
            retry_first_ms: 1000,
            replay_lost_s: 600,
            review_wait_s: 30,
            answer_ms: 200,
            levels_s: 15,
            intake_mib: 42,
            bridge_mib: 50,
            intake_tenant_mib: 36,
            keep_bodies_days: 30,
            keep_journals_days: 30,
            keep_runs_days: 180,
            keep_events_days: 30,
            keep_messages_days: 15,
            otlp_endpoint: None,
            log: "info".to_owned(),
        }
    }
}

/// Variables of the environment that stand for a key without our prefix. `RETRO_<KEY>` wins over them.
pub const ALIASES: [(&str, &str); 3] = [
    ("DATABASE_URL", "database_url"),
    ("NATS_URL", "nats_url"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
];

/// Variables with our prefix that are no keys: the command line's, those by which an agent's run tells git's hook of itself,
/// and those of tests and tools.
pub const OTHER_VARIABLES: [&str; 6] = [
    "RETRO_CONFIG",
    "RETRO_TENANT",
    "RETRO_RUN_ID",
    "RETRO_WORKFLOW",
    "RETRO_PROMPT_VERSION",
    "RETRO_EVAL_DATA",
];

/// Secrets that a file may hold. The key of the file is the secret's and `_file`.
pub const SECRETS: [&str; 5] =
    ["github_secret", "github_tenant_secrets", "database_url", "nats_url", "embedder_key"];

/// The shortest secret of a webhook, in bytes: what is shorter is found by trying.
const GITHUB_SECRET_BYTES_MIN: usize = 8;
/// The most secrets at once: an old and a new one, for a few hooks. Each costs a hash over the whole body.
const GITHUB_SECRETS_MAX: usize = 8;
/// The most secrets of tenants at once. Each costs a hash over the whole body, a fiftieth of a second over the largest.
const GITHUB_TENANT_SECRETS_MAX: usize = 32;

/// How the address of a database begins.
const DATABASES: [&str; 2] = ["postgres://", "postgresql://"];

/// The file that is read when none is named.
const FILE: &str = "retro.toml";

/// Reads the configuration: defaults, then the file (the named one, or `retro.toml` when it is there), then the
/// environment; then the secrets that files hold. Fails with every mistake at once.
pub fn load(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Loaded, Problems> {
    let file = named.or_else(|| Some(Path::new(FILE)).filter(|path| path.exists()));
    layers::load(file, environment)
}

impl Config {
    /// The hosts of `dataref_hosts`; fails with the entry that is none, which [`load`] has refused already.
    pub fn hosts(&self) -> Result<DatarefHosts, HostError> {
        let entries = self.dataref_hosts.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        DatarefHosts::parse(&entries.collect::<Vec<_>>())
    }

    /// The secrets of `github_secret`, the newest first as they stand there; none means that there is no bridge.
    pub fn github_secrets(&self) -> Vec<Secret> {
        let text = self.github_secret.as_ref().map(Secret::expose).unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Secret::new).collect()
    }

    /// The secrets of `github_tenant_secrets`, each with the tenant that it may speak for; fails with the line that cannot be used, which
    /// [`load`] has refused already. No secret is shown.
    pub fn github_tenant_secrets(&self) -> Result<Vec<(Tenant, Secret)>, String> {
        let text = self.github_tenant_secrets.as_ref().map(Secret::expose).unwrap_or_default();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(nth, line)| tenant_secret(line).map_err(|why| format!("line {} {why}", nth + 1)))
            .collect()
    }

    /// Whether anybody's webhooks would be believed: without a secret there is no bridge.
    pub const fn is_bridged(&self) -> bool {
        self.github_secret.is_some() || self.github_tenant_secrets.is_some()
    }

    /// The entries of `github_tenants`; fails with the one that cannot be read, which [`load`] has refused already.
    pub fn github_tenants(&self) -> Result<GithubTenants, EntryError> {
        GithubTenants::parse(&self.github_tenants)
    }

    /// The embedder that lessons are compared by; fails with the key that is wrong or missing, and why, which [`load`] has refused
    /// already.
    pub fn embedder(&self) -> Result<Embedder, (&'static str, String)> {
        embedder::of(self)
    }

    /// What no type forbids: key and sentence. A secret is not shown.
    pub(crate) fn refused(&self) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        let (address, port) = (self.http_listen, self.http_listen.port());
        if !address.ip().is_loopback() {
            let why = "until there are credentials the HTTP side listens on loopback only, such as";
            refused.push(("http_listen", format!("is {address}: {why} 127.0.0.1:{port}")));
        }
        let is_postgres = |url: &Secret| DATABASES.iter().any(|scheme| url.expose().starts_with(scheme));
        if self.database_url.as_ref().is_some_and(|url| !is_postgres(url)) {
            let wanted = format!("must begin with {}", DATABASES.join(" or "));
            refused.push(("database_url", format!("{wanted}; without one it is SQLite under `data_dir`")));
        }
        if let Err(error) = self.hosts() {
            refused.push(("dataref_hosts", format!("names what is no host: {error}")));
        }
        if let Err(error) = self.github_tenants() {
            refused.push(("github_tenants", format!("has an entry that cannot be used: {error}")));
        }
        refused.extend(self.embedder().err());
        refused.extend(self.refused_secrets());
        refused.extend(self.refused_tenant_secrets().map(|why| ("github_tenant_secrets", why)));
        refused
    }

    fn refused_secrets(&self) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        let secrets = self.github_secrets();
        if self.github_secret.is_some() && secrets.is_empty() {
            refused.push(("github_secret", "holds no secret, only blanks".to_owned()));
        }
        if secrets.iter().any(|secret| secret.expose().len() < GITHUB_SECRET_BYTES_MIN) {
            let wanted = format!("has a line of less than {GITHUB_SECRET_BYTES_MIN} bytes");
            refused.push((
                "github_secret",
                format!("{wanted}, which anybody can guess; one secret a line is wanted"),
            ));
        }
        if secrets.len() > GITHUB_SECRETS_MAX {
            let found = secrets.len();
            refused.push((
                "github_secret",
                format!("has {found} lines; at most {GITHUB_SECRETS_MAX} are tried"),
            ));
        }
        refused
    }

    fn refused_tenant_secrets(&self) -> Option<String> {
        let given = self.github_tenant_secrets.as_ref()?;
        let secrets = match self.github_tenant_secrets() {
            Err(why) => return Some(why),
            Ok(secrets) => secrets,
        };
        if secrets.len() > GITHUB_TENANT_SECRETS_MAX {
            return Some(format!(
                "has {} lines; at most {GITHUB_TENANT_SECRETS_MAX} are tried",
                secrets.len()
            ));
        }
        if given.expose().trim().is_empty() {
            return Some("holds no secret, only blanks".to_owned());
        }
        let tenants = self.github_tenants().ok()?;
        let idle = secrets.iter().map(|(tenant, _)| tenant).find(|tenant| !tenants.has(tenant))?;
        Some(format!(
            "has a secret of the tenant {idle}, who owns nothing by `github_tenants`: nothing would be taken"
        ))
    }
}

/// A line of `github_tenant_secrets`.
fn tenant_secret(line: &str) -> Result<(Tenant, Secret), String> {
    // A secret may hold a `=`, and a tenant's name as well: blanks around it part them.
    let (tenant, secret) =
        line.split_once(" = ").ok_or("is not `tenant = secret`, with blanks around the `=`")?;
    let tenant = Tenant::new(tenant.trim()).map_err(|error| format!("names no tenant: {error}"))?;
    let secret = secret.trim();
    if secret.len() < GITHUB_SECRET_BYTES_MIN {
        return Err(format!(
            "has a secret of less than {GITHUB_SECRET_BYTES_MIN} bytes, which anybody can guess"
        ));
    }
    Ok((tenant, Secret::new(secret)))
}
