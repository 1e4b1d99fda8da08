//! Builds the clients of GitHub's REST API from the configuration.

use std::sync::Arc;

use retro_config::Config;
use retro_events::JobLogFetcher;
use retro_github_api::{ApiBounds, GithubApi, GithubLogs};

/// Returns the host whose logs can be fetched; `None` without a token.
pub(crate) fn log_host(config: &Config) -> Option<String> {
    config.github_token.as_ref().map(|_| config.github_host.clone())
}

/// Creates a client of the API; `None` without a token.
pub(crate) fn connect_api(config: &Config) -> Option<GithubApi> {
    let token = config.github_token.as_ref()?;
    let api = GithubApi::new(&config.github_host, &config.github_api_url(), token, ApiBounds::default());
    Some(api.expect("an invalid address was rejected when the configuration was loaded"))
}

/// Creates the fetcher of the investigators; `None` without a token.
pub(crate) fn job_log_fetcher(config: &Config) -> Option<Arc<dyn JobLogFetcher>> {
    let tenants = config.github_tenants();
    let tenants = tenants.expect("invalid entries were rejected when the configuration was loaded");
    Some(Arc::new(GithubLogs::new(connect_api(config)?, tenants)))
}
