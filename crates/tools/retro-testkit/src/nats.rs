use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use retro_bus::server::ServerState;
use retro_bus::{ACK_WAIT, Bus, BusConfig, NatsServer, ServerConfig, StreamSizes, topology};
use tempfile::TempDir;
use tracing_subscriber::EnvFilter;

use crate::{TEST_TIMEOUT, free_port};

const MIB: u64 = 1024 * 1024;

/// A nats-server for one test, with its own folder and a free port. Stops when dropped.
#[derive(Debug)]
pub struct TestNats {
    server: NatsServer,
    // Declared last, because fields drop in order and the server writes into this folder until it stops.
    _folder: TempDir,
}

impl TestNats {
    /// Starts a server. Panics with installation instructions if there is no usable nats-server.
    pub async fn start() -> Self {
        init_test_logging();
        let folder = TempDir::new().expect("a temporary folder can be made");
        // A reserved port, so no other process takes it while the server is killed and restarted.
        let port = Some(free_port());
        let config = ServerConfig { binary: None, data_dir: folder.path().to_owned(), port };
        match NatsServer::start(config).await {
            Ok(server) => Self { server, _folder: folder },
            Err(error) => panic!("this test needs a nats-server; run .ci/install-tools: {error}"),
        }
    }

    /// Returns the URL to which clients connect.
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Returns a bus configuration with small streams, so many tests fit on a small disk at once.
    pub fn bus_config(&self, name: &str) -> BusConfig {
        BusConfig { sizes: small_streams(), ..BusConfig::new(self.url(), name) }
    }

    /// Connects to the server under this client name and creates the streams.
    pub async fn connect_bus(&self, name: &str) -> Bus {
        self.connect_bus_with(self.bus_config(name)).await
    }

    /// Connects to the server with this configuration and creates the streams.
    pub async fn connect_bus_with(&self, config: BusConfig) -> Bus {
        let bus = Bus::connect(config).await.expect("the server's own URL is valid");
        topology::ensure_topology(&bus, ACK_WAIT).await.expect("a healthy server accepts the streams");
        bus
    }

    /// Returns the process ID of the server, or `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Kills the server with SIGKILL and returns the ID of the killed process. The supervisor restarts the
    /// server on the same port with the same data.
    pub fn kill_server(&self) -> u32 {
        let pid = self.pid().expect("the server is running");
        let process = Pid::from_raw(i32::try_from(pid).expect("a process id fits"));
        kill(process, Signal::SIGKILL).expect("our own child can be killed");
        pid
    }

    /// Waits until the server is healthy in a process other than `killed`.
    pub async fn wait_until_healthy(&self, killed: u32) {
        let mut state = self.server.subscribe_state();
        let back = state.wait_for(|state| matches!(state, ServerState::Healthy { pid } if *pid != killed));
        tokio::time::timeout(TEST_TIMEOUT, back)
            .await
            .expect("a killed server is restarted")
            .expect("the supervisor outlives the server");
    }

    /// Shuts the server down gracefully.
    pub async fn stop(self) {
        self.server.shut_down().await;
    }
}

pub(crate) const fn small_streams() -> StreamSizes {
    StreamSizes {
        intake_bytes: 64 * MIB,
        github_bytes: 32 * MIB,
        work_bytes: 16 * MIB,
        announcements_bytes: 16 * MIB,
        bodies_bytes: 64 * MIB,
    }
}

/// Enables the logs of the code under test, which are shown if a test fails. `RUST_LOG` sets the level.
pub(crate) fn init_test_logging() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Fails if another test of this process has already installed a subscriber, which does the same.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().with_ansi(false).try_init();
}
