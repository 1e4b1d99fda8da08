//! The credential with which clients log in to the supervised server, so that it accepts nobody else on the
//! machine.
//!
//! It is generated from the system's randomness at the first start and stored in the server's folder, readable
//! by its owner only. The server reads it from its configuration file, and clients get it in the URL from
//! [`NatsServer::url`](super::NatsServer::url). It is never passed as an argument or a variable, which other
//! users of the machine may see. If the file is deleted, the next start generates another one.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::ServerError;
use super::private_files::{create_private_file, restrict_to_owner};

/// User name of the clients.
pub(super) const USER: &str = "retro";
/// File name. The file holds only the password and a line break.
const FILE_NAME: &str = "credential";
/// Number of random bytes in a generated password, as strong as a SHA-256 key. They are written as twice as
/// many hex digits.
const RANDOM_BYTES: usize = 32;
/// Shortest password; shorter than a generated one. A password that is written by hand must also be hard to
/// guess.
const CHARS_MIN: usize = 32;
/// Longest password: far beyond any generator, and still a short line of the server's configuration.
const CHARS_MAX: usize = 256;

/// A password for the server.
pub(super) struct Credential(String);

impl Credential {
    /// Reads the credential from a server's folder, or generates it if there is none. Fails when it cannot be
    /// used; the error says what to do.
    pub(super) fn load_or_generate(folder: &Path) -> Result<Self, ServerError> {
        let path = credential_path(folder);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::generate(&path),
            text => text.map_err(ServerError::io_error(format!("read {}", path.display())))?,
        };
        let password = text.trim_end();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !(CHARS_MIN..=CHARS_MAX).contains(&password.len()) || !password.chars().all(plain) {
            return Err(ServerError::Credential(path));
        }
        // A file written by hand may be readable by others.
        restrict_to_owner(&path)?;
        Ok(Self(password.to_owned()))
    }

    fn generate(path: &Path) -> Result<Self, ServerError> {
        let mut bytes = [0; RANDOM_BYTES];
        let drawn = fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
        drawn.map_err(ServerError::io_error("draw a credential from /dev/urandom"))?;
        let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        create_private_file(path, format!("{password}\n").as_bytes())?;
        Ok(Self(password))
    }

    /// Returns the server's URL with user and password, for clients. It must not be logged.
    pub(super) fn url(&self, address: &str) -> String {
        format!("nats://{USER}:{}@{address}", self.0)
    }

    /// Returns the password, for the server's configuration file.
    pub(super) fn password(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(***)")
    }
}

fn credential_path(folder: &Path) -> PathBuf {
    folder.join(FILE_NAME)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_credential_is_generated_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let first = Credential::load_or_generate(folder.path()).unwrap();
        let again = Credential::load_or_generate(folder.path()).unwrap();
        assert_eq!((first.password().len(), first.password()), (64, again.password()));
        let mode = fs::metadata(credential_path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!format!("{first:?}").contains(first.password()));

        fs::remove_file(credential_path(folder.path())).unwrap();
        let other = Credential::load_or_generate(folder.path()).unwrap();
        assert_ne!(other.password(), first.password());
    }

    #[test]
    fn a_weak_or_malformed_credential_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let long = "a".repeat(300);
        for bad in ["", "short", "with \" quotes and spaces, long enough to be one", long.as_str()] {
            fs::write(credential_path(folder.path()), bad).unwrap();
            let error = Credential::load_or_generate(folder.path()).unwrap_err().to_string();
            assert!(error.contains("credential") && error.contains("delete it"), "{error}");
        }
        fs::write(credential_path(folder.path()), "by-hand_0123456789012345678901234567\n").unwrap();
        assert_eq!(Credential::load_or_generate(folder.path()).unwrap().password().len(), 36);
    }
}
