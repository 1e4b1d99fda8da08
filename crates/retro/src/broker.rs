//! Connects to the broker as the configuration says.

use std::time::Duration;

use anyhow::bail;
use retro_bus::{
    Bus, BusConfig, ClientCertificate, ConnectionSecurity, CredentialFile, TlsMode, TopologyMode,
};
use retro_config::{Config, NatsTls};

/// Interval at which the connection state is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns how to connect to the broker at `url` under this client name. The keys that secure a connection are for the
/// broker of `nats_url`; a supervised one has none of them.
pub(crate) fn bus_config(config: &Config, url: &str, name: impl Into<String>) -> BusConfig {
    BusConfig {
        security: connection_security(config),
        inbox_prefix: config.nats_inbox_prefix.clone(),
        replicas: config.nats_replicas,
        ..BusConfig::new(url, name).with_streams_mib(config.streams_mib)
    }
}

/// Starts to connect to the broker at `url` for the requests of agents, on a connection of their own.
pub(crate) async fn connect_for_agents(config: &Config, url: &str) -> anyhow::Result<Bus> {
    let settings =
        BusConfig { topology_mode: TopologyMode::Verify, ..bus_config(config, url, "retro agents") };
    Ok(Bus::connect(settings.for_agents()).await?)
}

/// Returns the login, the authorities and the use of TLS that the configuration names.
pub(crate) fn connection_security(config: &Config) -> ConnectionSecurity {
    let creds = config.nats_creds_file.clone().map(CredentialFile::Creds);
    let nkey = config.nats_nkey_file.clone().map(CredentialFile::Nkey);
    let client = config.nats_cert_file.clone().zip(config.nats_key_file.clone());
    ConnectionSecurity {
        credential: creds.or(nkey),
        ca_file: config.nats_ca_file.clone(),
        client_certificate: client.map(|(certificate, key)| ClientCertificate { certificate, key }),
        tls: match config.nats_tls {
            NatsTls::Auto => TlsMode::Auto,
            NatsTls::Required => TlsMode::Required,
            NatsTls::First => TlsMode::First,
        },
    }
}

/// Waits until the connection is up, at most for this time. Fails with a sentence as soon as waiting does not help, or
/// when the time is over.
pub(crate) async fn wait_until_connected(bus: &Bus, longest: Duration) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let settled = async {
        while !bus.is_connected() && bus.connection_fault().is_none() {
            ticks.tick().await;
        }
    };
    // A timeout is reported like every other problem.
    let _ = tokio::time::timeout(longest, settled).await;
    match bus.connection_problem() {
        None => Ok(()),
        Some(problem) => bail!("{problem}"),
    }
}
