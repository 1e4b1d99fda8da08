//! Defines the program's configuration: its keys, defaults, bounds and descriptions.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use retro_core::id::Tenant;
use retro_events::github::tenants::{EntryError, GithubTenants};
use retro_events::hosts::{DatarefHosts, HostError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::embedder::{self, EmbedderConfig};
use crate::layers::{self, LoadedConfig};
use crate::problem::Problems;
use crate::secret::Secret;

/// Configuration of a process: its addresses, folders, limits and secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder that contains the SQLite database, the supervised broker's store and `instance.json`.
    pub data_dir: PathBuf,
    /// Listen address of the HTTP API. It must be a loopback address.
    #[schemars(example = "127.0.0.1:7717")]
    pub http_listen: SocketAddr,
    /// Listen address for the paths `/livez`, `/readyz` and `/metrics` alone, for the operator of a fleet. Other
    /// machines may be able to reach it; with port 0 a free port is chosen. Without it only the gateway's HTTP API
    /// serves these paths.
    #[schemars(example = "0.0.0.0:7718")]
    pub health_listen: Option<SocketAddr>,
    /// Listen address of the bridge, which accepts only GitHub's webhooks at `/github/webhook`. Webhooks are signed, so
    /// other machines may be able to reach the address; terminate TLS in front of it. With port 0 a free port is
    /// chosen.
    #[schemars(example = "0.0.0.0:7719")]
    pub bridge_listen: SocketAddr,
    /// Secret of GitHub's webhooks, at least 8 bytes. While it is being rotated, several secrets can be given, one per
    /// line. The bridge runs only with this secret or one in `github_tenant_secrets`. Anyone who knows it can send
    /// events for every repository that `github_tenants` names.
    #[schemars(example = "a long random text")]
    pub github_secret: Option<Secret>,
    /// File that contains `github_secret`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_secret")]
    pub github_secret_file: Option<PathBuf>,
    /// Webhook secrets that are valid for one tenant only, one per line: `tenant = secret`, with a secret of at least 8
    /// bytes. While the secret of a tenant is being rotated, the tenant may have several lines. Anyone who knows a
    /// secret can send events for that tenant's repositories and no others. So teams who set up their own webhooks can
    /// share one bridge.
    #[schemars(example = "acme = a long random text")]
    pub github_tenant_secrets: Option<Secret>,
    /// File that contains `github_tenant_secrets`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_tenant_secrets")]
    pub github_tenant_secrets_file: Option<PathBuf>,
    /// Tenants of repositories, as entries separated by commas or lines. An entry is `owner/name = tenant` or `owner/*
    /// = tenant`, with the host in front for an Enterprise host. The installation number of a GitHub App may take the
    /// place of the repository, and `* = tenant` applies to everything else. The most specific entry applies. Unmapped
    /// repositories are ignored.
    #[schemars(example = "acme/shop = shop, acme/* = acme, 4242 = acme")]
    pub github_tenants: String,
    /// URL of a Postgres database to use instead of SQLite under `data_dir`. It can also be set with the environment
    /// variable `DATABASE_URL`.
    #[schemars(example = "postgres://retro@127.0.0.1:5432/retro")]
    pub database_url: Option<Secret>,
    /// File that contains `database_url`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_database_url")]
    pub database_url_file: Option<PathBuf>,
    /// URL of a NATS server to use instead of a supervised one, or several URLs separated by commas. It can also be set
    /// with the environment variable `NATS_URL`.
    #[schemars(example = "nats://127.0.0.1:4222")]
    pub nats_url: Option<Secret>,
    /// File that contains `nats_url`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_nats_url")]
    pub nats_url_file: Option<PathBuf>,
    /// Path of the nats-server binary to supervise. Without it, `PATH` and the project's tools folder are searched.
    #[schemars(example = "/usr/local/bin/nats-server")]
    pub nats_server: Option<PathBuf>,
    /// Port of the supervised nats-server; with 0 a free port is chosen.
    #[schemars(range(min = 0, max = 65535))]
    pub nats_port: u16,
    /// Folder of the pipelines, which contains `retrospective/pipeline.toml`. Without it the built-in policy applies.
    #[schemars(example = "/etc/retro/pipelines")]
    pub pipelines: Option<PathBuf>,
    /// Directory of Model2Vec weights (`config.json`, `tokenizer.json`, `model.safetensors`) for comparing lessons,
    /// instead of the built-in embedder. It is read at start and never downloaded. The scale of its similarities is
    /// read from `retrospect.json` in the same directory, or given as `embedder_scale`.
    #[schemars(example = "/var/lib/retro/potion-base-8M")]
    pub embedder_dir: Option<PathBuf>,
    /// Base URL of an OpenAI-compatible API whose `/embeddings` endpoint is used for comparing lessons, instead of the
    /// built-in embedder. The API receives the titles of memories and findings, and the requests made in reviews. While
    /// it is unreachable, the built-in embedder is used. After three failures in a row the API is not called for 5 s.
    /// This pause grows to up to 5 minutes while the failures continue.
    #[schemars(example = "https://api.openai.com/v1")]
    pub embedder_url: Option<String>,
    /// Name of the model to request from `embedder_url`. A different model counts as a different embedder, so all
    /// embeddings are computed again in the background.
    #[schemars(example = "text-embedding-3-small")]
    pub embedder_model: Option<String>,
    /// Number of dimensions of the model's vectors; 0 means not set. An answer with a different number is rejected.
    #[schemars(range(min = 0, max = 4096))]
    pub embedder_dimensions: u32,
    /// Scale of the embedder's cosines: three numbers in thousandths. Two lessons have the same subject from the first
    /// cosine on, a tombstone blocks a lesson from the second on, and two lessons are the same memory from the third
    /// on. The three numbers replace 500, 600 and 700 in the policy.
    #[schemars(example = "430, 560, 720")]
    pub embedder_scale: Option<String>,
    /// API key for `embedder_url`, sent as a bearer token.
    #[schemars(example = "a long random text")]
    pub embedder_key: Option<Secret>,
    /// File that contains `embedder_key`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_embedder_key")]
    pub embedder_key_file: Option<PathBuf>,
    /// Timeout of one request to `embedder_url`, including a retry, in milliseconds. When it expires, the built-in
    /// embedder is used.
    #[schemars(range(min = 100, max = 60_000))]
    pub embedder_timeout_ms: u64,
    /// Hosts from which a run's body may be fetched over https, separated by commas. Bodies on other hosts are
    /// rejected.
    #[schemars(example = "runs.example.com, archive.example.com:8443")]
    pub dataref_hosts: String,
    /// Maximum number of concurrent investigations, each for a different retrospective.
    #[schemars(range(min = 1, max = 64))]
    pub investigators: u32,
    /// Duration of the lease of a claimed investigation, in seconds. A heartbeat renews the lease; without one, another
    /// process may claim the investigation.
    #[schemars(range(min = 1, max = 3600))]
    pub lease_s: u64,
    /// Longest time that one attempt at an investigation may take, in seconds.
    #[schemars(range(min = 1, max = 86400))]
    pub deadline_s: u64,
    /// Time for work in progress to finish after the stop signal, in seconds. After that, investigations are released,
    /// so that another process can claim them immediately. A supervisor should wait 10 seconds longer than this before
    /// it kills the process.
    #[schemars(range(min = 1, max = 3600))]
    pub shutdown_grace_s: u64,
    /// Pause between two polls for work that was not announced by a message, in milliseconds.
    #[schemars(range(min = 50, max = 600_000))]
    pub sweep_ms: u64,
    /// Pause between two checks of the broker, in milliseconds. A check verifies that the broker still has its
    /// messages, and that the messages it considers handled were handled.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub reconcile_interval_ms: u64,
    /// Time that the broker waits for an acknowledgement before it redelivers a message, in seconds. While a handler
    /// runs, the time is restarted after every third of it.
    #[schemars(range(min = 1, max = 3600))]
    pub ack_wait_s: u64,
    /// Timeout for handling one batch of messages, in seconds. A timeout counts as an attempt at the batch.
    #[schemars(range(min = 1, max = 3600))]
    pub handler_timeout_s: u64,
    /// Wait before the first retry of a message, in milliseconds. It doubles with each retry, up to one minute.
    #[schemars(range(min = 10, max = 60_000))]
    pub retry_initial_ms: u64,
    /// Time after which a replay without a result counts as lost with the broker and is sent again, in seconds. It
    /// doubles each time the replay is sent. Set it longer than messages wait in a queue.
    #[schemars(range(min = 1, max = 86_400))]
    pub replay_timeout_s: u64,
    /// Time that the reviewer waits after an event of a pull request before it decides which remarks are rules, in
    /// seconds. It waits because a review and its comments are separate events that arrive in any order.
    #[schemars(range(min = 0, max = 86_400))]
    pub review_debounce_s: u64,
    /// Longest time that an agent which requests context or opens a memory waits for the database, in milliseconds.
    /// After that the agent gets an empty answer with the reason, and its run continues.
    #[schemars(range(min = 1, max = 60_000))]
    pub context_timeout_ms: u64,
    /// Pause between two measurements of the gauges (lag, ages, open items), in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub metrics_interval_s: u64,
    /// Memory budget for the bodies of `POST /v1/events` that are being received or handled, in MiB. A request that
    /// exceeds it gets 429. Handling a body takes up to four times its size in memory, and the largest body has 17 MiB.
    /// Another 6 MiB are reserved for tenants with no more than 256 KiB in progress.
    #[schemars(range(min = 17, max = 65536))]
    pub intake_mib: u32,
    /// Memory budget for the GitHub webhooks that are being received or handled, in MiB. A request that exceeds it gets
    /// 503, which GitHub displays. The largest webhook has 25 MB.
    #[schemars(range(min = 25, max = 65536))]
    pub bridge_mib: u32,
    /// Part of `intake_mib` that one tenant may use, in MiB. It leaves memory for the other tenants if one tenant sends
    /// much.
    #[schemars(range(min = 17, max = 65536))]
    pub intake_tenant_mib: u32,
    /// Number of days for which run bodies are kept after their retrospective closed. If a run was not counted, all its
    /// details are kept for this many days after it arrived. A later request for the body gets the answer that the body
    /// was deleted.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_bodies_days: u32,
    /// Number of days for which investigation journals are kept after they were written. They are kept at least until
    /// their retrospective has ended.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_journals_days: u32,
    /// Number of days for which the facts of runs are kept after their retrospective closed. They are kept at least as
    /// long as the run bodies. The identities of runs are kept forever.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_runs_days: u32,
    /// Number of days for which inbox rows are kept. A digest of each row is kept forever, so that an event counts once
    /// even if it is repeated very late.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_events_days: u32,
    /// Number of days for which outbox messages are kept after they were sent. Keep them at least as long as the broker
    /// does (14 days), so that they can be sent again to a broker that lost everything. To recognize duplicates, far
    /// less than a day is enough.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_messages_days: u32,
    /// Base URL of an OTLP collector that accepts HTTP without TLS. Traces and metrics are sent to its `/v1/traces` and
    /// `/v1/metrics`. Without it nothing is exported. It can also be set with the environment variable
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[schemars(example = "http://127.0.0.1:4318")]
    pub otlp_endpoint: Option<String>,
    /// Log filter in the syntax of `tracing`, such as `info` or `retro_counter=debug,info`.
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
            embedder_timeout_ms: 5000,
            dataref_hosts: String::new(),
            investigators: 2,
            lease_s: 60,
            deadline_s: 600,
            shutdown_grace_s: 10,
            sweep_ms: 2000,
            reconcile_interval_ms: 10_000,
            ack_wait_s: 30,
            handler_timeout_s: 120,
            retry_initial_ms: 1000,
            replay_timeout_s: 600,
            review_debounce_s: 30,
            context_timeout_ms: 200,
            metrics_interval_s: 15,
            intake_mib: 42,
            bridge_mib: 50,
            intake_tenant_mib: 36,
            retention_bodies_days: 30,
            retention_journals_days: 30,
            retention_runs_days: 180,
            retention_events_days: 30,
            retention_messages_days: 15,
            otlp_endpoint: None,
            log: "info".to_owned(),
        }
    }
}

