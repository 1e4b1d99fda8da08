//! Selects the language model from the `model_*` keys.

use std::path::PathBuf;
use std::time::Duration;

use retro_core::model_use::{ModelPrice, SpendingLimit};

use crate::config::Config;
use crate::model_protocol::ModelProtocol;
use crate::model_use::ModelUse;
use crate::secret::Secret;

/// Maximum length of a model name, in bytes. The name is stored with each call.
const MODEL_BYTES_MAX: usize = 150;

/// The language model that the configuration selects, with its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// Who answers.
    pub source: ModelSource,
    /// Name of the model.
    pub model: String,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Maximum time that one call waits between its requests.
    pub wait: Duration,
    /// Maximum number of requests at once.
    pub concurrency: usize,
    /// What the model is used for.
    pub used_for: ModelUse,
    /// Time after which no further call is begun for one review.
    pub review_timeout: Duration,
    /// Maximum number of tokens of one answer.
    pub output_tokens_max: u32,
    /// Price of the model; `None` if it is not known.
    pub price: Option<ModelPrice>,
    /// Budget of one day, in UTC, over all tenants and workflows. The pipelines have the others.
    pub day: SpendingLimit,
    /// Folder in which answers are recorded; `None` to record none.
    pub record_dir: Option<PathBuf>,
}

/// Who answers as the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// An HTTP endpoint.
    Endpoint {
        /// Base URL, starting with `http://` or `https://`.
        url: String,
        /// Protocol of the endpoint.
        protocol: ModelProtocol,
        /// API key; `None` to send none.
        key: Option<Secret>,
    },
    /// Whoever answers the files in a folder.
    Folder(PathBuf),
    /// Recorded answers in a folder.
    Cassettes(PathBuf),
}

type Refused = (&'static str, String);

impl Config {
    /// Returns the configured language model; `None` if none is configured. Fails with the key that is wrong or missing
    /// and the reason, which cannot happen after [`load_config`](crate::load_config).
    pub fn language_model(&self) -> Result<Option<ModelConfig>, Refused> {
        let prices = parse_prices(&self.model_prices).map_err(|why| ("model_prices", why))?;
        let Some(url) = &self.model_url else { return find_idle_key(self).map_or(Ok(None), Err) };
        let missing = "is missing; `model_url` needs the name of a model";
        let model = self.model.clone().filter(|model| !model.trim().is_empty());
        let model = model.ok_or_else(|| ("model", missing.to_owned()))?;
        if model.len() > MODEL_BYTES_MAX {
            return Err((
                "model",
                format!("has {} bytes; at most {MODEL_BYTES_MAX} are allowed", model.len()),
            ));
        }
        let price = prices.into_iter().find(|(name, _)| *name == model).map(|(_, price)| price);
        Ok(Some(ModelConfig {
            source: parse_source(self, url)?,
            timeout: Duration::from_secs(self.model_timeout_s),
            wait: Duration::from_secs(self.model_wait_s),
            concurrency: self.model_concurrency as usize,
            used_for: self.model_use,
            review_timeout: Duration::from_secs(self.model_review_timeout_s),
            output_tokens_max: self.model_output_tokens_max,
            day: build_day_limit(self, &model, price.is_some())?,
            record_dir: self.model_record_dir.clone(),
            price,
            model,
        }))
    }
}

/// Returns the first key that has no effect without `model_url`, because the user would believe a model to be in use.
fn find_idle_key(config: &Config) -> Option<Refused> {
    let set = [
        ("model", config.model.is_some()),
        ("model_key", config.model_key.is_some()),
        ("model_record_dir", config.model_record_dir.is_some()),
    ];
    let (key, _) = set.into_iter().find(|(_, set)| *set)?;
    Some((key, "has no effect without `model_url`".to_owned()))
}

fn parse_source(config: &Config, url: &str) -> Result<ModelSource, Refused> {
    let folder = |path: &str| match path {
        "" => Err(("model_url", format!("is {url:?}, which names no folder"))),
        path => Ok(PathBuf::from(path)),
    };
    if let Some(path) = url.strip_prefix("file:") {
        return folder(path).map(ModelSource::Folder);
    }
    if let Some(path) = url.strip_prefix("cassettes:") {
        return folder(path).map(ModelSource::Cassettes);
    }
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        let wanted = "it must begin with https://, http://, file: or cassettes:";
        return Err(("model_url", format!("is {url:?}; {wanted}")));
    }
    // `retro config print` and messages show the URL, which must not reveal credentials.
    if url.contains('@') {
        return Err(("model_url", "contains an `@`; put the key into `model_key_file`".to_owned()));
    }
    if config.model_key.as_ref().is_some_and(|key| !key.expose().bytes().all(|byte| byte.is_ascii_graphic()))
    {
        return Err(("model_key", "has blanks or control characters in it".to_owned()));
    }
    let key = config.model_key.clone();
    Ok(ModelSource::Endpoint { url: url.to_owned(), protocol: config.model_protocol, key })
}

