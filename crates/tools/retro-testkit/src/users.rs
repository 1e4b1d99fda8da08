//! Starts a nats-server with the users and permissions of a deployment, for tests.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use retro_bus::{BusConfig, NatsServer};
use retro_core::id::Tenant;
use retro_events::permissions::{BrokerUser, password_key, render_users_file};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::TEST_TIMEOUT;
use crate::nats::{init_test_logging, small_streams};

/// Broker configuration as shipped in `deploy/nats`.
const CONFIGURATION: &str = include_str!("../../../../deploy/nats/nats.conf");

/// A nats-server on a free loopback port, with the shipped configuration and the users of some tenants. Stops
/// when dropped.
#[derive(Debug)]
pub struct SecuredNats {
    address: String,
    // Declared before the folder, so the server is killed before its folder is removed.
    _server: Child,
    _folder: TempDir,
}

impl SecuredNats {
    /// Starts a server with the users of these tenants. Panics with installation instructions if there is no
    /// usable nats-server.
    pub async fn start(tenants: &[Tenant]) -> Self {
        init_test_logging();
        let folder = TempDir::new().expect("a temporary folder can be made");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a temporary folder is writable");
        };
        // The shipped store folder exists only in the container.
        write("nats.conf", &CONFIGURATION.replace("\"/data\"", "\"store\""));
        write("users.conf", &render_users_file(tenants));
        write("passwords.conf", &render_passwords(tenants));
        let (binary, _) = NatsServer::find_usable(None)
            .await
            .unwrap_or_else(|error| panic!("this test needs a nats-server; run .ci/install-tools: {error}"));
        let mut server = Command::new(binary)
            .args(["-c", "nats.conf", "-a", "127.0.0.1", "-p", "-1", "-m", "-1"])
            .args(["--ports_file_dir", ".", "-l", "server.log"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a nats-server that printed its version can be started");
        let address = tokio::select! {
            address = wait_for_address(folder.path()) => address,
            status = server.wait() => panic!("the server did not start: {status:?}: {}", read_log(folder.path())),
        };
        Self { address, _server: server, _folder: folder }
    }

    /// Returns the server's URL for this user, including name and password.
    pub fn url(&self, user: &BrokerUser) -> String {
        format!("nats://{user}:{}@{}", test_password(user), self.address)
    }

    /// Returns the host and port of the server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns a bus configuration that connects as this user and creates small streams.
    pub fn bus_config(&self, user: &BrokerUser) -> BusConfig {
        BusConfig { sizes: small_streams(), ..BusConfig::new(self.url(user), user.to_string()) }
    }
}

/// Returns the password that tests assign to a user.
pub fn test_password(user: &BrokerUser) -> String {
    format!("secret-of-{user}")
}

fn render_passwords(tenants: &[Tenant]) -> String {
    BrokerUser::list_all(tenants).iter().fold(String::new(), |mut text, user| {
        let _ = writeln!(text, "{}: \"{}\"", password_key(user), test_password(user));
        text
    })
}

/// Waits until the server has written its ports to a file in `folder`, and returns its client address.
async fn wait_for_address(folder: &Path) -> String {
    let ports = async {
        loop {
            if let Some(address) = read_client_address(folder) {
                return address;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ports = tokio::time::timeout(TEST_TIMEOUT, ports).await;
    ports.unwrap_or_else(|_| panic!("the server did not write its ports file: {}", read_log(folder)))
}

fn read_log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("server.log")).unwrap_or_default()
}

/// Reads the client address from `nats-server_<pid>.ports`. Returns `None` until the file is complete.
fn read_client_address(folder: &Path) -> Option<String> {
    let mut files = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let file = files.find(|file| file.path().extension().is_some_and(|extension| extension == "ports"))?;
    let text = std::fs::read_to_string(file.path()).ok()?;
    let (_, after) = text.split_once("nats://")?;
    // The server writes the file in place, so only the closing brace shows that the file is complete.
    text.ends_with('}').then(|| after.split('"').next().map(str::to_owned))?
}
