//! Starts a NATS cluster with the shipped configuration: TLS by an authority of the test, and an nkey for each user.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use retro_bus::{BusConfig, ConnectionSecurity, CredentialFile, NatsServer, ensure_seed_file};
use retro_core::id::Tenant;
use retro_events::permissions::{BrokerUser, inbox_prefix, render_nkey_users_file};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::authority::{TestAuthority, Validity};
use crate::free_port;
use crate::nats::{init_test_logging, small_streams};

/// Configuration of a server as shipped.
const CONFIGURATION: &str = include_str!("../../../../deploy/nats/cluster.conf");

/// Three nats-servers on free loopback ports that form a cluster. They stop when dropped.
#[derive(Debug)]
pub struct NatsCluster {
    servers: Vec<ClusterServer>,
    tenants: Vec<Tenant>,
    // Declared last, because the servers write into it until they are killed.
    folder: TempDir,
}

#[derive(Debug)]
struct ClusterServer {
    client_port: u16,
    monitor_port: u16,
    route_port: u16,
    process: Option<Child>,
}

impl NatsCluster {
    /// Starts three servers with the users of these tenants. Does not wait until they form a cluster. Panics with
    /// installation instructions if there is no usable nats-server.
    pub async fn start(tenants: &[Tenant]) -> Self {
        init_test_logging();
        let folder = TempDir::new().expect("a temporary folder can be made");
        let authority = TestAuthority::new();
        authority.write_to(folder.path());
        authority.issue(folder.path(), "server", &["localhost", "127.0.0.1"], Validity::Valid);
        let key = |user: &BrokerUser| {
            ensure_seed_file(&seed_path(folder.path(), user)).expect("a seed is generated")
        };
        let users = render_nkey_users_file(tenants, key);
        std::fs::write(folder.path().join("users.conf"), users).expect("the folder can be written");
        std::fs::write(folder.path().join("cluster.conf"), CONFIGURATION).expect("the folder can be written");
        let server = |_| ClusterServer {
            client_port: free_port(),
            monitor_port: free_port(),
            route_port: free_port(),
            process: None,
        };
        let servers = (0..3).map(server).collect();
        let mut cluster = Self { servers, tenants: tenants.to_vec(), folder };
        for nth in 0..3 {
            cluster.start_server(nth).await;
        }
        cluster
    }

    /// Starts a server that is not running, with the data that it has.
    pub async fn start_server(&mut self, nth: usize) {
        let (binary, _) = NatsServer::find_usable(None)
            .await
            .unwrap_or_else(|error| panic!("this test needs a nats-server; run .ci/install-tools: {error}"));
        let routes: Vec<_> =
            self.servers.iter().map(|one| format!("nats://127.0.0.1:{}", one.route_port)).collect();
        let server = &self.servers[nth];
        let local = |port: u16| format!("127.0.0.1:{port}");
        let process = Command::new(binary)
            .args(["-c", "cluster.conf", "-l", &format!("n{nth}.log")])
            .env("NATS_NAME", format!("n{nth}"))
            .env("NATS_LISTEN", local(server.client_port))
            .env("NATS_MONITOR", local(server.monitor_port))
            .env("NATS_ROUTES_LISTEN", local(server.route_port))
            .env("NATS_ROUTES", format!("[{}]", routes.join(", ")))
            .env("NATS_STORE", format!("store-n{nth}"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a nats-server that printed its version can be started");
        self.servers[nth].process = Some(process);
    }

    /// Kills a server with SIGKILL and waits until it is gone.
    pub async fn kill_server(&mut self, nth: usize) {
        let mut process = self.servers[nth].process.take().expect("a running server");
        process.kill().await.expect("our own child can be killed");
    }

    /// Returns the addresses of all servers, as `nats_url` takes them.
    pub fn url(&self) -> String {
        let urls: Vec<_> =
            self.servers.iter().map(|server| format!("tls://localhost:{}", server.client_port)).collect();
        urls.join(",")
    }

    /// Returns the URL of a server's monitoring.
    pub fn monitor_url(&self, nth: usize) -> String {
        format!("http://127.0.0.1:{}", self.servers[nth].monitor_port)
    }

    /// Returns the file of the authority that signed the servers' certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Returns the file with the seed of a user.
    pub fn seed_file(&self, user: &BrokerUser) -> PathBuf {
        assert!(BrokerUser::list_all(&self.tenants).contains(user), "{user} is no user of this cluster");
        seed_path(self.folder.path(), user)
    }

    /// Returns a bus configuration that connects as this user and creates small streams.
    pub fn bus_config(&self, user: &BrokerUser) -> BusConfig {
        BusConfig {
            sizes: small_streams(),
            security: ConnectionSecurity {
                credential: Some(CredentialFile::Nkey(self.seed_file(user))),
                ca_file: Some(self.ca_file()),
                ..ConnectionSecurity::default()
            },
            inbox_prefix: Some(inbox_prefix(Some(&user.to_string()))),
            ..BusConfig::new(self.url(), user.to_string())
        }
    }

    /// Returns the end of each server's log, for the message of a failed test.
    pub fn log_tails(&self) -> String {
        let tail = |nth: usize| {
            let text =
                std::fs::read_to_string(self.folder.path().join(format!("n{nth}.log"))).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        };
        (0..self.servers.len()).map(|nth| format!("n{nth}:\n{}\n", tail(nth))).collect()
    }
}

fn seed_path(folder: &Path, user: &BrokerUser) -> PathBuf {
    folder.join("seeds").join(format!("{user}.nk"))
}
