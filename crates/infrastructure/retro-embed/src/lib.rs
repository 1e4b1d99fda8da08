#![doc = include_str!("../README.md")]

#[cfg(feature = "local")]
mod directory;
mod endpoint;
mod unit_vector;

use std::sync::Arc;

use retro_config::EmbedderConfig;
use retro_outgoing_http::OutgoingHttp;
use retro_store::EmbeddingSource;

#[cfg(feature = "local")]
pub use directory::{DirectoryEmbedder, DirectoryError};
pub use endpoint::{EndpointBounds, EndpointEmbedder, EndpointError};

/// Reason why the configured embedder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The model directory cannot be used.
    #[cfg(feature = "local")]
    #[error("embedder_dir: {0}")]
    Directory(#[from] DirectoryError),
    /// A model directory is configured, but this crate was built without the feature `local`.
    #[error(
        "embedder_dir: this program was built without embedders from a directory; build it with `cargo build --release \
         --package retro --features local`, or remove the key (embedder_url names a model behind an address)"
    )]
    WithoutLocal,
    /// The endpoint cannot be used.
    #[error("embedder_url: {0}")]
    Endpoint(#[from] EndpointError),
}

/// Fails if this build cannot load an embedder of the configured kind. Reads no file.
pub fn check_support(configured: &EmbedderConfig) -> Result<(), EmbedError> {
    if cfg!(not(feature = "local")) && matches!(configured, EmbedderConfig::Directory { .. }) {
        return Err(EmbedError::WithoutLocal);
    }
    Ok(())
}

/// Builds the configured embedding source, or returns `None` for the built-in embedder. Loads weights, but
/// sends no request.
pub fn build_source(
    configured: EmbedderConfig,
    http: &OutgoingHttp,
) -> Result<Option<Arc<dyn EmbeddingSource>>, EmbedError> {
    Ok(match configured {
        EmbedderConfig::BuiltIn => None,
        #[cfg(feature = "local")]
        EmbedderConfig::Directory { dir, scale } => Some(Arc::new(DirectoryEmbedder::load(&dir, scale)?)),
        #[cfg(not(feature = "local"))]
        EmbedderConfig::Directory { .. } => return Err(EmbedError::WithoutLocal),
        EmbedderConfig::Endpoint { url, model, dimensions, scale, key, timeout: within } => {
            let bounds = EndpointBounds { total_timeout: within };
            Some(Arc::new(EndpointEmbedder::new(&url, model, dimensions, scale, key, bounds, http)?))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    // The tests of this crate are built with the feature, so the program's own build without it is what shows the
    // error at work. Here its text is held.
    #[test]
    fn a_build_without_local_embedders_says_what_to_do() {
        let problem = EmbedError::WithoutLocal.to_string();
        for said in ["embedder_dir", "--features local", "embedder_url"] {
            assert!(problem.contains(said), "{problem}");
        }
        let directory = EmbedderConfig::Directory { dir: PathBuf::from("weights"), scale: None };
        assert_eq!(check_support(&directory).is_ok(), cfg!(feature = "local"));
        assert!(check_support(&EmbedderConfig::BuiltIn).is_ok());
    }
}
