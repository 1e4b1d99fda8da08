//! Reads secrets from files that an orchestrator mounts.

use std::path::Path;

use crate::secret::Secret;

/// Maximum size of a secret's file in bytes. An address with a password has a few hundred bytes, so a larger file is
/// not a secret.
const BYTES_MAX: u64 = 8 * 1024;

/// Returns the content of the file without the newline at its end. Fails with a description of the problem that never
/// contains the content.
pub(crate) fn read_secret(path: &Path) -> Result<Secret, String> {
    let describe = |problem: String| format!("{} {problem}", path.display());
    let file = std::fs::metadata(path).map_err(|error| describe(format!("cannot be read: {error}")))?;
    // Checked before reading, so that a wrong path to a huge file does not fill the memory.
    if file.len() > BYTES_MAX {
        return Err(describe(format!("holds {} bytes; a secret has at most {BYTES_MAX}", file.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| describe(format!("cannot be read: {error}")))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(describe("is empty; it must hold the secret".to_owned())),
        secret => Ok(Secret::new(secret)),
    }
}
