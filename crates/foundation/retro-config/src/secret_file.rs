//! Reads secrets from files mounted by an orchestrator.

use std::path::Path;

use crate::secret::Secret;

/// Maximum size of a secret file, in bytes. A URL with a password takes a few hundred bytes, so a larger file
/// is not a secret.
const BYTES_MAX: u64 = 8 * 1024;

/// Returns the content of a secret file without trailing newlines. Fails with a description of the problem
/// that never contains the content.
pub(crate) fn read_secret(path: &Path) -> Result<Secret, String> {
    let describe = |problem: String| format!("{} {problem}", path.display());
    let file = std::fs::metadata(path).map_err(|error| describe(format!("cannot be read: {error}")))?;
    // Checked before reading, so a wrong path to a huge file does not exhaust memory.
    if file.len() > BYTES_MAX {
        return Err(describe(format!("holds {} bytes; a secret has at most {BYTES_MAX}", file.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| describe(format!("cannot be read: {error}")))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(describe("is empty; it must hold the secret".to_owned())),
        secret => Ok(Secret::new(secret)),
    }
}
