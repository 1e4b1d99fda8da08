//! What the program writes is its owner's alone, and its broker takes nobody else on the machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::world::{World, carry_out, mending};

/// What an earlier version made for everybody to read.
const OPEN_FILES: [&str; 4] = ["retro.db", "lock", "nats/nats-server.log", "nats/nats-server.out"];

#[tokio::test]
async fn whatever_the_umask_nobody_else_can_read_what_the_program_writes() {
    let mut world = World::empty();
    world.up_under_umask("0000").await;
    world.emit("default", "runs.jsonl", &mending("release", "deploy_service", 0..10)).await;
    world.sound().await;
    assert_all_private(&world.data());
    let files: Vec<_> =
        below(&world.data()).iter().filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect();
    for name in ["retro.db", "retro.db-wal", "instance.json", "credential", "nats-server.conf", "meta.inf"] {
        assert!(files.iter().any(|file| file == name), "{name} is not among what was looked at: {files:?}");
    }
    world.stop().await;
    assert_all_private(&world.data());
}

#[tokio::test]
async fn what_an_earlier_version_left_open_is_closed_at_the_next_start_and_that_is_said_once() {
    let mut world = World::start().await;
    world.emit("default", "runs.jsonl", &mending("release", "deploy_service", 0..10)).await;
    world.stop().await;
    // As it was left before there was a credential.
    std::fs::remove_file(world.data().join("nats/credential")).expect("it was generated");
    let mut open: Vec<PathBuf> = OPEN_FILES.iter().map(|name| world.data().join(name)).collect();
    open.extend(below(&world.data()).into_iter().filter(|path| path.is_dir()));
    open.push(world.data());
    for path in &open {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    }
    let said = |world: &World| world.log().matches("were accessible to other users").count();

    world.up_with(&[("RETRO_LOG", "info")]).await;
    assert_all_private(&world.data());
    assert_eq!(said(&world), 1, "{}", world.log());
    world.emit("default", "more.jsonl", &mending("other", "deploy_service", 0..10)).await;
    world.sound().await;
    world.stop().await;
    world.up_with(&[("RETRO_LOG", "info")]).await;
    assert_eq!(said(&world), 1, "{}", world.log());
    world.stop().await;
}

#[tokio::test]
async fn the_broker_takes_who_can_read_the_data_folder_and_nobody_else() {
    let mut world = World::empty();
    world.up_with(&[("RETRO_LOG", "debug")]).await;
    let credential = std::fs::read_to_string(world.data().join("nats/credential")).expect("it is generated");
    let credential = credential.trim();
    let address = world.nats_url().rsplit('@').next().expect("an address").to_owned();
    assert_eq!(world.nats_url(), format!("nats://retro:{credential}@{address}"));

    for login in ["", r#""user":"retro","pass":"guessed","#, r#""auth_token":"guessed","#] {
        let answer = greet(&address, login).await;
        assert!(answer.starts_with("-ERR 'Authorization Violation"), "{login}: {answer}");
    }
    let owner = format!(r#""user":"retro","pass":"{credential}","#);
    assert_eq!(greet(&address, &owner).await, "PONG");

    let file = world.write_events("runs.jsonl", &mending("release", "deploy_service", 0..10));
    let mut stranger = world.command(&["emit", &file]);
    let refused = carry_out(stranger.env("NATS_URL", format!("nats://{address}"))).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("refuses the user"), "{refused:?}");
    assert!(refused.err.contains("instance.json"), "it says where the credential is: {refused:?}");
    assert_eq!(world.ask(&["emit", &file]).await["sent"], 10);
    world.counted("default", 10).await;

    for process in [world.pid(), world.broker().expect("it runs").pid()] {
        for what in ["cmdline", "environ"] {
            let shown = std::fs::read(format!("/proc/{process}/{what}")).expect("our own process");
            assert!(!String::from_utf8_lossy(&shown).contains(credential), "{what} of {process}");
        }
    }
    let config: Value = world.ask(&["config", "print"]).await;
    assert!(!config.to_string().contains(credential));
    world.stop().await;
    let broker_log = std::fs::read_to_string(world.data().join("nats/nats-server.log")).expect("a log");
    assert!(
        !broker_log.contains(credential) && !world.log().contains(credential),
        "a log has the credential"
    );
}

/// Connects as a client does and asks for a sign of life; returns what the broker says.
async fn greet(address: &str, login: &str) -> String {
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
    for path in below(data).into_iter().chain([data.to_owned()]) {
        // A file of the database or the broker may go while it is looked at.
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

/// Everything in a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
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
