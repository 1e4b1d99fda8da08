//! Runs roles in separate processes over the test's own broker and database.

use std::ops::Deref;
use std::process::Stdio;
use std::time::Duration;

use retro_bus::server::ServerState as BrokerState;
use retro_bus::{NatsServer, ServerConfig};
use retro_testkit::TestPostgres;
use tokio::process::Child;

use super::process::{freeze, holds_write_lock, interrupt, is_stopped, kill_process, resume, terminate};
use super::{FAST_ENV, TEST_TIMEOUT, World, free_port, run_command};

/// Timeouts of a second or two, where production uses half a minute.
const SHORT_TIMEOUTS: [(&str, &str); 3] =
    [("RETRO_ACK_WAIT_S", "2"), ("RETRO_RETRY_INITIAL_MS", "100"), ("RETRO_LEASE_S", "2")];

/// Credential of the broker. It is fixed, so processes can have it before the broker exists and after its
/// disk is replaced.
const CREDENTIAL: &str = "known-to-every-process-of-the-fleet";

/// Database of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    /// A SQLite file shared by all processes.
    Sqlite,
    /// A Postgres server of this test.
    Postgres,
}

/// Processes with chosen roles. Commands, files and requests come from [`World`].
pub(crate) struct Fleet {
    // Dropped before the broker and the database.
    processes: Vec<ServedProcess>,
    world: World,
    nats_port: u16,
    broker: Option<NatsServer>,
    postgres: Option<TestPostgres>,
}

/// One process of a fleet.
struct ServedProcess {
    roles: String,
    health_url: String,
    process: Option<Child>,
}

impl Deref for Fleet {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Fleet {
    /// Returns a fleet with chosen addresses, in which nothing runs yet.
    pub(crate) async fn unstarted(kind: DatabaseKind) -> Self {
        let (mut world, nats_port) = (World::empty(), free_port());
        world.nats_url = Some(format!("nats://retro:{CREDENTIAL}@127.0.0.1:{nats_port}"));
        let mut postgres = match kind {
            DatabaseKind::Sqlite => None,
            DatabaseKind::Postgres => Some(TestPostgres::start().await),
        };
        if let Some(postgres) = &mut postgres {
            world.database_url = Some(postgres.url());
            postgres.stop();
        }
        Self { processes: Vec::new(), world, nats_port, broker: None, postgres }
    }

    /// Starts the broker and the database, migrates, and starts the given number of processes of each set of
    /// roles (`"counter"`, `"sampler,writer"`). All are ready on return.
    pub(crate) async fn start(kind: DatabaseKind, sets: &[(&str, usize)]) -> Self {
        let mut fleet = Self::unstarted(kind).await;
        fleet.start_broker().await;
        fleet.start_database().await;
        fleet.migrate().await;
        for (roles, processes) in sets {
            for _ in 0..*processes {
                fleet.serve(roles);
            }
        }
        for nth in 0..fleet.processes.len() {
            fleet.wait_until_ready(nth).await;
        }
        fleet
    }

    /// Starts the broker and the database and migrates, without starting a process. For tests that would
    /// otherwise wait half a minute for each redelivery.
    pub(crate) async fn start_with_short_timeouts(kind: DatabaseKind) -> Self {
        let mut fleet = Self::unstarted(kind).await;
        fleet.start_servers_with_short_timeouts().await;
        fleet
    }

    /// Starts the broker and the database of an unstarted fleet and migrates.
    pub(crate) async fn start_servers_with_short_timeouts(&mut self) {
        self.start_broker().await;
        self.start_database().await;
        self.migrate_with_short_timeouts().await;
    }

    /// Runs `retro migrate` with short timeouts.
    pub(crate) async fn migrate_with_short_timeouts(&self) {
        let migrated = run_command(self.world.command(&["migrate"]).envs(SHORT_TIMEOUTS)).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
    }

    /// Kills the broker with SIGKILL and waits until it is back with its data.
    pub(crate) async fn kill_broker(&self) {
        let broker = self.broker.as_ref().expect("a running process");
        let killed = broker.pid().expect("a healthy broker");
        kill_process(killed);
        let mut state = broker.subscribe_state();
        let back = state.wait_for(|state| matches!(state, BrokerState::Healthy { pid } if *pid != killed));
        let back = tokio::time::timeout(TEST_TIMEOUT, back).await;
        back.expect("a killed broker is started again").expect("the supervisor runs");
    }

    /// Starts a process with short timeouts.
    pub(crate) fn serve_with_short_timeouts(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        self.serve_with_env(roles, &[&SHORT_TIMEOUTS, environment].concat())
    }

    /// Starts the broker at the fleet's address.
    pub(crate) async fn start_broker(&mut self) {
        let (folder, port) = (self.world.path("nats"), Some(self.nats_port));
        std::fs::create_dir_all(&folder).expect("the folder can be written");
        std::fs::write(folder.join("credential"), CREDENTIAL).expect("the folder can be written");
        let config = ServerConfig { binary: None, data_dir: folder, port };
        self.broker = Some(NatsServer::start(config).await.expect("a nats-server; run .ci/install-tools"));
    }

