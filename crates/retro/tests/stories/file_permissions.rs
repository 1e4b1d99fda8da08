//! Tests that only the owner can read the program's files, and that its broker admits no other user of the
//! machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::world::{World, build_correcting_runs, run_command};

/// Files that an earlier version created readable for everyone.
const OPEN_FILES: [&str; 4] = ["retro.db", "lock", "nats/nats-server.log", "nats/nats-server.out"];

#[tokio::test]
async fn files_are_private_under_any_umask() {
    let mut world = World::empty();
    world.up_with_umask("0000").await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    world.verify_store().await;
    assert_all_private(&world.data_dir());
    let files: Vec<_> = list_tree(&world.data_dir())
        .iter()
        .filter_map(|path| path.file_name().map(ToOwned::to_owned))
        .collect();
    for name in ["retro.db", "retro.db-wal", "instance.json", "credential", "nats-server.conf", "meta.inf"] {
        assert!(files.iter().any(|file| file == name), "{name} is not among the checked files: {files:?}");
    }
    world.stop().await;
    assert_all_private(&world.data_dir());
}

#[tokio::test]
async fn open_permissions_of_an_earlier_version_are_restricted_at_start_and_logged_once() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    world.stop().await;
    // The state before the broker had a credential.
    std::fs::remove_file(world.data_dir().join("nats/credential")).expect("the credential was generated");
    let mut open: Vec<PathBuf> = OPEN_FILES.iter().map(|name| world.data_dir().join(name)).collect();
    open.extend(list_tree(&world.data_dir()).into_iter().filter(|path| path.is_dir()));
    open.push(world.data_dir());
    for path in &open {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    }
    let log_count = |world: &World| world.read_log().matches("were accessible to other users").count();

    world.up_with_env(&[("RETRO_LOG", "info")]).await;
    assert_all_private(&world.data_dir());
    assert_eq!(log_count(&world), 1, "{}", world.log_tail());
    world
        .emit_and_wait("default", "more.jsonl", &build_correcting_runs("other", "deploy_service", 0..10))
        .await;
    world.verify_store().await;
    world.stop().await;
    world.up_with_env(&[("RETRO_LOG", "info")]).await;
    assert_eq!(log_count(&world), 1, "{}", world.log_tail());
    world.stop().await;
}

#[tokio::test]
async fn the_broker_admits_only_clients_with_the_stored_credential() {
    let mut world = World::empty();
    world.up_with_env(&[("RETRO_LOG", "debug")]).await;
    let credential = std::fs::read_to_string(world.data_dir().join("nats/credential"))
        .expect("the credential is generated");
    let credential = credential.trim();
    let address = world.nats_url().rsplit('@').next().expect("an address").to_owned();
    assert_eq!(world.nats_url(), format!("nats://retro:{credential}@{address}"));

    for login in ["", r#""user":"retro","pass":"guessed","#, r#""auth_token":"guessed","#] {
        let answer = connect_and_ping(&address, login).await;
        assert!(answer.starts_with("-ERR 'Authorization Violation"), "{login}: {answer}");
    }
    let owner = format!(r#""user":"retro","pass":"{credential}","#);
    assert_eq!(connect_and_ping(&address, &owner).await, "PONG");

    let file = world.write_events("runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10));
    let mut stranger = world.command(&["emit", &file]);
    let refused = run_command(stranger.env("NATS_URL", format!("nats://{address}"))).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("refuses the user"), "{refused:?}");
    assert!(
        refused.err.contains("instance.json"),
        "the message names the file of the credential: {refused:?}"
    );
    assert_eq!(world.run_json(&["emit", &file]).await["sent"], 10);
    world.wait_until_counted("default", 10).await;

    for process in [world.pid(), world.find_broker().expect("a running process").pid()] {
        for what in ["cmdline", "environ"] {
            let shown = std::fs::read(format!("/proc/{process}/{what}")).expect("our own process");
            assert!(!String::from_utf8_lossy(&shown).contains(credential), "{what} of {process}");
        }
    }
    let config: Value = world.run_json(&["config", "print"]).await;
    assert!(!config.to_string().contains(credential));
    world.stop().await;
    let broker_log = std::fs::read_to_string(world.data_dir().join("nats/nats-server.log")).expect("a log");
    assert!(
        !broker_log.contains(credential) && !world.log_tail().contains(credential),
        "a log contains the credential"
    );
}

/// Connects as a client, sends a PING and returns the broker's response.
async fn connect_and_ping(address: &str, login: &str) -> String {
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("the broker listens"));
    let hello = format!("CONNECT {{{login}\"verbose\":false,\"pedantic\":false}}\r\nPING\r\n");
    stream.write_all(hello.as_bytes()).await.expect("the broker listens");
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("the broker answers");
        match line.trim_end() {
            info if info.starts_with("INFO ") => {}
            "PING" => {}
            answer => return answer.to_owned(),
        }
    }
}

fn assert_all_private(data: &Path) {
    for path in list_tree(data).into_iter().chain([data.to_owned()]) {
        // A file of the database or the broker may be removed in the meantime.
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

/// Returns all files and folders below a folder.
fn list_tree(folder: &Path) -> Vec<PathBuf> {
    let (mut all, mut unseen) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = unseen.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() {
                unseen.push(path.clone());
            }
            all.push(path);
        }
    }
    all
}
