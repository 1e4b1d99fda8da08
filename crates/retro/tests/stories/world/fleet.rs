//! Roles in processes of their own, over a broker and a database that are the test's.

use std::ops::Deref;
use std::process::Stdio;
use std::time::Duration;

use retro_bus::server::ServerState as BrokerState;
use retro_bus::{NatsServer, ServerConfig};
use retro_testkit::TestPostgres;
use tokio::process::Child;

use super::process::{freeze, holds_write_lock, interrupt, is_stopped, kill_at_once, terminate, wake};
use super::{QUICK, TEST_TIMEOUT, World, carry_out, free_port};

/// What a fleet waits for half a minute in production, it waits for a second or two.
const IMPATIENT: [(&str, &str); 3] =
    [("RETRO_ACK_WAIT_S", "2"), ("RETRO_RETRY_INITIAL_MS", "100"), ("RETRO_LEASE_S", "2")];

/// What processes know the broker by before it is there, and after it has lost its disk.
const CREDENTIAL: &str = "known-to-every-process-of-the-fleet";

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file that all processes share.
    Sqlite,
    /// A server of the test's own.
    Postgres,
}

/// Processes with chosen roles. Commands, files and looks are the [`World`]'s.
pub(crate) struct Fleet {
    // Dropped before what they work on.
    processes: Vec<Served>,
    world: World,
    nats_port: u16,
    broker: Option<NatsServer>,
    postgres: Option<TestPostgres>,
}