fn build_day_limit(config: &Config, model: &str, has_price: bool) -> Result<SpendingLimit, Refused> {
    // A budget that cannot be measured would never stop anything.
    if config.model_budget_day_cents > 0 && !has_price {
        return Err(("model_budget_day_cents", format!("needs the price of {model} in `model_prices`")));
    }
    Ok(SpendingLimit::new(config.model_budget_day_tokens, config.model_budget_day_cents))
}

/// Parses the price table. Fails with the first entry that is no price.
fn parse_prices(text: &str) -> Result<Vec<(String, ModelPrice)>, String> {
    let entries = text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let wanted = || {
                format!("has the entry {entry:?}; it must be `model = input / cached / output` in US dollars")
            };
            let (model, prices) = entry.split_once(" = ").ok_or_else(wanted)?;
            let prices: Vec<u64> =
                prices.split('/').map_while(|price| parse_micro_usd(price.trim())).collect();
            let [input, cached, output] = prices[..] else { return Err(wanted()) };
            Ok((model.trim().to_owned(), ModelPrice { input, cached, output }))
        })
        .collect()
}

/// Parses US dollars with at most six decimals into millionths.
fn parse_micro_usd(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
        return None;
    }
    let fraction: u64 = format!("{decimals:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Config {
        Config {
            model_url: Some("http://127.0.0.1:8080/v1".into()),
            model: Some("small".into()),
            model_prices: "large = 3 / 0.3 / 15, small = 0.25 / 0.025 / 2.00".into(),
            ..Config::default()
        }
    }

    #[test]
    fn an_endpoint_a_folder_or_cassettes_can_be_the_model() {
        assert_eq!(Config::default().language_model(), Ok(None));
        let model = endpoint().language_model().unwrap().unwrap();
        assert_eq!(model.price, Some(ModelPrice { input: 250_000, cached: 25_000, output: 2_000_000 }));
        assert_eq!(model.day, SpendingLimit { tokens: 10_000_000, micro_usd: 0 });
        let source = |url: &str| {
            let config = Config { model_url: Some(url.into()), ..endpoint() };
            config.language_model().unwrap().unwrap().source
        };
        assert_eq!(source("file:/tmp/m"), ModelSource::Folder("/tmp/m".into()));
        assert_eq!(source("cassettes:tapes"), ModelSource::Cassettes("tapes".into()));
        let paid = Config { model_budget_day_cents: 250, ..endpoint() };
        assert_eq!(paid.language_model().unwrap().unwrap().day.micro_usd, 2_500_000);
    }

    #[test]
    fn missing_or_wrong_values_are_reported_by_key() {
        let wrong_key = |config: Config| config.language_model().unwrap_err().0;
        assert_eq!(wrong_key(Config { model: None, ..endpoint() }), "model");
        assert_eq!(wrong_key(Config { model: Some("m".repeat(151)), ..endpoint() }), "model");
        for url in ["ftp://x", "http://a:b@x", "file:", "cassettes:", "x"] {
            assert_eq!(wrong_key(Config { model_url: Some(url.into()), ..endpoint() }), "model_url", "{url}");
        }
        assert_eq!(wrong_key(Config { model_url: None, ..endpoint() }), "model", "it would have no effect");
        assert_eq!(wrong_key(Config { model_key: Some(Secret::new("a b")), ..endpoint() }), "model_key");
        let unpriced = Config { model_budget_day_cents: 1, model_prices: String::new(), ..endpoint() };
        assert_eq!(wrong_key(unpriced), "model_budget_day_cents");
        for wrong in
            ["small", "small = 1 / 2", "small = 1 / 2 / x", "small = 1 / 2 / 0.0000001", "small = -1 / 2 / 3"]
        {
            assert_eq!(
                wrong_key(Config { model_prices: wrong.into(), ..endpoint() }),
                "model_prices",
                "{wrong}"
            );
        }
    }
}