    /// Stops the broker and removes its data, as if its disk were replaced.
    pub(crate) async fn wipe_broker(&mut self) {
        self.broker.take().expect("a running process").shut_down().await;
        std::fs::remove_dir_all(self.world.path("nats")).expect("the broker's folder exists");
    }

    /// Replaces the fleet's broker with the one at this address, which permits creating streams.
    pub(crate) fn set_broker_url(&mut self, url: String) {
        self.world.nats_url = Some(url);
    }

    /// Starts the database at its address. Does nothing for SQLite.
    pub(crate) async fn start_database(&mut self) {
        if let Some(postgres) = &mut self.postgres {
            postgres.start_again().await;
        }
    }

    /// Returns the Postgres server. Panics for SQLite.
    pub(crate) fn postgres(&self) -> &TestPostgres {
        self.postgres.as_ref().expect("SQLite has no server")
    }

    /// Returns the address of Postgres. Panics for SQLite.
    pub(crate) fn database_url(&self) -> &str {
        self.world.database_url.as_deref().expect("SQLite has no address")
    }

    /// Stops Postgres as a crash would. Panics for SQLite.
    pub(crate) fn stop_database(&mut self) {
        self.postgres.as_mut().expect("SQLite cannot be stopped").stop();
    }

    /// Starts `retro up` over the fleet's broker and database.
    pub(crate) async fn up(&mut self) {
        let broker = self.world.nats_url().to_owned();
        self.world.up_with_broker(&broker).await;
    }

    /// Starts `retro up` with additional environment variables.
    pub(crate) async fn up_with_env(&mut self, variables: &[(&str, &str)]) {
        let broker = self.world.nats_url().to_owned();
        self.world.up_with_broker_and_env(&broker, variables).await;
    }

    /// Waits until `retro up` has died of a SIGKILL that the test did not send.
    pub(crate) async fn wait_until_program_killed(&mut self, of: &str) {
        self.world.wait_for_kill(of).await;
    }

    /// Stops `retro up` gracefully.
    pub(crate) async fn stop_up(&mut self) {
        self.world.stop().await;
    }

    /// Runs `retro migrate`, which creates tables, streams and consumers.
    pub(crate) async fn migrate(&self) {
        self.migrate_with_env(&[]).await;
    }

    /// Runs `retro migrate` with additional environment variables.
    pub(crate) async fn migrate_with_env(&self, environment: &[(&str, &str)]) {
        let migrated = run_command(self.world.command(&["migrate"]).envs(environment.iter().copied())).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
    }

    /// Starts a process with these roles (`up` for `retro up`) and returns its index.
    pub(crate) fn serve(&mut self, roles: &str) -> usize {
        self.serve_with_env(roles, &[])
    }

    /// Starts a process with these roles and additional environment variables, and returns its index.
    pub(crate) fn serve_with_env(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        let health = format!("127.0.0.1:{}", free_port());
        let mut command = match roles {
            // `retro up` serves health on its HTTP port.
            "up" => self.world.command(&["up", "--http-listen", &health]),
            _ => self.world.command(&["serve", "--role", roles, "--health-listen", &health]),
        };
        if roles.split(',').any(|role| role == "gateway") {
            let http = format!("127.0.0.1:{}", free_port());
            command.args(["--http-listen", &http]);
            self.world.http_url = Some(format!("http://{http}"));
        }
        if roles.split(',').any(|role| role == "bridge") {
            let bridge = format!("127.0.0.1:{}", free_port());
            command.env("RETRO_BRIDGE_LISTEN", &bridge);
            self.world.bridge_url = Some(format!("http://{bridge}/github/webhook"));
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.world.path("retro.log"));
        let process = command
            .envs(FAST_ENV.iter().chain(environment).copied())
            .stdout(Stdio::null())
            .stderr(log.expect("the log can be written"))
            .spawn()
            .expect("the program starts");
        let health_url = format!("http://{health}");
        self.processes.push(ServedProcess { roles: roles.to_owned(), health_url, process: Some(process) });
        self.processes.len() - 1
    }

