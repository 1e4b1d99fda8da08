//! Finds a nats-server binary and rejects versions that are too old.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::error::ServerError;

const BINARY_NAME: &str = "nats-server";
/// Environment variable with the path of the binary. A configured path takes precedence.
const BINARY_VARIABLE: &str = "RETRO_NATS_SERVER";
/// Folder of the project's own tools, relative to the project's root.
const TOOLS_FOLDER: &str = ".tools/bin";
/// Oldest supported version. Older versions lose messages when they crash, or lack settings that this crate relies on.
const VERSION_MIN: (u32, u32, u32) = (2, 14, 1);
/// Timeout for the binary to print its version, which normally takes milliseconds.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the first binary found, in this order: the configured path, the environment variable, `PATH`, the project's
/// tools folder.
pub(super) fn find_binary(configured: Option<&Path>) -> Result<PathBuf, ServerError> {
    if let Some(path) = configured {
        return require_file(path.to_owned());
    }
    if let Some(path) = env::var_os(BINARY_VARIABLE).filter(|path| !path.is_empty()) {
        return require_file(path.into());
    }
    let in_path = env::var_os("PATH")
        .into_iter()
        .flat_map(|path| env::split_paths(&path).collect::<Vec<_>>())
        .map(|folder| folder.join(BINARY_NAME));
    in_path
        .chain(tool_candidates())
        .find(|path| path.is_file())
        .ok_or_else(|| ServerError::NotFound(format!("{BINARY_VARIABLE}, PATH, {TOOLS_FOLDER}")))
}

fn require_file(path: PathBuf) -> Result<PathBuf, ServerError> {
    if path.is_file() { Ok(path) } else { Err(ServerError::NotFound(path.display().to_string())) }
}

/// Returns the paths at which the binary may be: in the tools folders above the executable and above the
/// current directory. The executable is below the project's root if it was built there.
fn tool_candidates() -> impl Iterator<Item = PathBuf> {
    let starts = [env::current_exe().ok(), env::current_dir().ok()];
    starts.into_iter().flatten().flat_map(|start| {
        start.ancestors().map(|above| above.join(TOOLS_FOLDER).join(BINARY_NAME)).collect::<Vec<_>>()
    })
}

/// Returns the version of a binary. Fails if it is older than [`VERSION_MIN`] or not a nats-server.
pub(super) async fn check_version(path: &Path) -> Result<String, ServerError> {
    let not_a_server = |problem: String| ServerError::NotAServer { path: path.to_owned(), problem };
    let version_call = Command::new(path).arg("--version").kill_on_drop(true).output();
    let answer = tokio::time::timeout(VERSION_TIMEOUT, version_call)
        .await
        .map_err(|_| not_a_server(format!("no version within {} s", VERSION_TIMEOUT.as_secs())))?
        .map_err(|error| not_a_server(error.to_string()))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let Some((found, version)) = parse_version(&text) else {
        return Err(not_a_server("--version prints no version".to_owned()));
    };
    if version < VERSION_MIN {
        return Err(ServerError::TooOld { path: path.to_owned(), found });
    }
    Ok(found)
}

/// Parses a version such as `nats-server: v2.15.1`, with or without a suffix such as `-RC.1`.
fn parse_version(text: &str) -> Option<(String, (u32, u32, u32))> {
    let found = text.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    let mut parts = found.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next()?, parts.next()?, parts.next()?);
    Some((found.to_owned(), version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let version = |text: &str| parse_version(text).map(|(_, version)| version);
        assert_eq!(version("nats-server: v2.15.1\n"), Some((2, 15, 1)));
        assert_eq!(version("nats-server: v2.14.0-RC.1"), Some((2, 14, 0)));
        assert_eq!(version("something else"), None);
        assert!((2, 9, 10) < VERSION_MIN && VERSION_MIN <= (2, 14, 1) && VERSION_MIN < (2, 15, 0));
    }

    #[test]
    fn a_configured_binary_that_is_missing_is_an_error() {
        let error = find_binary(Some(Path::new("/nowhere/nats-server"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/nats-server") && error.contains(".ci/install-tools"), "{error}");
    }
}
