use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use retro_bus::server::State;
use retro_bus::{ACK_WAIT, Bus, BusConfig, NatsServer, ServerConfig, StreamSizes, topology};
use tempfile::TempDir;
use tracing_subscriber::EnvFilter;

use crate::{PATIENCE, free_port};

const MIB: u64 = 1024 * 1024;

/// A nats-server of one test: its own folder, a free port, gone with the test.
#[derive(Debug)]
pub struct TestNats {
    server: NatsServer,
    // Dropped after the server, which writes into it.
    _folder: TempDir,
}

impl TestNats {
    /// Starts one. Panics with what to do when there is no usable nats-server.
    pub async fn start() -> Self {
        log_to_the_test();
        let folder = TempDir::new().expect("a temporary folder can be made");
        // One that stays its own while it is killed and started again: the system hands out no such port by itself.
        let port = Some(free_port());
        let config = ServerConfig { binary: None, data_dir: folder.path().to_owned(), port };
        match NatsServer::start(config).await {
            Ok(server) => Self { server, _folder: folder },
            Err(error) => panic!("this test needs a nats-server; run .ci/install-tools: {error}"),
        }
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Small streams, so that many tests fit on a small disk at once.
    pub fn config(&self, name: &str) -> BusConfig {
        BusConfig { sizes: small_streams(), ..BusConfig::new(self.url(), name) }
    }

    /// A connection, with the streams made.
    pub async fn bus(&self, name: &str) -> Bus {
        self.bus_of(self.config(name)).await
    }

    /// A connection of this configuration, with the streams made.
    pub async fn bus_of(&self, config: BusConfig) -> Bus {
        let bus = Bus::connect(config).await.expect("its own address can be read");
        topology::ensure(&bus, ACK_WAIT).await.expect("a healthy server takes the streams");
        bus
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Kills it by SIGKILL and returns the process that was killed. Its supervisor starts it again on the same port and
    /// store.
    pub fn kill(&self) -> u32 {
        let pid = self.pid().expect("it is healthy before it is killed");
        let process = Pid::from_raw(i32::try_from(pid).expect("a process id fits"));
        kill(process, Signal::SIGKILL).expect("our own child can be killed");
        pid
    }

    /// Waits until another process than `killed` is healthy.
    pub async fn healthy_again(&self, killed: u32) {
        let mut state = self.server.watch();
        let back = state.wait_for(|state| matches!(state, State::Healthy { pid } if *pid != killed));
        tokio::time::timeout(PATIENCE, back)
            .await
            .expect("a killed server is started again")
            .expect("its supervisor lives as long as it");
    }

    /// Stops it in good order.
    pub async fn stop(self) {
        self.server.stop().await;
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

/// What the code under test logs is shown with a test that fails; `RUST_LOG` says how much.
pub(crate) fn log_to_the_test() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // It fails when another test of this process was first, which is as good.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().with_ansi(false).try_init();
}
