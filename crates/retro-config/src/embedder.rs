//! Which embedder lessons are compared by, as the keys `embedder_*` say together.

use std::path::PathBuf;
use std::time::Duration;

use retro_core::similar::Scale;

use crate::config::Config;
use crate::secret::Secret;

/// The longest name of a model: it stands in the database with each vector.
const MODEL_BYTES_MAX: usize = 150;

/// An embedder that is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Embedder {
    /// The one that is built in.
    BuiltIn,
    /// Weights in a directory.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Holds instead of the scale that lies there.
        scale: Option<Scale>,
    },
    /// A model behind an address.
    Endpoint {
        /// The base address.
        url: String,
        /// The model's name there.
        model: String,
        /// Components of its vectors, 1 to 4,096.
        dimensions: usize,
        /// What its cosines mean.
        scale: Scale,
        /// The bearer token.
        key: Option<Secret>,
        /// How long one call may take.
        within: Duration,
    },
}

/// Fails with the key that is wrong or missing, and why.
pub(crate) fn of(config: &Config) -> Result<Embedder, (&'static str, String)> {
    let scale = config.embedder_scale.as_deref().map(scale).transpose();
    let scale = scale.map_err(|why| ("embedder_scale", why))?;
    match (&config.embedder_dir, &config.embedder_url) {
        (None, None) => idle(config),
        (Some(_), Some(_)) => {
            Err(("embedder_url", "stands beside `embedder_dir`: one embedder is wanted, not two".to_owned()))
        }
        (Some(dir), None) => Ok(Embedder::Directory { dir: dir.clone(), scale }),
        (None, Some(url)) => endpoint(config, url, scale),
    }
}

/// Nothing of an embedder that is not there may be set: it would seem to be in use.
fn idle(config: &Config) -> Result<Embedder, (&'static str, String)> {
    let set = [
        ("embedder_model", config.embedder_model.is_some()),
        ("embedder_dimensions", config.embedder_dimensions > 0),
        ("embedder_scale", config.embedder_scale.is_some()),
        ("embedder_key", config.embedder_key.is_some()),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((key, _)) => Err((key, "is of no use without `embedder_url` or `embedder_dir`".to_owned())),
        None => Ok(Embedder::BuiltIn),
    }
}

fn endpoint(config: &Config, url: &str, scale: Option<Scale>) -> Result<Embedder, (&'static str, String)> {
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err(("embedder_url", format!("is {url:?}; it must begin with https:// or http://")));
    }
    if url.contains('@') {
        return Err(("embedder_url", "holds an `@`: credentials belong into `embedder_key`".to_owned()));
    }
    let missing = |what: &str| format!("is missing: `embedder_url` is asked for {what}");
    let model = config.embedder_model.clone().filter(|model| !model.trim().is_empty());
    let model = model.ok_or_else(|| ("embedder_model", missing("a model by its name")))?;
    if model.len() > MODEL_BYTES_MAX {
        let why = format!("has {} bytes; at most {MODEL_BYTES_MAX} can be", model.len());
        return Err(("embedder_model", why));
    }
    let dimensions = config.embedder_dimensions as usize;
    if dimensions == 0 {
        return Err(("embedder_dimensions", missing("vectors of a known length")));
    }
    let scale = scale.ok_or_else(|| {
        let why = "is missing: nobody knows what the cosines of this model mean; three numbers are wanted, such as 430, 560, 720";
        ("embedder_scale", why.to_owned())
    })?;
    let (url, key) = (url.to_owned(), config.embedder_key.clone());
    let within = Duration::from_millis(config.embedder_ms);
    Ok(Embedder::Endpoint { url, model, dimensions, scale, key, within })
}

fn scale(text: &str) -> Result<Scale, String> {
    let numbers: Vec<u16> = text.split(',').map_while(|number| number.trim().parse().ok()).collect();
    let [contradiction, tombstone, merge] = numbers[..] else {
        return Err(format!(
            "is {text:?}; three whole numbers with commas between are wanted, in thousandths"
        ));
    };
    let scale = Scale { contradiction, tombstone, merge }.check();
    scale.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Config {
        Config {
            embedder_url: Some("http://127.0.0.1:8080/v1".into()),
            embedder_model: Some("small".into()),
            embedder_dimensions: 384,
            embedder_scale: Some("430, 560, 720".into()),
            ..Config::default()
        }
    }

    #[test]
    fn one_of_three_embedders_is_configured() {
        assert_eq!(Config::default().embedder(), Ok(Embedder::BuiltIn));
        let dir = Config { embedder_dir: Some("weights".into()), ..Config::default() };
        assert_eq!(dir.embedder(), Ok(Embedder::Directory { dir: "weights".into(), scale: None }));
        let Ok(Embedder::Endpoint { scale, dimensions, .. }) = endpoint().embedder() else {
            panic!("it is whole")
        };
        assert_eq!((scale.merge, dimensions), (720, 384));
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_by_its_key() {
        let told = |config: Config| config.embedder().unwrap_err().0;
        assert_eq!(told(Config { embedder_model: None, ..endpoint() }), "embedder_model");
        assert_eq!(told(Config { embedder_dimensions: 0, ..endpoint() }), "embedder_dimensions");
        assert_eq!(told(Config { embedder_scale: None, ..endpoint() }), "embedder_scale");
        assert_eq!(told(Config { embedder_url: Some("ftp://x".into()), ..endpoint() }), "embedder_url");
        assert_eq!(told(Config { embedder_url: Some("http://a:b@x".into()), ..endpoint() }), "embedder_url");
        assert_eq!(told(Config { embedder_url: None, ..endpoint() }), "embedder_model");
        assert_eq!(told(Config { embedder_dir: Some("x".into()), ..endpoint() }), "embedder_url");
        for wrong in ["", "1, 2", "1, 2, 3, 4", "700, 600, 500", "a, b, c"] {
            assert_eq!(
                told(Config { embedder_scale: Some(wrong.into()), ..endpoint() }),
                "embedder_scale",
                "{wrong}"
            );
        }
    }
}
