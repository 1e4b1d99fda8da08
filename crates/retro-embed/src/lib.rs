#![doc = include_str!("../README.md")]

mod breaker;
mod directory;
mod endpoint;

use std::sync::Arc;

use retro_config::Embedder;
use retro_store::VectorSource;

pub use directory::{Directory, DirectoryError};
pub use endpoint::{Bounds, Endpoint, EndpointError};

/// Why the configured embedder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// Its directory.
    #[error("embedder_dir: {0}")]
    Directory(#[from] DirectoryError),
    /// Its address.
    #[error("embedder_url: {0}")]
    Endpoint(#[from] EndpointError),
}

/// The source that is configured; `None`: the built-in embedder. Reads weights, asks nobody.
pub fn source(configured: Embedder) -> Result<Option<Arc<dyn VectorSource>>, EmbedError> {
    Ok(match configured {
        Embedder::BuiltIn => None,
        Embedder::Directory { dir, scale } => Some(Arc::new(Directory::load(&dir, scale)?)),
        Embedder::Endpoint { url, model, dimensions, scale, key, within } => {
            let bounds = Bounds { whole: within };
            Some(Arc::new(Endpoint::new(&url, model, dimensions, scale, key, bounds)?))
        }
    })
}

/// What a component of a vector of length 1 is multiplied by.
const UNIT: f64 = 10_000.0;

/// A vector of floats as integers: of length 1, times [`UNIT`], rounded. `None` when a component is no number. What has no
/// direction has none here.
fn integers(vector: &[f64]) -> Option<Vec<i32>> {
    if !vector.iter().all(|x| x.is_finite()) {
        return None;
    }
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    // No component of a vector of length 1 is larger than 1.
    let scaled = |x: &f64| if length > 0.0 { (x / length * UNIT).round() as i32 } else { 0 };
    Some(vector.iter().map(scaled).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_integers_of_one_length() {
        assert_eq!(integers(&[3.0, -4.0]), Some(vec![6000, -8000]));
        assert_eq!(integers(&[30.0, -40.0]), integers(&[3.0, -4.0]), "only the direction counts");
        assert_eq!(integers(&[0.0, 0.0]), Some(vec![0, 0]));
        assert_eq!(integers(&[1.0, f64::NAN]), None);
        assert_eq!(integers(&[1.0, f64::INFINITY]), None);
    }
}
