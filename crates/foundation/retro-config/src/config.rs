//! Defines the configuration keys with their defaults, bounds and descriptions.

use std::net::SocketAddr;
use std::path::PathBuf;

use retro_events::hosts::{DatarefHosts, HostError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model_protocol::ModelProtocol;
use crate::model_use::ModelUse;
use crate::nats_tls::NatsTls;
use crate::secret::Secret;

/// Configuration of a process: addresses, directories, limits and secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder that contains the SQLite database, the supervised broker's store and `instance.json`.
    pub data_dir: PathBuf,
    /// Listen address of the HTTP API. On a loopback address, requests need no access token, and `Retro-Tenant` names
    /// the tenant. On any other address, each request needs a token (`retro tokens create`) and the server a
    /// certificate.
    #[schemars(example = "127.0.0.1:7717")]
    pub http_listen: SocketAddr,
    /// `true` to require an access token on a loopback address, too: set it if a proxy on this machine passes on
    /// requests of others.
    pub http_require_tokens: bool,
    /// PEM file with the certificate of the HTTP API, followed by those of the authorities that issued it. With it,
    /// the address serves HTTPS only. The file is read again when it changes.
    #[schemars(example = "/run/secrets/retro.pem")]
    pub http_cert_file: Option<PathBuf>,
    /// PEM file with the private key of `http_cert_file`.
    #[schemars(example = "/run/secrets/retro.key")]
    pub http_key_file: Option<PathBuf>,
    /// PEM file with the authorities that `retro ready` and `retro doctor` trust besides the public ones, if they ask this
    /// process over TLS. They need none for the certificate in `http_cert_file`.
    #[schemars(example = "/run/secrets/authority.pem")]
    pub http_ca_file: Option<PathBuf>,
    /// `true` to serve plain HTTP on an address that is not loopback: only behind a proxy that terminates TLS, on a
    /// network where nobody else reads the access tokens.
    pub http_allow_plaintext: bool,
    /// Maximum number of requests per second of one access token in one process. What exceeds it gets 429. Those of a
    /// second may come at once.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub token_requests_per_s: u32,
    /// Listen address that serves only `/livez`, `/readyz` and `/metrics`, for probes and scrapers. It may be
    /// reachable from other machines; port 0 chooses a free port. If it is not set, only the gateway's HTTP
    /// API serves these paths.
    #[schemars(example = "0.0.0.0:7718")]
    pub health_listen: Option<SocketAddr>,
    /// Listen address of the bridge, which accepts only GitHub's webhooks at `/github/webhook`. Webhooks are
    /// signed, so other machines may reach the address; terminate TLS in front of it. Port 0 chooses a free
    /// port.
    #[schemars(example = "0.0.0.0:7719")]
    pub bridge_listen: SocketAddr,
    /// Secret that GitHub signs its webhooks with, at least 8 bytes. During a rotation, give several secrets,
    /// one per line. The bridge runs only if this secret or one in `github_tenant_secrets` is set. Anyone who
    /// knows it can send events for every repository that `github_tenants` names.
    #[schemars(example = "a long random text")]
    pub github_secret: Option<Secret>,
    /// File that contains `github_secret`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_secret")]
    pub github_secret_file: Option<PathBuf>,
    /// Webhook secrets that are each valid for one tenant only, one per line: `tenant = secret`, with a
    /// secret of at least 8 bytes. During a rotation, a tenant may have several lines. Anyone who knows a
    /// secret can send events for that tenant's repositories and no others, so teams that set up their own
    /// webhooks can share one bridge.
    #[schemars(example = "acme = a long random text")]
    pub github_tenant_secrets: Option<Secret>,
    /// File that contains `github_tenant_secrets`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_tenant_secrets")]
    pub github_tenant_secrets_file: Option<PathBuf>,
    /// Maps repositories to tenants, as entries separated by commas or newlines. An entry is
    /// `owner/name = tenant` or `owner/* = tenant`; prefix the host for GitHub Enterprise Server. The
    /// installation ID of a GitHub App can replace the repository, and `* = tenant` matches everything else.
    /// The most specific entry applies. Unmapped repositories are ignored.
    #[schemars(example = "acme/shop = shop, acme/* = acme, 4242 = acme")]
    pub github_tenants: String,
    /// Token for GitHub's REST API, with read access to actions, issues and pull requests of the repositories. With
    /// it, the logs of failed workflow runs are investigated, and `retro github sync` fetches what a bridge
    /// missed. The bridge, the investigators and the command each read it.
    #[schemars(example = "github_pat_…")]
    pub github_token: Option<Secret>,
    /// File that contains `github_token`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_github_token")]
    pub github_token_file: Option<PathBuf>,
    /// Host of the repositories that `github_token` is for: `github.com`, or that of an Enterprise server.
    #[schemars(example = "ghe.example.com")]
    pub github_host: String,
    /// Address of the REST API that `github_token` is sent to. If not set, `https://api.github.com`, or
    /// `https://HOST/api/v3` for an Enterprise server. Plain http is allowed for a loopback address only.
    #[schemars(example = "https://ghe.example.com/api/v3")]
    pub github_api: Option<String>,
    /// URL of a Postgres database to use instead of SQLite in `data_dir`. Can also be set with the
    /// environment variable `DATABASE_URL`.
    #[schemars(example = "postgres://retro@127.0.0.1:5432/retro")]
    pub database_url: Option<Secret>,
    /// File that contains `database_url`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_database_url")]
    pub database_url_file: Option<PathBuf>,
    /// URL of a NATS server to use instead of a supervised one, or several URLs separated by commas. Can also
    /// be set with the environment variable `NATS_URL`.
    #[schemars(example = "nats://127.0.0.1:4222")]
    pub nats_url: Option<Secret>,
    /// File that contains `nats_url`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_nats_url")]
    pub nats_url_file: Option<PathBuf>,
    /// Credentials file (`.creds`, a user's JWT and seed) with which a process logs in to `nats_url`. It is read
    /// again at each connection, so a new file takes effect at the next reconnect.
    #[schemars(example = "/run/secrets/retro.creds")]
    pub nats_creds_file: Option<PathBuf>,
    /// File that contains the seed of the nkey (`SU…`) with which a process logs in to `nats_url`. It is read again
    /// at each connection.
    #[schemars(example = "/run/secrets/retro.nk")]
    pub nats_nkey_file: Option<PathBuf>,
    /// PEM file with the certificate authorities that may sign the certificate of `nats_url`. They replace those that
    /// the machine trusts. With this key, a connection without TLS is refused. The file is read again at each
    /// connection.
    #[schemars(example = "/etc/retro/nats-ca.pem")]
    pub nats_ca_file: Option<PathBuf>,
    /// PEM file with the client certificate that is shown to `nats_url`, for mutual TLS; needs `nats_key_file`. With
    /// this key, a connection without TLS is refused. The file is read again at each connection.
    #[schemars(example = "/etc/retro/nats-client.pem")]
    pub nats_cert_file: Option<PathBuf>,
    /// PEM file with the private key of `nats_cert_file`. It is read again at each connection.
    #[schemars(example = "/run/secrets/nats-client.key")]
    pub nats_key_file: Option<PathBuf>,
    /// Use of TLS with `nats_url`: `auto` uses it if the server or the address (`tls://`) asks for it, `required`
    /// refuses a connection without it, and `first` starts it before the server's greeting, for a server with
    /// `handshake_first`. A file of certificates makes `auto` mean `required`.
    pub nats_tls: NatsTls,
    /// Prefix of the subjects on which the broker answers this process. If it is not set, it is `_INBOX_` and the user
    /// name of `nats_url`, or `_INBOX` without a name. A user with limited permissions needs the prefix that it may
    /// subscribe to.
    #[schemars(example = &"_INBOX_counter")]
    pub nats_inbox_prefix: Option<String>,
    /// Number of servers of a NATS cluster that store each stream with its consumers, and the object bucket: 1, 3 or
    /// 5. `retro migrate` raises existing streams to this number without loss, and never lowers one.
    #[schemars(range(min = 1, max = 5))]
    pub nats_replicas: u8,
    /// `false` to answer agents over HTTP only. Otherwise a gateway also answers requests on `retro.agents.…` at the
    /// broker, whose permissions decide who may ask for which tenant: no access token is needed there.
    pub nats_agents: bool,
    /// Path of the nats-server binary to supervise. By default, `PATH` and the project's tools folder are
    /// searched.
    #[schemars(example = "/usr/local/bin/nats-server")]
    pub nats_server: Option<PathBuf>,
    /// Port of the supervised nats-server; 0 chooses a free port.
    #[schemars(range(min = 0, max = 65535))]
    pub nats_port: u16,
    /// Space that the streams reserve at the broker, in MiB. Events and large run bodies get 8 of 19 parts each,
    /// and webhooks, wake-ups and announcements one part each. A stream that is full rejects messages until old
    /// ones expire, and none of them can be made smaller than what it holds.
    #[schemars(range(min = 152, max = 16_777_216))]
    pub streams_mib: u32,
    /// Pipelines folder, which contains `retrospective/pipeline.toml`. If it is not set, the built-in policy
    /// applies.
    #[schemars(example = "/etc/retro/pipelines")]
    pub pipelines: Option<PathBuf>,
    /// Directory of Model2Vec weights (`config.json`, `tokenizer.json`, `model.safetensors`) that replace the
    /// built-in embedder for comparing lessons. The weights are read at start and never downloaded. The
    /// similarity scale is read from `retrospect.json` in the same directory, unless `embedder_scale` is set.
    /// Only a program built with the feature `local` accepts this key.
    #[schemars(example = "/var/lib/retro/potion-base-8M")]
    pub embedder_dir: Option<PathBuf>,
    /// Base URL of an OpenAI-compatible API whose `/embeddings` endpoint replaces the built-in embedder for
    /// comparing lessons. The API receives the titles of memories and findings, and the requests made in
    /// reviews. While it is unreachable, the built-in embedder is used. After three consecutive failures the
    /// API is not called for 5 s, and this pause grows to at most 5 minutes while the failures continue.
    #[schemars(example = "https://api.openai.com/v1")]
    pub embedder_url: Option<String>,
    /// Name of the model to request from `embedder_url`. A different model counts as a different embedder, so
    /// all embeddings are recomputed in the background.
    #[schemars(example = "text-embedding-3-small")]
    pub embedder_model: Option<String>,
    /// Number of dimensions of the model's vectors; 0 means not set. A response with a different number is
    /// rejected.
    #[schemars(range(min = 0, max = 4096))]
    pub embedder_dimensions: u32,
    /// Three cosine thresholds of the embedder, in thousandths. From the first threshold on, two lessons have
    /// the same subject; from the second on, a tombstone blocks a lesson; from the third on, two lessons are
    /// the same memory. They replace 500, 600 and 700 in the policy.
    #[schemars(example = "430, 560, 720")]
    pub embedder_scale: Option<String>,
    /// API key for `embedder_url`, sent as a bearer token.
    #[schemars(example = "a long random text")]
    pub embedder_key: Option<Secret>,
    /// File that contains `embedder_key`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_embedder_key")]
    pub embedder_key_file: Option<PathBuf>,
    /// Timeout for one request to `embedder_url`, including a retry, in milliseconds. If it expires, the
    /// built-in embedder is used.
    #[schemars(range(min = 100, max = 60_000))]
    pub embedder_timeout_ms: u64,
    /// Language model that investigates runs and reads reviews beside the heuristics: the base URL of an endpoint, usually
    /// ending in `/v1`; `file:/FOLDER`, where each request is a file that a person or another program answers; or
    /// `cassettes:/FOLDER`, which plays recorded answers. The model receives what runs did and what reviewers wrote, without
    /// the secrets in them. If it is not set, the heuristics work alone.
    #[schemars(example = "https://api.openai.com/v1")]
    pub model_url: Option<String>,
    /// Protocol of the endpoint at `model_url`: `openai` for `/chat/completions`, which most model servers speak, or
    /// `anthropic` for `/messages`.
    pub model_protocol: ModelProtocol,
    /// What the language model is used for. The heuristics alone do the rest.
    pub model_use: ModelUse,
    /// Name of the model to request from `model_url`, as shown in reports.
    #[schemars(example = "gpt-5-mini")]
    pub model: Option<String>,
    /// API key for `model_url`.
    #[schemars(example = "a long random text")]
    pub model_key: Option<Secret>,
    /// File that contains `model_key`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_model_key")]
    pub model_key_file: Option<PathBuf>,
    /// Timeout for one request to `model_url`, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub model_timeout_s: u64,
    /// Maximum time that one call waits for an endpoint that is busy or away, in seconds, in addition to its requests.
    /// After it, the run is investigated by the heuristics alone, and the report says so.
    #[schemars(range(min = 0, max = 3600))]
    pub model_wait_s: u64,
    /// Maximum time that reading the reviews of one pull request takes before no further call of the model is begun, in
    /// seconds. The heuristics alone read the other remarks, and the report says so.
    #[schemars(range(min = 1, max = 86_400))]
    pub model_review_timeout_s: u64,
    /// Maximum number of requests to `model_url` at once, of one process.
    #[schemars(range(min = 1, max = 64))]
    pub model_concurrency: u32,
    /// Maximum number of tokens of one answer of the model.
    #[schemars(range(min = 256, max = 65_536))]
    pub model_output_tokens_max: u32,
    /// Prices in US dollars for a million tokens, as entries separated by commas or newlines: `model = input / cached /
    /// output`. The cost of a model without an entry is not known, and the report says so.
    #[schemars(example = "gpt-5-mini = 0.25 / 0.025 / 2.00")]
    pub model_prices: String,
    /// Maximum number of tokens of one day, in UTC, of all processes on the database; 0 for no bound. A call that might exceed
    /// it is not made: the heuristics work alone, and the report says so. The budgets of an investigation, a retrospective
    /// and a review are in `[budget]` of the pipelines.
    #[schemars(range(min = 0, max = 2_000_000_000))]
    pub model_budget_day_tokens: u64,
    /// Maximum cost of one day, in UTC, of all processes on the database, in hundredths of a US dollar; 0 for no bound. Needs
    /// a price.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub model_budget_day_cents: u64,
    /// Folder in which each answer of the model is recorded with its request, to be played by `cassettes:/FOLDER`.
    #[schemars(example = "/var/lib/retro/cassettes")]
    pub model_record_dir: Option<PathBuf>,
    /// PEM file with authorities that the program trusts besides the public ones when it sends requests over HTTPS to
    /// models, embedders and GitHub's API, such as one of your company.
    #[schemars(example = "/run/secrets/authority.pem")]
    pub outgoing_ca_file: Option<PathBuf>,
    /// HTTP proxy through which requests over HTTPS to models, embedders and GitHub's API are sent. Those over plain HTTP
    /// go directly, and so do bodies of runs from `dataref_hosts`. No variable such as HTTPS_PROXY is read.
    #[schemars(example = "http://proxy.example.com:3128")]
    pub outgoing_proxy: Option<Secret>,
    /// File that contains `outgoing_proxy`, such as a mounted secret.
    #[schemars(example = "/run/secrets/retro_outgoing_proxy")]
    pub outgoing_proxy_file: Option<PathBuf>,
    /// Hosts from which run bodies may be fetched over HTTPS, separated by commas. Bodies on other hosts are
    /// rejected.
    #[schemars(example = "runs.example.com, archive.example.com:8443")]
    pub dataref_hosts: String,
    /// Maximum number of concurrent investigations, each for a different retrospective.
    #[schemars(range(min = 1, max = 64))]
    pub investigators: u32,
    /// Duration of an investigation's lease, in seconds. A heartbeat renews the lease; if the heartbeats
    /// stop, another process may claim the investigation.
    #[schemars(range(min = 1, max = 3600))]
    pub lease_s: u64,
    /// Maximum duration of one attempt at an investigation, in seconds.
    #[schemars(range(min = 1, max = 86400))]
    pub investigation_timeout_s: u64,
    /// Grace period for work in progress after the stop signal, in seconds. Investigations that are still
    /// running after it are released, so another process can claim them immediately. A supervisor should wait
    /// 10 seconds longer than this before it kills the process.
    #[schemars(range(min = 1, max = 3600))]
    pub shutdown_grace_s: u64,
    /// Interval between polls for work that no message announced, in milliseconds.
    #[schemars(range(min = 50, max = 600_000))]
    pub sweep_interval_ms: u64,
    /// Interval between checks of the broker, in milliseconds. A check verifies that the broker has lost no
    /// messages and that every message it considers processed was in fact processed.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub reconcile_interval_ms: u64,
    /// Time after which the broker redelivers an unacknowledged message, in seconds. While a handler runs,
    /// the deadline is extended every third of this time.
    #[schemars(range(min = 1, max = 3600))]
    pub ack_wait_s: u64,
    /// Timeout for handling one batch of messages, in seconds. A timeout counts as a failed attempt.
    #[schemars(range(min = 1, max = 3600))]
    pub handler_timeout_s: u64,
    /// Delay before the first retry of a message, in milliseconds. It doubles with each retry, up to one
    /// minute.
    #[schemars(range(min = 10, max = 60_000))]
    pub retry_initial_ms: u64,
    /// Time after which a replay without a result is presumed lost at the broker and is sent again, in
    /// seconds. It doubles each time the replay is sent. Set it higher than the longest time a message waits
    /// in a queue.
    #[schemars(range(min = 1, max = 86_400))]
    pub replay_timeout_s: u64,
    /// Time that the reviewer waits after the first undecided event of a pull request before it decides which
    /// remarks are rules, in seconds. The wait is needed because a review and its comments are separate
    /// events that arrive in any order.
    #[schemars(range(min = 0, max = 86_400))]
    pub review_debounce_s: u64,
    /// Timeout for the database when an agent requests context or opens a memory, in milliseconds. If it
    /// expires, the agent receives an empty response with the reason, and its run continues.
    #[schemars(range(min = 1, max = 60_000))]
    pub context_timeout_ms: u64,
    /// Interval between measurements of the gauges (lag, ages, open items), in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub metrics_interval_s: u64,
    /// Memory budget for bodies of `POST /v1/events`, `/v1/transcripts` and `/v1/traces` that are being received or
    /// processed, in MiB. A request that exceeds it gets 429. An event may take up to four times its size in memory
    /// while it is processed; two transcripts or requests with traces are read at a time, of which each may take 100
    /// MiB; the largest accepted body is 17 MiB. Another 6 MiB are reserved for tenants with at most 256 KiB in
    /// progress.
    #[schemars(range(min = 17, max = 65536))]
    pub intake_mib: u32,
    /// Memory budget for GitHub webhooks that are being received or processed, in MiB. A request that exceeds
    /// it gets 503, which GitHub shows in its delivery log. The largest webhook is 25 MB.
    #[schemars(range(min = 25, max = 65536))]
    pub bridge_mib: u32,
    /// Share of `intake_mib` that a single tenant may use, in MiB. The rest stays available to the other
    /// tenants.
    #[schemars(range(min = 17, max = 65536))]
    pub intake_tenant_mib: u32,
    /// Time without a new span after which a trace that came in parts is taken to be over, in seconds: its run is read even if
    /// spans refer to missing ones. A trace whose root and parents are there is read at once, and spans that come within
    /// this time after the last one make a newer attempt of the run.
    #[schemars(range(min = 1, max = 3600))]
    pub trace_quiet_s: u64,
    /// Time without a new span after which a trace without its root is given up, in seconds. Its spans become a dead letter.
    /// Longer than an agent works on one call.
    #[schemars(range(min = 1, max = 604800))]
    pub trace_root_s: u64,
    /// Space for the spans of one tenant that wait for the rest of their traces, in MiB of JSON. In the database they take
    /// about a fifth. Beyond it, requests with parts of traces are answered with 429; traces that are whole in one request
    /// are accepted.
    #[schemars(range(min = 17, max = 65536))]
    pub trace_tenant_mib: u32,
    /// Retention of run bodies, in days after their retrospective closed. If a run was not counted, all its
    /// details are kept for this many days after it arrived. Later requests for the body report that it was
    /// deleted.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_bodies_days: u32,
    /// Retention of investigation journals, in days after they were written. They are kept at least until
    /// their retrospective has ended.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_journals_days: u32,
    /// Retention of the facts of runs, in days after their retrospective closed. They are kept at least as
    /// long as the run bodies. The identities of runs are kept forever.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_runs_days: u32,
    /// Retention of inbox rows, in days. A digest of each row is kept forever, so an event counts only once
    /// even if it is repeated very late.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_events_days: u32,
    /// Retention of outbox messages, in days after they were sent. Keep them at least as long as the broker
    /// does (14 days), so they can be sent again to a broker that lost everything. Recognizing duplicates
    /// needs far less than a day.
    #[schemars(range(min = 1, max = 3650))]
    pub retention_messages_days: u32,
    /// Base URL of an OTLP collector that accepts HTTP without TLS. Traces and metrics are sent to its
    /// `/v1/traces` and `/v1/metrics`. If it is not set, nothing is exported. Can also be set with the
    /// environment variable `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[schemars(example = "http://127.0.0.1:4318")]
    pub otlp_endpoint: Option<String>,
    /// Format of the log on stderr: `text`, or `json` for one JSON document per line.
    pub log_format: String,
    /// Log filter in the syntax of `tracing`, such as `info` or `retro_counter=debug,info`.
    pub log: String,
}

