//! The database of the configuration: Postgres where `database_url` names one, else SQLite in the data folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use retro_bus::Bus;
use retro_config::Config;
use retro_store::{RecallStore, Store};
use retro_store_postgres::PostgresStore;
use retro_store_sqlite::SqliteStore;

use crate::data_folder;

/// Opens what is there, beside running processes or without one. Fails with what to do when it is not there or lacks a
/// migration.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    if let Some(url) = &config.database_url {
        return Ok(Arc::new(PostgresStore::open(url.expose()).await?));
    }
    let file = file(config);
    if !file.exists() {
        anyhow::bail!(
            "there is no database at {}; start `retro up` or run `retro migrate` first",
            file.display()
        );
    }
    Ok(Arc::new(SqliteStore::open(&file).await.with_context(|| unusable(config))?))
}

/// The database of a process.
pub(crate) struct Stores {
    pub(crate) store: Arc<dyn Store>,
    /// The same over connections of its own, for what agents ask.
    pub(crate) agents: Arc<dyn RecallStore>,
}

/// Handles that connect when they are asked, and again and again while they cannot: for a process that waits. Fails only
/// on an address that cannot be read.
pub(crate) fn lazy(config: &Config) -> anyhow::Result<Stores> {
    Ok(match &config.database_url {
        Some(url) => {
            let store = PostgresStore::lazy(url.expose())?;
            let agents = Arc::new(store.for_agents(Duration::from_millis(config.answer_ms)));
            Stores { store: Arc::new(store), agents }
        }
        None => {
            let store = SqliteStore::lazy(&file(config));
            let agents = Arc::new(store.for_agents());
            Stores { store: Arc::new(store), agents }
        }
    })
}

/// Tells the broker's side which database messages are handled into.
pub(crate) async fn introduce(config: &Config, bus: &Bus) -> anyhow::Result<()> {
    bus.set_database(&open(config).await?.identity().await?);
    Ok(())
}

/// Makes it what this version needs; returns the names of the migrations that were applied.
pub(crate) async fn migrate(config: &Config) -> anyhow::Result<Vec<String>> {
    if let Some(url) = &config.database_url {
        return Ok(retro_store_postgres::migrate(url.expose()).await?);
    }
    data_folder::secure(&config.data_dir)?;
    retro_store_sqlite::migrate(&file(config)).await.with_context(|| unusable(config))
}

/// Whether it is a file that nobody has made yet, which is no mistake.
pub(crate) fn is_to_be_made(config: &Config) -> bool {
    config.database_url.is_none() && !file(config).exists()
}

/// What it is called towards a person; never with a password.
pub(crate) fn name(config: &Config) -> String {
    match &config.database_url {
        Some(url) => retro_store_postgres::name(url.expose()),
        None => file(config).display().to_string(),
    }
}

fn unusable(config: &Config) -> String {
    format!("the database {} cannot be used", name(config))
}

fn file(config: &Config) -> PathBuf {
    config.data_dir.join("retro.db")
}
