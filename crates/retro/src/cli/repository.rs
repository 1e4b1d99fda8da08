//! Parses the names of repositories.

use retro_core::id::Repository;

pub(crate) fn parse_repository(text: &str) -> Result<Repository, String> {
    Repository::new(text).map_err(|error| error.to_string())
}