/// Environment variables without the program's prefix, each with the key that it sets. `RETRO_<KEY>` takes precedence
/// over them.
pub const ALIAS_VARIABLES: [(&str, &str); 3] = [
    ("DATABASE_URL", "database_url"),
    ("NATS_URL", "nats_url"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
];

/// Environment variables with the program's prefix that are not configuration keys. They are used by the command line,
/// by the git hook to identify an agent's run, and by tests and tools.
pub const OTHER_VARIABLES: [&str; 6] = [
    "RETRO_CONFIG",
    "RETRO_TENANT",
    "RETRO_RUN_ID",
    "RETRO_WORKFLOW",
    "RETRO_PROMPT_VERSION",
    "RETRO_EVAL_DATA",
];

/// Keys of secrets that can be read from a file. The key of the file is the key of the secret plus `_file`.
pub const SECRETS: [&str; 5] =
    ["github_secret", "github_tenant_secrets", "database_url", "nats_url", "embedder_key"];

/// Minimum length of a webhook secret, in bytes. A shorter secret can be guessed by brute force.
const GITHUB_SECRET_BYTES_MIN: usize = 8;
/// Maximum number of webhook secrets, enough for an old and a new secret of a few webhooks. Each secret costs a hash
/// over the whole body.
const GITHUB_SECRETS_MAX: usize = 8;
/// Maximum number of webhook secrets of tenants. Each secret costs a hash over the whole body, which takes 20 ms for
/// the largest body.
const GITHUB_TENANT_SECRETS_MAX: usize = 32;

/// URL schemes that are accepted for a database.
const DATABASE_SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Name of the file that is read when the caller names none.
const DEFAULT_FILE: &str = "retro.toml";

/// Reads the configuration: defaults, then the file (the named one, or `retro.toml` if it exists), then the
/// environment, then the files that contain secrets. Fails with a list of all mistakes.
pub fn load_config(
    named: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<LoadedConfig, Problems> {
    let file = named.or_else(|| Some(Path::new(DEFAULT_FILE)).filter(|path| path.exists()));
    layers::load_layers(file, environment)
}

impl Config {
    /// Returns the hosts of `dataref_hosts`. Fails with the first entry that is not a host; [`load_config`] has already
    /// rejected such an entry.
    pub fn allowed_hosts(&self) -> Result<DatarefHosts, HostError> {
        let entries = self.dataref_hosts.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        DatarefHosts::parse(&entries.collect::<Vec<_>>())
    }

    /// Returns the secrets of `github_secret`, in the order of its lines. If there are none, only
    /// `github_tenant_secrets` can enable the bridge.
    pub fn github_secrets(&self) -> Vec<Secret> {
        let text = self.github_secret.as_ref().map(Secret::expose).unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Secret::new).collect()
    }

    /// Returns the secrets of `github_tenant_secrets`, each with its tenant. Fails with the line that cannot be used;
    /// [`load_config`] has already rejected such a line. The error never contains a secret.
    pub fn github_tenant_secrets(&self) -> Result<Vec<(Tenant, Secret)>, String> {
        let text = self.github_tenant_secrets.as_ref().map(Secret::expose).unwrap_or_default();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(nth, line)| parse_tenant_secret(line).map_err(|why| format!("line {} {why}", nth + 1)))
            .collect()
    }

    /// Returns whether any webhook secret is set. Without one the bridge does not run.
    pub const fn has_bridge_secret(&self) -> bool {
        self.github_secret.is_some() || self.github_tenant_secrets.is_some()
    }

    /// Returns the entries of `github_tenants`. Fails with the entry that cannot be read; [`load_config`] has already
    /// rejected such an entry.
    pub fn github_tenants(&self) -> Result<GithubTenants, EntryError> {
        GithubTenants::parse(&self.github_tenants)
    }

    /// Returns the configured embedder. Fails with the key that is wrong or missing and the reason; [`load_config`] has
    /// already rejected such a configuration.
    pub fn embedder(&self) -> Result<EmbedderConfig, (&'static str, String)> {
        embedder::select_embedder(self)
    }

    /// Returns the values that have the right type but cannot be used, each as its key and a sentence with the reason.
    /// The sentences never contain a secret.
    pub(crate) fn find_problems(&self) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        let (address, port) = (self.http_listen, self.http_listen.port());
        if !address.ip().is_loopback() {
            let why = "without credentials the HTTP API may listen on loopback only, such as";
            refused.push(("http_listen", format!("is {address}: {why} 127.0.0.1:{port}")));
        }
        let is_postgres =
            |url: &Secret| DATABASE_SCHEMES.iter().any(|scheme| url.expose().starts_with(scheme));
        if self.database_url.as_ref().is_some_and(|url| !is_postgres(url)) {
            let wanted = format!("must begin with {}", DATABASE_SCHEMES.join(" or "));
            refused.push(("database_url", format!("{wanted}; leave it out to use SQLite under `data_dir`")));
        }
        if let Err(error) = self.allowed_hosts() {
            refused.push(("dataref_hosts", format!("has an invalid host: {error}")));
        }
        if let Err(error) = self.github_tenants() {
            refused.push(("github_tenants", format!("has an invalid entry: {error}")));
        }
        refused.extend(self.embedder().err());
        refused.extend(self.find_secret_problems());
        refused.extend(self.find_tenant_secret_problem().map(|why| ("github_tenant_secrets", why)));
        refused
    }

    fn find_secret_problems(&self) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        let secrets = self.github_secrets();
        if self.github_secret.is_some() && secrets.is_empty() {
            refused.push(("github_secret", "is blank; it must hold a secret".to_owned()));
        }
        if secrets.iter().any(|secret| secret.expose().len() < GITHUB_SECRET_BYTES_MIN) {
            let wanted = format!("has a line of fewer than {GITHUB_SECRET_BYTES_MIN} bytes");
            refused.push((
                "github_secret",
                format!("{wanted}, which can be guessed; write one secret per line"),
            ));
        }
        if secrets.len() > GITHUB_SECRETS_MAX {
            let found = secrets.len();
            refused.push((
                "github_secret",
                format!("has {found} lines; at most {GITHUB_SECRETS_MAX} are allowed"),
            ));
        }
        refused
    }

    fn find_tenant_secret_problem(&self) -> Option<String> {
        let given = self.github_tenant_secrets.as_ref()?;
        let secrets = match self.github_tenant_secrets() {
            Err(why) => return Some(why),
            Ok(secrets) => secrets,
        };
        if secrets.len() > GITHUB_TENANT_SECRETS_MAX {
            return Some(format!(
                "has {} lines; at most {GITHUB_TENANT_SECRETS_MAX} are allowed",
                secrets.len()
            ));
        }
        if given.expose().trim().is_empty() {
            return Some("is blank; it must hold a secret".to_owned());
        }
        let tenants = self.github_tenants().ok()?;
        let idle =
            secrets.iter().map(|(tenant, _)| tenant).find(|tenant| !tenants.contains_tenant(tenant))?;
        Some(format!(
            "has a secret of the tenant {idle}, to whom `github_tenants` assigns no repository, so the secret would never apply"
        ))
    }
}

/// Parses a line of `github_tenant_secrets` into the tenant and the secret.
fn parse_tenant_secret(line: &str) -> Result<(Tenant, Secret), String> {
    // A secret may contain a `=`, and so may a tenant's name, so only a `=` between blanks separates them.
    let (tenant, secret) =
        line.split_once(" = ").ok_or("is not `tenant = secret` with blanks around the `=`")?;
    let tenant = Tenant::new(tenant.trim()).map_err(|error| format!("has no valid tenant: {error}"))?;
    let secret = secret.trim();
    if secret.len() < GITHUB_SECRET_BYTES_MIN {
        return Err(format!(
            "has a secret of fewer than {GITHUB_SECRET_BYTES_MIN} bytes, which can be guessed"
        ));
    }
    Ok((tenant, Secret::new(secret)))
}
