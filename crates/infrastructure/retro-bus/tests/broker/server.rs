use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use async_nats::{ConnectErrorKind, ConnectOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use retro_bus::{ACK_WAIT, Bus, BusConfig, NatsServer, ServerConfig, ServerError, topology};
use retro_testkit::{TEST_TIMEOUT, TestNats, free_port};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::world::{connect_directly, publish_events};

/// Environment variable with the folder of the server whose process is going to be killed; set by the test that
/// starts it.
const HOLDER_FOLDER: &str = "RETRO_TEST_HOLDER_FOLDER";

fn server_config(folder: &Path) -> ServerConfig {
    ServerConfig { binary: None, data_dir: folder.to_owned(), port: None }
}

fn parse_port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().parse().unwrap()
}

/// Not a test by itself: the process that the next test kills. Does nothing unless that test asks for it.
#[tokio::test]
async fn holds_a_server_until_it_is_killed() {
    let Some(folder) = std::env::var_os(HOLDER_FOLDER) else { return };
    // A port that the system assigns to nobody while no server listens on it.
    let port = Some(free_port());
    let server = NatsServer::start(ServerConfig { port, ..server_config(Path::new(&folder)) }).await.unwrap();
    println!("listening at {}", server.url());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn killing_the_process_ends_its_server_and_the_next_one_reuses_port_and_store() {
    let folder = TempDir::new().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::holds_a_server_until_it_is_killed", "--nocapture"])
        .env(HOLDER_FOLDER, folder.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("the holder prints the address of its server");
        if let Some((_, url)) = line.split_once("listening at ") {
            break url.to_owned();
        }
    };
    let bus = Bus::connect(BusConfig::new(&url, "test")).await.unwrap();
    topology::ensure_topology(&bus, ACK_WAIT).await.unwrap();
    publish_events(&bus, ["kept".to_owned()]).await;
    let mut connection = TcpStream::connect(("127.0.0.1", parse_port(&url))).await.unwrap();

    holder.kill().await.unwrap();
    // The server closes its end of the connection when it exits.
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(TEST_TIMEOUT, connection.read_to_end(&mut rest)).await;
    closed.expect("the server outlived its process").or_else(treat_reset_as_closed).unwrap();

    let next =
        NatsServer::start(ServerConfig { port: Some(parse_port(&url)), ..server_config(folder.path()) })
            .await
            .unwrap();
    assert_eq!(next.url(), url);
    let stream = connect_directly(next.url()).await.get_stream(topology::INTAKE).await.unwrap();
    assert_eq!(stream.cached_info().state.messages, 1);
    next.shut_down().await;
}

fn treat_reset_as_closed(error: std::io::Error) -> std::io::Result<usize> {
    if error.kind() == ErrorKind::ConnectionReset { Ok(0) } else { Err(error) }
}

#[tokio::test]
async fn a_second_server_on_the_same_store_is_refused_and_stopping_the_first_frees_it() {
    let folder = TempDir::new().unwrap();
    let first = NatsServer::start(server_config(folder.path())).await.unwrap();
    let error = NatsServer::start(server_config(folder.path())).await.unwrap_err();
    assert!(matches!(error, ServerError::InUse(_)), "{error}");
    let url = first.url().to_owned();
    first.shut_down().await;
    let refused = TcpStream::connect(("127.0.0.1", parse_port(&url))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    NatsServer::start(server_config(folder.path())).await.unwrap().shut_down().await;
}

#[tokio::test]
async fn a_hanging_server_is_restarted_on_the_same_port() {
    let nats = TestNats::start().await;
    let url = nats.url().to_owned();
    let hung = nats.pid().unwrap();
    kill(Pid::from_raw(i32::try_from(hung).unwrap()), Signal::SIGSTOP).unwrap();
    nats.wait_until_healthy(hung).await;
    connect_directly(&url).await.query_account().await.unwrap();
}

#[tokio::test]
async fn only_clients_with_the_credential_can_connect_before_and_after_a_crash() {
    let nats = TestNats::start().await;
    let (_, address) = nats.url().rsplit_once('@').unwrap();
    for crashed in [false, true] {
        if crashed {
            nats.wait_until_healthy(nats.kill_server()).await;
        }
        for login in ["", "retro:guessed@"] {
            let options = match login.split_once(':') {
                Some((user, _)) => ConnectOptions::with_user_and_password(user.into(), "guessed".into()),
                None => ConnectOptions::new(),
            };
            let refused = options.connect(format!("nats://{address}")).await.unwrap_err();
            assert_eq!(refused.kind(), ConnectErrorKind::AuthorizationViolation, "{login}");
        }
        connect_directly(nats.url()).await.query_account().await.unwrap();
    }
    let debug_text = format!("{nats:?}");
    let (login, _) = nats.url().trim_start_matches("nats://").rsplit_once('@').unwrap();
    let password = login.strip_prefix("retro:").unwrap();
    assert!(!debug_text.contains(password) && debug_text.contains(address), "{debug_text}");
}

#[tokio::test]
async fn a_folder_of_an_earlier_version_gets_a_credential_and_private_permissions() {
    let folder = TempDir::new().unwrap();
    let first = NatsServer::start(server_config(folder.path())).await.unwrap();
    let before = first.url().to_owned();
    topology::ensure_topology(&Bus::connect(BusConfig::new(&before, "test")).await.unwrap(), ACK_WAIT)
        .await
        .unwrap();
    first.shut_down().await;
    fs::remove_file(folder.path().join("credential")).unwrap();
    for name in ["", "nats-server.conf", "nats-server.out"] {
        let mode = if name.is_empty() { 0o755 } else { 0o644 };
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let next = NatsServer::start(server_config(folder.path())).await.unwrap();
    assert_ne!(next.url().split('@').next(), before.split('@').next());
    connect_directly(next.url()).await.get_stream(topology::INTAKE).await.unwrap();
    for name in ["", "nats-server.conf", "nats-server.out", "nats-server.log", "credential", "store"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{name:?} has mode {mode:o}");
    }
    next.shut_down().await;
}

#[tokio::test]
async fn dropping_a_server_ends_it() {
    let folder = TempDir::new().unwrap();
    let server = NatsServer::start(server_config(folder.path())).await.unwrap();
    let mut connection = TcpStream::connect(("127.0.0.1", parse_port(server.url()))).await.unwrap();
    drop(server);
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(TEST_TIMEOUT, connection.read_to_end(&mut rest)).await;
    closed.expect("the server outlived its handle").or_else(treat_reset_as_closed).unwrap();
}

#[tokio::test]
async fn an_outdated_or_foreign_binary_is_refused_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    let refuse = async |script: &str| {
        let binary = folder.path().join("nats-server");
        fs::write(&binary, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        let requested = ServerConfig { binary: Some(binary), ..server_config(folder.path()) };
        NatsServer::start(requested).await.unwrap_err().to_string()
    };
    let old = refuse("echo 'nats-server: v2.9.10'").await;
    assert!(old.ends_with("is nats-server 2.9.10, and 2.14.1 or newer is needed"), "{old}");
    let other = refuse("echo hello").await;
    assert!(other.ends_with("does not answer like a nats-server: --version prints no version"), "{other}");
    // The version is right but the start fails: the error contains the last log line.
    let broken =
        refuse("[ \"$1\" = --version ] && echo 'nats-server: v2.15.1' && exit; echo out of tune; exit 3")
            .await;
    assert!(broken.contains("exit status: 3") && broken.contains("out of tune"), "{broken}");
}
