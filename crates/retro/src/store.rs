//! Opens the configured database: Postgres if `database_url` is set, otherwise SQLite in the data folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use retro_bus::Bus;
use retro_config::Config;
use retro_store::{EmbeddingStore, RecallStore, Store};
use retro_store_sql::{PostgresStore, SqliteStore};

use crate::data_folder;

/// Opens the existing database, even if other processes use it. Fails with advice if the database does not
/// exist or lacks a migration.
pub(crate) async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    if let Some(url) = &config.database_url {
        return Ok(Arc::new(PostgresStore::open(url.expose()).await?));
    }
    let file = sqlite_path(config);
    if !file.exists() {
        anyhow::bail!(
            "there is no database at {}; start `retro up` or run `retro migrate` first",
            file.display()
        );
    }
    Ok(Arc::new(SqliteStore::open(&file).await.with_context(|| describe_unusable(config))?))
}

/// Database handles of a process.
pub(crate) struct Stores {
    pub(crate) store: Arc<dyn Store>,
    /// Handle to the same database with its own connection pool, for agents' requests.
    pub(crate) agents: Arc<dyn RecallStore>,
    /// The same handle, for the vectors of memories that agents' tasks are compared with.
    pub(crate) agent_vectors: Arc<dyn EmbeddingStore>,
}

/// Returns handles that connect on first use and reconnect as long as necessary, for processes that wait for
/// their database. Fails only if the address is invalid.
pub(crate) fn build_lazy_stores(config: &Config) -> anyhow::Result<Stores> {
    Ok(match &config.database_url {
        Some(url) => {
            let store = PostgresStore::open_lazily(url.expose())?;
            let agents = Arc::new(store.for_agents(Duration::from_millis(config.context_timeout_ms)));
            Stores { store: Arc::new(store), agents: agents.clone(), agent_vectors: agents }
        }
        None => {
            let store = SqliteStore::open_lazily(&sqlite_path(config));
            let agents = Arc::new(store.for_agents());
            Stores { store: Arc::new(store), agents: agents.clone(), agent_vectors: agents }
        }
    })
}

/// Tells the bus the identity of the configured database, by which it detects a broker that belongs to
/// another one.
pub(crate) async fn set_bus_database(config: &Config, bus: &Bus) -> anyhow::Result<()> {
    bus.set_database(&open_store(config).await?.load_database_id().await?);
    Ok(())
}

/// Applies the missing migrations and returns their names.
pub(crate) async fn migrate_database(config: &Config) -> anyhow::Result<Vec<String>> {
    if let Some(url) = &config.database_url {
        return Ok(retro_store_sql::postgres::migrate(url.expose()).await?);
    }
    // The folder may not exist yet: `retro migrate` can be the first command.
    data_folder::ensure_private(&config.data_dir)?;
    retro_store_sql::sqlite::migrate(&sqlite_path(config)).await.with_context(|| describe_unusable(config))
}

/// Returns `true` if the configured database is a SQLite file that does not exist yet, which is not an error.
pub(crate) fn is_not_created(config: &Config) -> bool {
    config.database_url.is_none() && !sqlite_path(config).exists()
}

/// Returns the name of the database for messages, without its password.
pub(crate) fn database_name(config: &Config) -> String {
    match &config.database_url {
        Some(url) => retro_store_sql::postgres::describe_address(url.expose()),
        None => sqlite_path(config).display().to_string(),
    }
}

fn describe_unusable(config: &Config) -> String {
    format!("the database {} cannot be used", database_name(config))
}

fn sqlite_path(config: &Config) -> PathBuf {
    config.data_dir.join("retro.db")
}