    /// Returns the status and body of a process's `/readyz` or `/livez`, or `None` if it does not listen.
    pub(crate) async fn fetch_health(&self, nth: usize, path: &str) -> Option<(u16, String)> {
        let url = format!("{}{path}", self.processes[nth].health_url);
        let response = self.world.http.get(url).send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Waits until a process is ready.
    pub(crate) async fn wait_until_ready(&self, nth: usize) {
        let what = format!("the process of {} is ready", self.processes[nth].roles);
        self.world
            .wait_for(&what, async || {
                self.fetch_health(nth, "/readyz").await.filter(|(status, _)| *status == 200).map(drop)
            })
            .await;
    }

    /// Waits until a process responds to `/readyz` with 503 and these words.
    pub(crate) async fn wait_until_not_ready(&self, nth: usize, words: &str) {
        let what = format!("the process of {} reports: {words}", self.processes[nth].roles);
        self.world
            .wait_for(&what, async || {
                let (status, body) = self.fetch_health(nth, "/readyz").await?;
                (status == 503 && body.contains(words)).then_some(())
            })
            .await;
    }

    /// Sends SIGTERM to a process.
    pub(crate) fn terminate(&self, nth: usize) {
        terminate(self.process_id(nth));
    }

    /// Sends SIGINT to a process.
    pub(crate) fn interrupt(&self, nth: usize) {
        interrupt(self.process_id(nth));
    }

    /// Stops a process with SIGSTOP, whatever it is doing.
    pub(crate) fn freeze(&self, nth: usize) {
        freeze(self.process_id(nth));
    }

    /// Stops a process with SIGSTOP, but not within a transaction, where it would block the other writers: on
    /// the shared file for ever, and on Postgres until the server ends the session.
    pub(crate) async fn freeze_between_writes(&self, nth: usize) {
        let locks = self.world.data_dir().join("retro.db-shm");
        loop {
            self.freeze(nth);
            self.wait_until_stopped(nth).await;
            if !holds_write_lock(self.process_id(nth), &locks) && !self.has_open_transaction().await {
                return;
            }
            self.resume(nth);
        }
    }

    /// Returns `true` if a process has a transaction open on Postgres.
    async fn has_open_transaction(&self) -> bool {
        const COUNT: &str = "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = 'retro' AND xact_start IS NOT NULL";
        match &self.postgres {
            None => false,
            Some(server) => server.execute_sql(COUNT).await[0][0].as_deref() != Some("0"),
        }
    }

    /// Resumes a stopped process.
    pub(crate) fn resume(&self, nth: usize) {
        resume(self.process_id(nth));
    }

    /// Waits until a process is stopped.
    pub(crate) async fn wait_until_stopped(&self, nth: usize) {
        let pid = self.process_id(nth);
        let what = format!("the process of {} is stopped", self.processes[nth].roles);
        self.world.wait_for(&what, async || is_stopped(pid).then_some(())).await;
    }

    /// Returns `true` if a signal ends the process within this time.
    pub(crate) async fn is_killed_within(&mut self, nth: usize, time: Duration) -> bool {
        let process = self.processes[nth].process.as_mut().expect("a running process");
        let Ok(status) = tokio::time::timeout(time, process.wait()).await else { return false };
        assert_eq!(status.expect("our own child").code(), None, "ended by a signal");
        self.processes[nth].process = None;
        true
    }

    /// Kills a process with SIGKILL.
    pub(crate) async fn kill(&mut self, nth: usize) {
        kill_process(self.process_id(nth));
        assert_eq!(self.wait_for_exit(nth).await, None, "ended by a signal");
    }

    fn process_id(&self, nth: usize) -> u32 {
        let process = self.processes[nth].process.as_ref().expect("a running process");
        process.id().expect("the process was not reaped")
    }

    /// Waits until a process has ended. Returns its exit code, or `None` if a signal ended it.
    pub(crate) async fn wait_for_exit(&mut self, nth: usize) -> Option<i32> {
        let mut process = self.processes[nth].process.take().expect("a running process");
        let status = tokio::time::timeout(TEST_TIMEOUT, process.wait()).await;
        let what = &self.processes[nth].roles;
        let status = status.unwrap_or_else(|_| panic!("{what} does not stop:\n{}", self.world.log_tail()));
        status.expect("our own child").code()
    }

    /// Stops a process gracefully and asserts exit code 0.
    pub(crate) async fn stop(&mut self, nth: usize) {
        self.terminate(nth);
        let code = self.wait_for_exit(nth).await;
        assert_eq!(code, Some(0), "{}:\n{}", self.processes[nth].roles, self.world.log_tail());
    }

    /// Stops a process gracefully and starts another with the same roles. Returns its index once it is ready.
    pub(crate) async fn restart(&mut self, nth: usize) -> usize {
        self.stop(nth).await;
        let roles = self.processes[nth].roles.clone();
        let next = self.serve(&roles);
        self.wait_until_ready(next).await;
        next
    }

    /// Returns the number of processes started so far.
    pub(crate) const fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// Returns a process's roles with its resident and peak memory, from `/proc/<pid>/status`.
    pub(crate) fn describe_memory(&self, nth: usize) -> String {
        let status = format!("/proc/{}/status", self.process_id(nth));
        let status = std::fs::read_to_string(status).expect("a running process");
        let line =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let (now, most) = (line("VmRSS:"), line("VmHWM:"));
        format!("{}: {now} resident, {most} at most", self.processes[nth].roles)
    }

    /// Stops all running processes, then the broker.
    pub(crate) async fn stop_all(mut self) {
        for nth in 0..self.processes.len() {
            if self.processes[nth].process.is_some() {
                self.stop(nth).await;
            }
        }
        if let Some(broker) = self.broker.take() {
            broker.shut_down().await;
        }
    }
}
