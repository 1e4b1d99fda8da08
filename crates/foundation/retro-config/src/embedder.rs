//! Selects the embedder from the `embedder_*` keys.

use std::path::PathBuf;
use std::time::Duration;

use retro_core::similarity::SimilarityScale;

use crate::config::Config;
use crate::secret::Secret;

/// Maximum length of a model name, in bytes. The name is stored with each embedding.
const MODEL_BYTES_MAX: usize = 150;

/// The embedder that the configuration selects, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbedderConfig {
    /// The embedder that is compiled into the program.
    BuiltIn,
    /// An embedder with model weights from a directory.
    Directory {
        /// Directory that contains the weights.
        dir: PathBuf,
        /// Similarity scale that overrides the one in the directory; `None` to use the directory's.
        scale: Option<SimilarityScale>,
    },
    /// An embedder that requests embeddings from an HTTP API.
    Endpoint {
        /// Base URL of the API, starting with `http://` or `https://`.
        url: String,
        /// Name of the model to request.
        model: String,
        /// Number of dimensions of the model's vectors, from 1 to 4,096.
        dimensions: usize,
        /// Similarity scale of the model's cosines.
        scale: SimilarityScale,
        /// API key, sent as a bearer token; `None` to send none.
        key: Option<Secret>,
        /// Timeout for one call to the API, including a retry.
        timeout: Duration,
    },
}

impl Config {
    /// Returns the configured embedder. Fails with the key that is wrong or missing and the reason, which
    /// cannot happen after [`load_config`](crate::load_config).
    pub fn embedder(&self) -> Result<EmbedderConfig, (&'static str, String)> {
        select_embedder(self)
    }
}

/// Returns the configured embedder. Fails with the key that is wrong or missing and the reason.
fn select_embedder(config: &Config) -> Result<EmbedderConfig, (&'static str, String)> {
    let scale = config.embedder_scale.as_deref().map(parse_scale).transpose();
    let scale = scale.map_err(|why| ("embedder_scale", why))?;
    match (&config.embedder_dir, &config.embedder_url) {
        (None, None) => select_built_in(config),
        (Some(_), Some(_)) => {
            Err(("embedder_url", "is set together with `embedder_dir`; set only one of them".to_owned()))
        }
        (Some(dir), None) => Ok(EmbedderConfig::Directory { dir: dir.clone(), scale }),
        (None, Some(url)) => build_endpoint(config, url, scale),
    }
}

/// Returns the built-in embedder. Fails if a key is set that applies only to another embedder, because the
/// user would believe that embedder to be in use.
fn select_built_in(config: &Config) -> Result<EmbedderConfig, (&'static str, String)> {
    let set = [
        ("embedder_model", config.embedder_model.is_some()),
        ("embedder_dimensions", config.embedder_dimensions > 0),
        ("embedder_scale", config.embedder_scale.is_some()),
        ("embedder_key", config.embedder_key.is_some()),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((key, _)) => Err((key, "has no effect without `embedder_url` or `embedder_dir`".to_owned())),
        None => Ok(EmbedderConfig::BuiltIn),
    }
}

fn build_endpoint(
    config: &Config,
    url: &str,
    scale: Option<SimilarityScale>,
) -> Result<EmbedderConfig, (&'static str, String)> {
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return Err(("embedder_url", format!("is {url:?}; it must begin with https:// or http://")));
    }
    // `retro config print` and messages show the URL, which must not reveal credentials.
    if url.contains('@') {
        return Err(("embedder_url", "contains an `@`; put credentials into `embedder_key`".to_owned()));
    }
    let missing = |what: &str| format!("is missing; `embedder_url` needs {what}");
    let model = config.embedder_model.clone().filter(|model| !model.trim().is_empty());
    let model = model.ok_or_else(|| ("embedder_model", missing("the name of a model")))?;
    if model.len() > MODEL_BYTES_MAX {
        let why = format!("has {} bytes; at most {MODEL_BYTES_MAX} are allowed", model.len());
        return Err(("embedder_model", why));
    }
    let dimensions = config.embedder_dimensions as usize;
    if dimensions == 0 {
        return Err(("embedder_dimensions", missing("the number of its dimensions")));
    }
    let scale = scale.ok_or_else(|| {
        let why = "is missing; the scale of this model's cosines is unknown, so give three numbers such as 430, 560, 720";
        ("embedder_scale", why.to_owned())
    })?;
    let (url, key) = (url.to_owned(), config.embedder_key.clone());
    let within = Duration::from_millis(config.embedder_timeout_ms);
    Ok(EmbedderConfig::Endpoint { url, model, dimensions, scale, key, timeout: within })
}

fn parse_scale(text: &str) -> Result<SimilarityScale, String> {
    let numbers: Vec<u16> = text.split(',').map_while(|number| number.trim().parse().ok()).collect();
    let [contradiction, tombstone, merge] = numbers[..] else {
        return Err(format!(
            "is {text:?}; it must be three whole numbers separated by commas, in thousandths"
        ));
    };
    let scale = SimilarityScale { contradiction, tombstone, merge }.validate();
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
        assert_eq!(Config::default().embedder(), Ok(EmbedderConfig::BuiltIn));
        let dir = Config { embedder_dir: Some("weights".into()), ..Config::default() };
        assert_eq!(dir.embedder(), Ok(EmbedderConfig::Directory { dir: "weights".into(), scale: None }));
        let Ok(EmbedderConfig::Endpoint { scale, dimensions, .. }) = endpoint().embedder() else {
            panic!("it is complete")
        };
        assert_eq!((scale.merge, dimensions), (720, 384));
    }

    #[test]
    fn missing_or_wrong_values_are_reported_by_key() {
        let wrong_key = |config: Config| config.embedder().unwrap_err().0;
        assert_eq!(wrong_key(Config { embedder_model: None, ..endpoint() }), "embedder_model");
        assert_eq!(wrong_key(Config { embedder_dimensions: 0, ..endpoint() }), "embedder_dimensions");
        assert_eq!(wrong_key(Config { embedder_scale: None, ..endpoint() }), "embedder_scale");
        assert_eq!(wrong_key(Config { embedder_url: Some("ftp://x".into()), ..endpoint() }), "embedder_url");
        assert_eq!(
            wrong_key(Config { embedder_url: Some("http://a:b@x".into()), ..endpoint() }),
            "embedder_url"
        );
        assert_eq!(wrong_key(Config { embedder_url: None, ..endpoint() }), "embedder_model");
        assert_eq!(wrong_key(Config { embedder_dir: Some("x".into()), ..endpoint() }), "embedder_url");
        for wrong in ["", "1, 2", "1, 2, 3, 4", "700, 600, 500", "a, b, c"] {
            assert_eq!(
                wrong_key(Config { embedder_scale: Some(wrong.into()), ..endpoint() }),
                "embedder_scale",
                "{wrong}"
            );
        }
    }
}
