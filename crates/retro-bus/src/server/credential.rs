//! The credential by which the supervised server knows its clients, so that it takes nobody else on the machine.
//!
//! It is generated from the system's randomness at the first start and lies in the server's folder, for its owner alone. The
//! server has it by its configuration file, clients by the address that [`NatsServer::url`](super::NatsServer::url)
//! gives: never by an argument or a variable, which other users of the machine may see. Whoever takes the file away has another
//! one generated at the next start.

use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::ServerError;
use super::private::{close_to_others, create_private};

/// The name under which clients log in.
pub(super) const USER: &str = "retro";
/// Its password alone, and a line break.
const FILE: &str = "credential";
/// As strong as the hash of a key; twice as many hex digits.
const RANDOM_BYTES: usize = 32;
/// Shorter than what is generated: who writes one by hand is held to something that nobody guesses.
const CHARS_MIN: usize = 32;
/// Far beyond any generator, and a short line of the server's configuration.
const CHARS_MAX: usize = 256;

/// A password for the server.
pub(super) struct Credential(String);

impl Credential {
    /// Reads the credential of a server's folder, or generates it when there is none. Fails when it cannot be used, with what to do.
    pub(super) fn load_or_generate(folder: &Path) -> Result<Self, ServerError> {
        let path = path(folder);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::generate(&path),
            text => text.map_err(ServerError::io(format!("read {}", path.display())))?,
        };
        let password = text.trim_end();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !(CHARS_MIN..=CHARS_MAX).contains(&password.len()) || !password.chars().all(plain) {
            return Err(ServerError::Credential(path));
        }
        // One that was written by hand may be open to others.
        close_to_others(&path)?;
        Ok(Self(password.to_owned()))
    }

    fn generate(path: &Path) -> Result<Self, ServerError> {
        let mut bytes = [0; RANDOM_BYTES];
        let drawn = fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
        drawn.map_err(ServerError::io("draw a credential from /dev/urandom"))?;
        let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        create_private(path, format!("{password}\n").as_bytes())?;
        Ok(Self(password))
    }

    /// The server's address with user and password. For whoever connects, and for no log.
    pub(super) fn url(&self, address: &str) -> String {
        format!("nats://{USER}:{}@{address}", self.0)
    }

    /// For the server's configuration file.
    pub(super) fn password(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(***)")
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_credential_is_generated_once_for_its_owner_alone_and_shown_to_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let first = Credential::load_or_generate(folder.path()).unwrap();
        let again = Credential::load_or_generate(folder.path()).unwrap();
        assert_eq!((first.password().len(), first.password()), (64, again.password()));
        let mode = fs::metadata(path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!format!("{first:?}").contains(first.password()));

        fs::remove_file(path(folder.path())).unwrap();
        let other = Credential::load_or_generate(folder.path()).unwrap();
        assert_ne!(other.password(), first.password());
    }

    #[test]
    fn one_that_can_be_guessed_or_would_end_its_line_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let long = "a".repeat(300);
        for bad in ["", "short", "with \" quotes and spaces, long enough to be one", long.as_str()] {
            fs::write(path(folder.path()), bad).unwrap();
            let error = Credential::load_or_generate(folder.path()).unwrap_err().to_string();
            assert!(error.contains("credential") && error.contains("delete it"), "{error}");
        }
        fs::write(path(folder.path()), "by-hand_0123456789012345678901234567\n").unwrap();
        assert_eq!(Credential::load_or_generate(folder.path()).unwrap().password().len(), 36);
    }
}
