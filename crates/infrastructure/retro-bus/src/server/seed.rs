//! Generates the seeds of the users of a broker with nkeys.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use nkeys::KeyPair;

use super::error::ServerError;
use super::private_files::{create_private_file, create_private_folder};

/// Returns the public nkey of the seed in a file. Generates the seed first if the file is missing; only its owner may read
/// it. Fails if the file cannot be read or written, or contains no seed.
pub fn ensure_seed_file(path: &Path) -> Result<String, ServerError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return generate_seed_file(path),
        text => text.map_err(ServerError::io_error(format!("read {}", path.display())))?,
    };
    let pair = KeyPair::from_seed(text.trim()).map_err(|_| ServerError::Seed(path.to_owned()))?;
    Ok(pair.public_key())
}

fn generate_seed_file(path: &Path) -> Result<String, ServerError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        create_private_folder(folder)?;
    }
    let pair = KeyPair::new_user();
    let seed = pair.seed().expect("a new key pair has its seed");
    create_private_file(path, format!("{seed}\n").as_bytes())?;
    Ok(pair.public_key())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_seed_is_generated_once_and_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seeds/counter.nk");
        let key = ensure_seed_file(&path).unwrap();
        assert!(key.starts_with('U'), "{key}");
        assert_eq!(ensure_seed_file(&path).unwrap(), key);
        for closed in [path.as_path(), path.parent().unwrap()] {
            assert_eq!(fs::metadata(closed).unwrap().permissions().mode() & 0o077, 0);
        }
        fs::write(&path, "SUnothing").unwrap();
        let error = ensure_seed_file(&path).unwrap_err().to_string();
        assert!(error.contains("counter.nk") && !error.contains("SUnothing"), "{error}");
    }
}
