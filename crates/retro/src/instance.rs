//! How other commands find a running `retro up`: a small file in its data folder.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

/// Where a running process can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Instance {
    /// Its process id.
    pub(crate) pid: u32,
    /// Address of its NATS server.
    pub(crate) nats_url: String,
    /// Address of its HTTP side.
    pub(crate) http_url: String,
    /// Where GitHub's webhooks are taken, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bridge_url: Option<String>,
}

impl Instance {
    /// Writes the file, whole or not at all, for nobody else to read: the broker's address may hold a password.
    pub(crate) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = path(data_dir);
        let fresh = path.with_extension("json.new");
        let text = serde_json::to_string_pretty(self)?;
        let mut file = OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        let written = file.open(&fresh).and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", fresh.display()))?;
        std::fs::rename(&fresh, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads the file. Fails with what to start when there is none.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Self> {
        let path = path(data_dir);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            anyhow!(
                "{} cannot be read ({error}): is `retro up --data-dir {}` running?",
                path.display(),
                data_dir.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))
    }

    /// The instance that the folder tells of, if there is one: `None` without a file, and where it cannot be read.
    pub(crate) fn find(data_dir: &Path) -> Option<Self> {
        Self::read(data_dir).ok()
    }

    /// The address of its HTTP side. Fails on a file that somebody changed.
    pub(crate) fn http_address(&self) -> anyhow::Result<SocketAddr> {
        let address = self.http_url.strip_prefix("http://").and_then(|address| address.parse().ok());
        address.with_context(|| format!("{} is no address of a `retro up`", self.http_url))
    }

    /// Why the process that wrote the file cannot be running, in a sentence with what to do. A process that is killed
    /// leaves its file behind.
    pub(crate) fn check_alive(&self, data_dir: &Path) -> anyhow::Result<()> {
        if is_running(self.pid) {
            return Ok(());
        }
        Err(anyhow!(
            "`retro up` (pid {}) is gone and has left {}; start `retro up --data-dir {}` again, or remove the file",
            self.pid,
            path(data_dir).display(),
            data_dir.display()
        ))
    }

    /// Removes the file when the process ends in order.
    pub(crate) fn remove(data_dir: &Path) {
        let _ = std::fs::remove_file(path(data_dir));
    }
}

/// Whether a process has this id. Another program may have got it since; whoever asks further finds that out.
fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("instance.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_instance_whose_process_is_gone_says_what_to_do() {
        let of = |pid| Instance {
            pid,
            nats_url: String::new(),
            http_url: "http://127.0.0.1:1".to_owned(),
            bridge_url: None,
        };
        assert!(of(std::process::id()).check_alive(Path::new("data")).is_ok());
        // Above the largest that Linux gives out.
        let gone = of(4_194_305).check_alive(Path::new("data")).unwrap_err().to_string();
        assert!(gone.contains("pid 4194305") && gone.contains("data/instance.json"), "{gone}");
    }

    #[test]
    fn what_may_hold_a_password_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let nats_url = "nats://me:hunter2@host:4222".to_owned();
        let instance =
            Instance { pid: 1, nats_url, http_url: "http://127.0.0.1:1".to_owned(), bridge_url: None };
        instance.write(folder.path()).unwrap();
        assert_eq!(Instance::read(folder.path()).unwrap(), instance);
        let mode = std::fs::metadata(path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
