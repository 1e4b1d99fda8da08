//! A recorded state: its files, and a database and a broker restored from them.

use std::path::{Path, PathBuf};

use retro_bus::{NatsServer, ServerConfig};
use serde_json::{Value, json};

use crate::world::{
    DatabaseKind, Fleet, NatsConnection, RawMessage, World, json_items, json_text, project_path,
};

/// Tenants of a recording.
pub(super) const TENANTS: [&str; 2] = ["default", "acme"];
/// Stream that contains the bodies of large runs.
pub(super) const BODIES_STREAM: &str = "OBJ_retro-bodies";
/// Policy under which a recording is made and continued.
pub(super) const POLICY: &str = include_str!("../../../golden/pipeline.toml");
/// Configuration under which a recording is made and continued.
pub(super) const CONFIG: &str = include_str!("../../../golden/retro.toml");

/// A folder with the files of a recorded state.
pub(super) struct Recording {
    pub(super) kind: DatabaseKind,
    pub(super) folder: PathBuf,
}

impl Recording {
    /// Returns the recording of this version that is part of the repository.
    pub(super) fn committed(version: &str, kind: DatabaseKind) -> Self {
        let folder =
            Path::new(&project_path("crates/retro/tests/golden")).join(version).join(folder_name(kind));
        Self { kind, folder }
    }

    /// Restores the SQLite file in a folder in which nothing runs.
    pub(super) fn restore_file(&self) -> World {
        let world = World::empty();
        std::fs::create_dir_all(world.data_dir()).expect("a folder");
        std::fs::write(world.data_dir().join("retro.db"), self.read("retro.db.zst")).expect("a file");
        world.write_policy(POLICY);
        world.write_file("retro.toml", CONFIG);
        world
    }

    /// Restores the tables and rows in Postgres, beside an empty broker.
    pub(super) async fn restore_rows(&self) -> Fleet {
        let mut fleet = Fleet::unstarted(DatabaseKind::Postgres).await;
        fleet.write_policy(POLICY);
        fleet.write_file("retro.toml", CONFIG);
        fleet.start_database().await;
        for name in self.read_migrations() {
            let tables = std::fs::read_to_string(project_path(&format!("migrations/postgres/{name}.sql")));
            fleet.postgres().execute_sql(&tables.expect("a migration")).await;
        }
        fleet.postgres().execute_sql(&self.read_text("rows.sql.zst")).await;
        fleet.start_broker().await;
        fleet
    }

    /// Fills the folder of the broker that `retro up` will supervise.
    pub(super) async fn restore_supervised_broker(&self, world: &World) {
        let folder = ServerConfig { binary: None, data_dir: world.data_dir().join("nats"), port: None };
        let broker = NatsServer::start(folder).await.expect("a nats-server; run .ci/install-tools");
        self.restore_broker(broker.url()).await;
        broker.shut_down().await;
    }

    /// Creates the streams and consumers with their messages at a running broker.
    pub(super) async fn restore_broker(&self, url: &str) {
        let mut wire = NatsConnection::connect(url).await;
        let streams: Value = serde_json::from_str(&self.read_text("streams.json")).expect("JSON");
        for stream in json_items(&streams) {
            let name = json_text(&stream["config"], "name");
            let answer = wire.request_api(&format!("STREAM.CREATE.{name}"), &stream["config"]).await;
            assert_eq!(answer["error"], Value::Null, "{answer}");
            for consumer in json_items(&stream["consumers"]) {
                let durable = json_text(consumer, "durable_name");
                let request = json!({"stream_name": name, "config": consumer});
                let answer =
                    wire.request_api(&format!("CONSUMER.DURABLE.CREATE.{name}.{durable}"), &request).await;
                assert_eq!(answer["error"], Value::Null, "{answer}");
            }
        }
        let messages = self.read_messages("messages.jsonl.zst");
        for message in messages.into_iter().chain(self.read_messages("objects.jsonl.zst")) {
            let stored = wire.publish(&message).await;
            assert!(stored["seq"].is_u64(), "{}: {stored}", message.subject);
        }
    }

    /// Returns the names of today's migrations that the recorded database lacks.
    pub(super) fn list_missing_migrations(&self) -> Vec<String> {
        let applied = self.read_migrations();
        list_migrations().into_iter().filter(|name| !applied.contains(name)).collect()
    }

    fn read_migrations(&self) -> Vec<String> {
        self.read_text("migrations.txt").lines().map(str::to_owned).collect()
    }

    /// Returns the messages whose subject begins with this prefix, in the order of their stream.
    pub(super) fn read_messages_below(&self, prefix: &str) -> Vec<RawMessage> {
        let mut messages = self.read_messages("messages.jsonl.zst");
        messages.retain(|message| message.subject.starts_with(&format!("{prefix}.")));
        messages
    }

    fn read_messages(&self, name: &str) -> Vec<RawMessage> {
        let read = |line: &str| {
            let message: Value = serde_json::from_str(line).expect("one JSON value per line");
            let headers = json_items(&message["headers"]).iter();
            let headers =
                headers.map(|pair| serde_json::from_value(pair.clone()).expect("a name and a value"));
            RawMessage {
                subject: json_text(&message, "subject").to_owned(),
                headers: headers.collect(),
                payload: json_text(&message, "payload").as_bytes().to_vec(),
            }
        };
        self.read_text(name).lines().map(read).collect()
    }

    /// Returns the number of items of a kind that the version exported, for all tenants.
    pub(super) fn count_exported(&self, kind: &str) -> u64 {
        let exports = TENANTS.map(|tenant| self.read_text(&format!("export-{tenant}.jsonl.zst")));
        let items = exports.iter().flat_map(|export| export.lines());
        let is_kind = |line: &&str| serde_json::from_str::<Value>(line).expect("an item")["kind"] == kind;
        items.filter(is_kind).count() as u64
    }

    pub(super) fn read_text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("text")
    }

    fn read(&self, name: &str) -> Vec<u8> {
        let bytes = std::fs::read(self.folder.join(name)).expect("a file of the recording");
        if is_compressed(name) { zstd::decode_all(&bytes[..]).expect("a complete file") } else { bytes }
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) {
        let compressed = is_compressed(name).then(|| zstd::encode_all(content, 19).expect("memory"));
        std::fs::write(self.folder.join(name), compressed.as_deref().unwrap_or(content)).expect("a file");
    }
}

/// Returns the folder of a database within the folder of a version.
pub(super) const fn folder_name(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Sqlite => "sqlite",
        DatabaseKind::Postgres => "postgres",
    }
}

/// Returns the names of today's migrations, in order.
pub(super) fn list_migrations() -> Vec<String> {
    let files = std::fs::read_dir(project_path("migrations/sqlite")).expect("a folder");
    let stem = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("a readable folder").path();
        path.file_stem().expect("a name").to_string_lossy().into_owned()
    };
    let mut names: Vec<_> = files.map(stem).collect();
    names.sort();
    names
}

fn is_compressed(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "zst")
}
