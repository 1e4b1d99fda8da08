//! Secrets that lie in files, as an orchestrator mounts them.

use std::path::Path;

use crate::secret::Secret;

/// Bytes of a secret at most: an address with a password is a few hundred, and a larger file is another one.
const BYTES_MAX: u64 = 8 * 1024;

/// What the file holds, without the newline at its end. Fails with what is wrong, never with what it holds.
pub(crate) fn read(path: &Path) -> Result<Secret, String> {
    let told = |problem: String| format!("{} {problem}", path.display());
    let file = std::fs::metadata(path).map_err(|error| told(format!("cannot be read: {error}")))?;
    if file.len() > BYTES_MAX {
        return Err(told(format!("holds {} bytes; a secret has at most {BYTES_MAX}", file.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| told(format!("cannot be read: {error}")))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(told("is empty; it must hold the secret".to_owned())),
        secret => Ok(Secret::new(secret)),
    }
}
