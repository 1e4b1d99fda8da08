//! Builds the clients of GitHub's REST API from the configuration.

use std::sync::Arc;

use retro_config::Config;
use retro_events::JobLogFetcher;
use retro_github_api::{ApiBounds, GithubApi, GithubLogs};

use crate::outgoing::build_outgoing_http;

/// Returns the host whose logs can be fetched; `None` without a token.
pub(crate) fn log_host(config: &Config) -> Option<String> {
    config.github_token.as_ref().map(|_| config.github_host.clone())
}

/// Creates a client of the API; `None` without a token.
pub(crate) fn connect_api(config: &Config) -> anyhow::Result<Option<GithubApi>> {
    let Some(token) = &config.github_token else { return Ok(None) };
    let (host, url) = (&config.github_host, config.github_api_url());
    let api = GithubApi::new(host, &url, token, ApiBounds::default(), &build_outgoing_http(config)?);
    Ok(Some(api.expect("an invalid address was rejected when the configuration was loaded")))
}

/// Creates the fetcher of the investigators; `None` without a token.
pub(crate) fn job_log_fetcher(config: &Config) -> anyhow::Result<Option<Arc<dyn JobLogFetcher>>> {
    let Some(api) = connect_api(config)? else { return Ok(None) };
    let tenants = config.github_tenants();
    let tenants = tenants.expect("invalid entries were rejected when the configuration was loaded");
    Ok(Some(Arc::new(GithubLogs::new(api, tenants))))
}