/// Environment variables without the program's prefix, each paired with the key that it sets. `RETRO_<KEY>`
/// takes precedence over them.
pub const ALIAS_VARIABLES: [(&str, &str); 3] = [
    ("DATABASE_URL", "database_url"),
    ("NATS_URL", "nats_url"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
];

/// Environment variables with the program's prefix that are not configuration keys. The command line, the git
/// hook that identifies an agent's run, tests and tools read them.
pub const OTHER_VARIABLES: [&str; 6] = [
    "RETRO_CONFIG",
    "RETRO_TENANT",
    "RETRO_RUN_ID",
    "RETRO_WORKFLOW",
    "RETRO_PROMPT_VERSION",
    "RETRO_EVAL_DATA",
];

/// Keys of secrets that can also be read from a file. The file's key is the secret's key plus `_file`.
pub const SECRETS: [&str; 8] = [
    "github_secret",
    "github_tenant_secrets",
    "github_token",
    "database_url",
    "nats_url",
    "embedder_key",
    "model_key",
    "outgoing_proxy",
];

impl Config {
    /// Returns the hosts of `dataref_hosts`. Fails with the first entry that is not a host, which cannot
    /// happen after [`load_config`](crate::load_config).
    pub fn allowed_hosts(&self) -> Result<DatarefHosts, HostError> {
        let entries = self.dataref_hosts.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        DatarefHosts::parse(&entries.collect::<Vec<_>>())
    }

    /// Returns `true` if each request to the HTTP API needs an access token.
    pub fn requires_tokens(&self) -> bool {
        self.http_require_tokens || !self.http_listen.ip().is_loopback()
    }
}