/// One process.
struct Served {
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
    /// Addresses at which nobody answers yet, and no process.
    pub(crate) async fn nowhere(kind: Kind) -> Self {
        let (mut world, nats_port) = (World::empty(), free_port());
        world.nats_url = Some(format!("nats://retro:{CREDENTIAL}@127.0.0.1:{nats_port}"));
        let mut postgres = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => Some(TestPostgres::start().await),
        };
        if let Some(postgres) = &mut postgres {
            world.database_url = Some(postgres.url());
            postgres.stop();
        }
        Self { processes: Vec::new(), world, nats_port, broker: None, postgres }
    }

    /// Broker and database, migrated, and so many processes of each set of roles (`"counter"`, `"sampler,writer"`), all of
    /// them ready.
    pub(crate) async fn start(kind: Kind, sets: &[(&str, usize)]) -> Self {
        let mut fleet = Self::nowhere(kind).await;
        fleet.start_broker().await;
        fleet.start_database().await;
        fleet.migrate().await;
        for (roles, processes) in sets {
            for _ in 0..*processes {
                fleet.serve(roles);
            }
        }
        for nth in 0..fleet.processes.len() {
            fleet.ready(nth).await;
        }
        fleet
    }

    /// Broker and database, migrated, and no process: for stories that would wait long for a broker that waits half a
    /// minute before it delivers again.
    pub(crate) async fn impatient(kind: Kind) -> Self {
        let mut fleet = Self::nowhere(kind).await;
        fleet.start_broker().await;
        fleet.start_database().await;
        fleet.migrate_impatient().await;
        fleet
    }

    /// Tables, streams and consumers of such a fleet.
    pub(crate) async fn migrate_impatient(&self) {
        let migrated = carry_out(self.world.command(&["migrate"]).envs(IMPATIENT)).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
    }

    /// Kills the broker by SIGKILL; it is back, with what it had, when this returns.
    pub(crate) async fn kill_broker(&self) {
        let broker = self.broker.as_ref().expect("it runs");
        let killed = broker.pid().expect("it is healthy before it is killed");
        kill_at_once(killed);
        let mut state = broker.subscribe_state();
        let back = state.wait_for(|state| matches!(state, BrokerState::Healthy { pid } if *pid != killed));
        let back = tokio::time::timeout(TEST_TIMEOUT, back).await;
        back.expect("a killed broker is started again").expect("its supervisor lives");
    }

    /// Starts a process as impatient as its fleet.
    pub(crate) fn serve_impatient(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        self.serve_with(roles, &[&IMPATIENT, environment].concat())
    }

    /// Starts the broker at its address.
    pub(crate) async fn start_broker(&mut self) {
        let (folder, port) = (self.world.path("nats"), Some(self.nats_port));
        std::fs::create_dir_all(&folder).expect("the folder can be written");
        std::fs::write(folder.join("credential"), CREDENTIAL).expect("the folder can be written");
        let config = ServerConfig { binary: None, data_dir: folder, port };
        self.broker = Some(NatsServer::start(config).await.expect("a nats-server; run .ci/install-tools"));
    }

    /// Ends the broker and removes everything that it had: a new disk.
    pub(crate) async fn wipe_broker(&mut self) {
        self.broker.take().expect("it runs").shut_down().await;
        std::fs::remove_dir_all(self.world.path("nats")).expect("it is there");
    }

    /// Another broker than the fleet's own, by the address of whoever may set it up.
    pub(crate) fn use_broker(&mut self, url: String) {
        self.world.nats_url = Some(url);
    }

    /// Starts the database at its address; a file needs no start.
    pub(crate) async fn start_database(&mut self) {
        if let Some(postgres) = &mut self.postgres {
            postgres.start_again().await;
        }
    }

    /// The server of its database.
    pub(crate) fn postgres(&self) -> &TestPostgres {
        self.postgres.as_ref().expect("a file has no server")
    }

    /// The address of Postgres.
    pub(crate) fn database_url(&self) -> &str {
        self.world.database_url.as_deref().expect("a file has no address")
    }

    /// Stops the database as a crash would; only Postgres.
    pub(crate) fn stop_database(&mut self) {
        self.postgres.as_mut().expect("a file cannot be stopped").stop();
    }

    /// `retro up` over broker and database.
    pub(crate) async fn up(&mut self) {
        let broker = self.world.nats_url().to_owned();
        self.world.up_on(&broker).await;
    }

    /// The same with more in its environment.
    pub(crate) async fn up_with(&mut self, variables: &[(&str, &str)]) {
        let broker = self.world.nats_url().to_owned();
        self.world.up_on_with(&broker, variables).await;
    }

    /// Waits until it has died of a SIGKILL that is not ours.
    pub(crate) async fn up_died(&mut self, of: &str) {
        self.world.died(of).await;
    }

    /// Ends it in order.
    pub(crate) async fn stop_up(&mut self) {
        self.world.stop().await;
    }

    /// `retro migrate`: tables, streams, consumers.
    pub(crate) async fn migrate(&self) {
        self.migrate_with(&[]).await;
    }

    /// The same, with more in its environment.
    pub(crate) async fn migrate_with(&self, environment: &[(&str, &str)]) {
        let migrated = carry_out(self.world.command(&["migrate"]).envs(environment.iter().copied())).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
    }

    /// Starts a process with these roles, or `retro up`, and returns its number.
    pub(crate) fn serve(&mut self, roles: &str) -> usize {
        self.serve_with(roles, &[])
    }

    /// The same, with more in its environment.
    pub(crate) fn serve_with(&mut self, roles: &str, environment: &[(&str, &str)]) -> usize {
        let health = format!("127.0.0.1:{}", free_port());
        let mut command = match roles {
            // It answers for its health where it answers everything else.
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
            .envs(QUICK.iter().chain(environment).copied())
            .stdout(Stdio::null())
            .stderr(log.expect("the log can be written"))
            .spawn()
            .expect("the program starts");
        let health_url = format!("http://{health}");
        self.processes.push(Served { roles: roles.to_owned(), health_url, process: Some(process) });
        self.processes.len() - 1
    }

    /// Status and sentence of a process's `/readyz` or `/livez`; `None` while it does not listen.
    pub(crate) async fn health(&self, nth: usize, path: &str) -> Option<(u16, String)> {
        let url = format!("{}{path}", self.processes[nth].health_url);
        let response = self.world.http.get(url).send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Waits until a process is ready.
    pub(crate) async fn ready(&self, nth: usize) {
        let what = format!("the process of {} is ready", self.processes[nth].roles);
        self.world
            .until(&what, async || {
                self.health(nth, "/readyz").await.filter(|(status, _)| *status == 200).map(drop)
            })
            .await;
    }

    /// Waits until a process says that something is missing, in these words.
    pub(crate) async fn misses(&self, nth: usize, words: &str) {
        let what = format!("the process of {} misses: {words}", self.processes[nth].roles);
        self.world
            .until(&what, async || {
                let (status, told) = self.health(nth, "/readyz").await?;
                (status == 503 && told.contains(words)).then_some(())
            })
            .await;
    }

    /// Asks a process to end.
    pub(crate) fn terminate(&self, nth: usize) {
        terminate(self.pid_of(nth));
    }

    /// The other way to ask.
    pub(crate) fn interrupt(&self, nth: usize) {
        interrupt(self.pid_of(nth));
    }

    /// Stops a process where it stands, in whatever it does.
    pub(crate) fn freeze(&self, nth: usize) {
        freeze(self.pid_of(nth));
    }

    /// Stops a process where it stands, and not in a transaction on the shared file: nobody could write while it is
    /// stopped, and nothing would go on.
    pub(crate) async fn freeze_between_writes(&self, nth: usize) {
        let locks = self.world.data().join("retro.db-shm");
        loop {
            self.freeze(nth);
            self.stopped(nth).await;
            if !holds_write_lock(self.pid_of(nth), &locks) {
                return;
            }
            self.wake(nth);
        }
    }

    /// Lets a stopped process go on.
    pub(crate) fn wake(&self, nth: usize) {
        wake(self.pid_of(nth));
    }

    /// Waits until a process has stopped where it stands.
    pub(crate) async fn stopped(&self, nth: usize) {
        let pid = self.pid_of(nth);
        let what = format!("the process of {} is stopped", self.processes[nth].roles);
        self.world.until(&what, async || is_stopped(pid).then_some(())).await;
    }

    /// Whether a process is ended by a signal, its own or another's, within a time.
    pub(crate) async fn dies_within(&mut self, nth: usize, time: Duration) -> bool {
        let process = self.processes[nth].process.as_mut().expect("it runs");
        let Ok(status) = tokio::time::timeout(time, process.wait()).await else { return false };
        assert_eq!(status.expect("our own child").code(), None, "a signal ended it");
        self.processes[nth].process = None;
        true
    }

    /// Ends a process by SIGKILL.
    pub(crate) async fn kill(&mut self, nth: usize) {
        kill_at_once(self.pid_of(nth));
        assert_eq!(self.ended(nth).await, None, "a signal ended it");
    }

    fn pid_of(&self, nth: usize) -> u32 {
        let process = self.processes[nth].process.as_ref().expect("it runs");
        process.id().expect("it was not waited for")
    }

    /// Waits until a process has ended; returns its exit code, and `None` when a signal did it.
    pub(crate) async fn ended(&mut self, nth: usize) -> Option<i32> {
        let mut process = self.processes[nth].process.take().expect("it runs");
        let status = tokio::time::timeout(TEST_TIMEOUT, process.wait()).await;
        let what = &self.processes[nth].roles;
        let status = status.unwrap_or_else(|_| panic!("{what} does not stop:\n{}", self.world.log()));
        status.expect("our own child").code()
    }

    /// Ends a process in order: status 0.
    pub(crate) async fn stop(&mut self, nth: usize) {
        self.terminate(nth);
        let code = self.ended(nth).await;
        assert_eq!(code, Some(0), "{}:\n{}", self.processes[nth].roles, self.world.log());
    }

    /// Ends a process in order and starts another with its roles, which is ready when this returns; its number.
    pub(crate) async fn restart(&mut self, nth: usize) -> usize {
        self.stop(nth).await;
        let roles = self.processes[nth].roles.clone();
        let next = self.serve(&roles);
        self.ready(next).await;
        next
    }

    /// How many processes were ever started.
    pub(crate) const fn processes(&self) -> usize {
        self.processes.len()
    }

    /// What a process does, and the memory that it holds and at most held, as the system tells it.
    pub(crate) fn memory(&self, nth: usize) -> String {
        let status = format!("/proc/{}/status", self.pid_of(nth));
        let status = std::fs::read_to_string(status).expect("it runs");
        let line =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let (now, most) = (line("VmRSS:"), line("VmHWM:"));
        format!("{}: {now} resident, {most} at most", self.processes[nth].roles)
    }

    /// Ends every process that still runs, and then the broker.
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
