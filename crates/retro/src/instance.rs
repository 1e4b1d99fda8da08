//! How other commands find a running `retro up`: a small file in its data folder.

use std::fs::OpenOptions;
use std::io::Write as _;
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

    /// Removes the file when the process ends in order.
    pub(crate) fn remove(data_dir: &Path) {
        let _ = std::fs::remove_file(path(data_dir));
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("instance.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

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
