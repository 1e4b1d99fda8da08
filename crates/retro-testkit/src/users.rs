//! A nats-server with the users that a fleet has.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use retro_bus::{BusConfig, NatsServer};
use retro_core::id::Tenant;
use retro_events::rights::{User, password_key, users_file};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::PATIENCE;
use crate::nats::{log_to_the_test, small_streams};

/// As it is shipped.
const CONFIGURATION: &str = include_str!("../../../deploy/nats/nats.conf");

/// A nats-server that runs the configuration as it is shipped, with users for some tenants. On the loopback interface and
/// a free port, gone with the test.
#[derive(Debug)]
pub struct GuardedNats {
    address: String,
    _server: Child,
    _folder: TempDir,
}

impl GuardedNats {
    /// Starts one. Panics with what to do when there is no usable nats-server.
    pub async fn start(tenants: &[Tenant]) -> Self {
        log_to_the_test();
        let folder = TempDir::new().expect("a temporary folder can be made");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a temporary folder takes files");
        };
        write("nats.conf", &CONFIGURATION.replace("\"/data\"", "\"store\""));
        write("users.conf", &users_file(tenants));
        write("passwords.conf", &passwords(tenants));
        let (binary, _) = NatsServer::usable(None)
            .await
            .unwrap_or_else(|error| panic!("this test needs a nats-server; run .ci/install-tools: {error}"));
        let mut server = Command::new(binary)
            .args(["-c", "nats.conf", "-a", "127.0.0.1", "-p", "-1", "-m", "-1"])
            .args(["--ports_file_dir", ".", "-l", "server.log"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a program that told its version can be started");
        let address = tokio::select! {
            address = address(folder.path()) => address,
            status = server.wait() => panic!("the server did not start: {status:?}: {}", log(folder.path())),
        };
        Self { address, _server: server, _folder: folder }
    }

    /// Where a user connects to, its name and password included.
    pub fn url(&self, user: &User) -> String {
        format!("nats://{user}:{}@{}", password(user), self.address)
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The configuration of a user's connection, with small streams.
    pub fn config(&self, user: &User) -> BusConfig {
        BusConfig { sizes: small_streams(), ..BusConfig::new(self.url(user), user.to_string()) }
    }
}

/// The password of a user of a test.
pub fn password(user: &User) -> String {
    format!("secret-of-{user}")
}

fn passwords(tenants: &[Tenant]) -> String {
    User::all(tenants).iter().fold(String::new(), |mut text, user| {
        let _ = writeln!(text, "{}: \"{}\"", password_key(user), password(user));
        text
    })
}

/// Waits for the file in which the server tells its ports.
async fn address(folder: &Path) -> String {
    let told = async {
        loop {
            if let Some(address) = ports(folder) {
                return address;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.unwrap_or_else(|_| panic!("the server did not tell its ports: {}", log(folder)))
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("server.log")).unwrap_or_default()
}

/// The client address of `nats-server_<pid>.ports`, once it is written whole.
fn ports(folder: &Path) -> Option<String> {
    let mut files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let file = files.find(|file| file.path().extension().is_some_and(|extension| extension == "ports"))?;
    let text = std::fs::read_to_string(file.path()).ok()?;
    let (_, after) = text.split_once("nats://")?;
    text.ends_with('}').then(|| after.split('"').next().map(str::to_owned))?
}
