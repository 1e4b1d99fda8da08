//! Configures the HTTP client of requests to models, embedders and GitHub's API.

use anyhow::anyhow;
use retro_config::Config;
use retro_outgoing_http::OutgoingHttp;

/// Returns the configuration of the clients. Fails with the key whose value cannot be used. Sends no request.
pub(crate) fn build_outgoing_http(config: &Config) -> anyhow::Result<OutgoingHttp> {
    let proxy = config.outgoing_proxy.as_ref().map(retro_config::Secret::expose);
    OutgoingHttp::new(config.outgoing_ca_file.as_deref(), proxy)
        .map_err(|problem| anyhow!("{} {problem}", problem.key()))
}
