//! Reads and writes `instance.json`, a file in the data folder by which other commands find a running
//! `retro up`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

/// Addresses of a running `retro up`, recorded in its data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Instance {
    /// Process id.
    pub(crate) pid: u32,
    /// URL of the broker, including the credential.
    pub(crate) nats_url: String,
    /// URL of the HTTP API.
    pub(crate) http_url: String,
    /// URL for GitHub's webhooks; `None` if the process has no bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bridge_url: Option<String>,
}

impl Instance {
    /// Returns the path of the file of a data folder.
    pub(crate) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("instance.json")
    }

    /// Writes the file atomically and readable only by its owner, because the broker's URL may contain a
    /// password.
    pub(crate) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = Self::path(data_dir);
        let fresh = path.with_extension("json.new");
        let text = serde_json::to_string_pretty(self)?;
        let mut file = OpenOptions::new();
        // Created with private permissions, so no other user can ever read it.
        file.write(true).create(true).truncate(true).mode(0o600);
        let written = file.open(&fresh).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", fresh.display()))?;
        std::fs::rename(&fresh, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the file. Fails with a hint about `retro up` if the file does not exist.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Self> {
        let path = Self::path(data_dir);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            anyhow!(
                "{} cannot be read ({error}): is `retro up --data-dir {}` running?",
                path.display(),
                data_dir.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))
    }

    /// Returns the recorded instance, or `None` if the file is missing or cannot be read.
    pub(crate) fn find(data_dir: &Path) -> Option<Self> {
        Self::read(data_dir).ok()
    }

    /// Returns the socket address of the HTTP API. Fails if the recorded URL is invalid.
    pub(crate) fn http_address(&self) -> anyhow::Result<SocketAddr> {
        let (_, address) = self.http_url.split_once("://").unwrap_or_default();
        let address = address.parse().ok();
        address.with_context(|| format!("{} is not an address of a `retro up`", self.http_url))
    }

    /// Returns `true` if the HTTP API speaks TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        self.http_url.starts_with("https:")
    }

    /// Fails with advice if the process that wrote the file no longer exists: a killed process leaves its
    /// file behind.
    pub(crate) fn check_alive(&self, data_dir: &Path) -> anyhow::Result<()> {
        if is_running(self.pid) {
            return Ok(());
        }
        Err(anyhow!(
            "`retro up` (pid {}) no longer runs but has left {}; start `retro up --data-dir {}` again, or \
             remove the file",
            self.pid,
            Self::path(data_dir).display(),
            data_dir.display()
        ))
    }

    /// Removes the file, at the end of a graceful shutdown.
    pub(crate) fn remove(data_dir: &Path) {
        let _ = std::fs::remove_file(Self::path(data_dir));
    }
}

/// Returns `true` if a process with this id exists. It may be a different program by now; only a request to
/// the recorded address can tell.
fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_instance_without_its_process_says_what_to_do() {
        let of = |pid| Instance {
            pid,
            nats_url: String::new(),
            http_url: "http://127.0.0.1:1".to_owned(),
            bridge_url: None,
        };
        assert!(of(std::process::id()).check_alive(Path::new("data")).is_ok());
        // One more than Linux's largest process id.
        let gone = of(4_194_305).check_alive(Path::new("data")).unwrap_err().to_string();
        assert!(gone.contains("pid 4194305") && gone.contains("data/instance.json"), "{gone}");
    }

    #[test]
    fn the_file_is_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let nats_url = "nats://me:hunter2@host:4222".to_owned();
        let instance =
            Instance { pid: 1, nats_url, http_url: "http://127.0.0.1:1".to_owned(), bridge_url: None };
        instance.write(folder.path()).unwrap();
        assert_eq!(Instance::read(folder.path()).unwrap(), instance);
        let mode = std::fs::metadata(Instance::path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
