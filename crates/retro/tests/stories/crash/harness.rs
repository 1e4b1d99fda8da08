//! Runs a crash test: `retro up` over the test's own broker and database, and a file that arms the next
//! crash.

use std::ops::Deref;
use std::panic::resume_unwind;
use std::time::Instant;

use retro_bus::{Bus, BusConfig, Role};
use retro_checker::{Event, Operation, PendingOperation, ProgressFloor};
use retro_core::id::Tenant;
use retro_fault::{Label, Side};
use retro_store::DeadLetterFilter;
use serde_json::Value;

use crate::world::{BRIDGE_ENV, DatabaseKind, Fleet, Observer, run_command};

/// Runs per window. Two of the three are investigated, which is enough for an active memory.
pub(super) const RUNS: u64 = 3;
/// A crash costs an attempt, and so does a lease that a busy machine renews a second late, so allow plenty.
const POLICY: &str = "[trigger]\nthreshold_runs = 3\n[selection]\nsample_permille = 1000\nsample_runs_max = 2\n\
                      [investigation]\ninvestigation_attempts_max = 20\n[context]\nwithhold_permille = 0\n";
/// Short timeouts, so the claims of a dead process are soon available again.
const FAST_ENV: [(&str, &str); 4] = [
    ("RETRO_ACK_WAIT_S", "1"),
    ("RETRO_LEASE_S", "1"),
    ("RETRO_RETRY_INITIAL_MS", "10"),
    ("RETRO_REVIEW_DEBOUNCE_S", "0"),
];

/// The counter panics while handling a message that contains these words.
pub(super) const POISON_MESSAGE: &str = "the counter panics over this";

/// A fault label, and the side of its step at which the program dies.
#[derive(Debug, Clone, Copy)]
pub(super) struct CrashPoint {
    pub(super) label: Label,
    pub(super) side: Side,
}

impl CrashPoint {
    /// Returns both sides of each label.
    pub(super) fn for_labels(labels: &[Label]) -> Vec<Self> {
        let sides = |label: &Label| {
            Side::ALL.iter().map(|side| Self { label: *label, side: *side }).collect::<Vec<_>>()
        };
        labels.iter().flat_map(sides).collect()
    }

    /// Returns the value for `FAULT_CRASH`.
    pub(super) fn to_fault_value(self) -> String {
        format!("{}:{}", self.label.as_str(), self.side.as_str())
    }

    /// Returns the name of the workflow in which this crash happens.
    pub(super) fn workflow_name(self) -> String {
        self.to_fault_value().replace([':', '.', '_'], "-")
    }
}

/// Mode of a scenario: with or without kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScenarioMode {
    Undisturbed,
    Killed,
}

/// One run of a scenario.
pub(super) struct CrashHarness {
    pub(super) fleet: Fleet,
    kind: DatabaseKind,
    mode: ScenarioMode,
    /// Records the program's input, each crash, and the state of the database and the broker while the
    /// program is dead.
    witness: Observer,
    /// Events published by the test itself; tests that use this have no other publisher.
    published: u64,
    /// Last crash, until the work that it disturbed is finished.
    died: Option<(CrashPoint, Instant)>,
    /// One output line per kill.
    table: Vec<String>,
    /// Additional environment variables of the program.
    variables: Vec<(&'static str, &'static str)>,
}

impl Deref for CrashHarness {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.fleet
    }
}

/// Runs a scenario undisturbed on SQLite and with kills on both databases, all three at the same time, and asserts that
/// they leave the same result. `labels` returns the labels of a database. Returns one line per kill.
pub(super) fn compare_with_undisturbed(
    labels: impl Fn(DatabaseKind) -> &'static [Label],
    script: impl AsyncFn(&mut CrashHarness) + Copy + Send,
) -> String {
    let both = [DatabaseKind::Sqlite, DatabaseKind::Postgres];
    let (expected, killed) = std::thread::scope(|scope| {
        let start = |kind, mode| {
            // The message of a failed assertion contains the name of its thread.
            let thread = std::thread::Builder::new().name(format!("{mode:?} on {kind:?}"));
            let run = move || block_on(run_scenario(kind, mode, script));
            thread.spawn_scoped(scope, run).expect("a thread can be started")
        };
        let undisturbed = start(DatabaseKind::Sqlite, ScenarioMode::Undisturbed);
        let killed = both.map(|kind| start(kind, ScenarioMode::Killed));
        (undisturbed.join(), killed.map(std::thread::ScopedJoinHandle::join))
    });
    let expected = expected.unwrap_or_else(|panic| resume_unwind(panic));
    let mut tables = Vec::new();
    for (kind, killed) in both.into_iter().zip(killed) {
        let killed = killed.unwrap_or_else(|panic| resume_unwind(panic));
        assert_eq!(killed.table.len(), labels(kind).len() * Side::ALL.len(), "both sides of every label");
        let table = format!(
            "{}\n{} kills, {} states captured while the program was dead",
            killed.table.join("\n"),
            killed.table.len(),
            killed.states
        );
        let differ = expected.export.lines().zip(killed.export.lines()).find(|(one, other)| one != other);
        assert_eq!(differ, None, "undisturbed, and killed on {kind:?}");
        assert_eq!(expected.export, killed.export, "{table}");
        tables.push(table);
    }
    tables.join("\n")
}

/// Result of one run of a scenario.
struct ScenarioResult {
    export: String,
    /// One line per kill.
    table: Vec<String>,
    /// Number of states captured while the program was dead.
    states: usize,
}

async fn run_scenario(
    kind: DatabaseKind,
    mode: ScenarioMode,
    script: impl AsyncFn(&mut CrashHarness),
) -> ScenarioResult {
    let mut ground = CrashHarness::new(kind, mode).await;
    script(&mut ground).await;
    let (table, states) = (ground.table.clone(), ground.witness.state_count());
    ScenarioResult { export: ground.finish().await, table, states }
}

fn block_on<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(scenario)
}

impl CrashHarness {
    async fn new(kind: DatabaseKind, telling: ScenarioMode) -> Self {
        let mut fleet = Fleet::unstarted(kind).await;
        fleet.start_broker().await;
        fleet.start_database().await;
        fleet.write_policy(POLICY);
        let witness = Observer::start_before_database(&fleet, &fleet.path("history.jsonl"));
        Self {
            fleet,
            kind,
            mode: telling,
            witness,
            published: 0,
            died: None,
            table: Vec::new(),
            variables: Vec::new(),
        }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.mode == ScenarioMode::Killed
    }

    pub(super) const fn kind(&self) -> DatabaseKind {
        self.kind
    }

    /// Starts the program and waits until it can be reached.
    pub(super) async fn up(&mut self) {
        self.up_with_variables(&[]).await;
    }

    /// Starts the program with additional environment variables, which it keeps when it is restarted.
    pub(super) async fn up_with_variables(&mut self, more: &[(&'static str, &'static str)]) {
        self.variables.extend_from_slice(more);
        let armed = format!("@{}", self.fault_file().display());
        let poison = format!("counter:panic:{POISON_MESSAGE}");
        let faults = [("FAULT_CRASH", armed.as_str()), ("FAULT_POISON", poison.as_str())];
        let variables = [&FAST_ENV[..], &BRIDGE_ENV, &faults, &self.variables].concat();
        self.fleet.up_with_env(&variables).await;
    }

    fn fault_file(&self) -> std::path::PathBuf {
        self.path("armed")
    }

    /// Returns `true` if the program has died and the disturbed work is not finished.
    pub(super) const fn has_died(&self) -> bool {
        self.died.is_some()
    }

    /// Makes the program die at this point from now on.
    pub(super) fn arm_crash(&self, point: CrashPoint) {
        if self.is_killed() {
            // Renamed into place, because the program might otherwise read half of the file.
            let file = self.write_file("arming", point.to_fault_value());
            std::fs::rename(file, self.fault_file()).expect("our own folder");
        }
    }

    /// Waits until the program is dead, captures the state it left and restarts it.
    pub(super) async fn wait_for_crash_and_restart(&mut self, point: CrashPoint) {
        if self.is_killed() {
            self.fleet.wait_until_program_killed(&point.to_fault_value()).await;
            self.record_death(point).await;
            self.up().await;
        }
    }

    /// Records that the program died at this point and removes the crash point. Captures the state for the
    /// checker if the tables exist.
    pub(super) async fn record_death(&mut self, point: CrashPoint) {
        let _ = std::fs::remove_file(self.fault_file());
        self.died = Some((point, Instant::now()));
        self.witness.record_kill("crash", point.to_fault_value());
        let seen = self.witness.try_capture_state().await;
        assert!(
            seen.is_ok() || self.witness.state_count() == 0,
            "after {}: {seen:?}",
            point.to_fault_value()
        );
    }

    /// Records that the disturbed work is finished, as a line of the table.
    pub(super) fn record_recovery(&mut self) {
        if let Some((point, since)) = self.died.take() {
            let (word, kind, ms) = (point.to_fault_value(), self.kind, since.elapsed().as_millis());
            self.table.push(format!("{word:<30} {kind:?} died, recovered in {ms} ms"));
        }
    }

    /// Runs a command that dies at this point, then runs it again.
    pub(super) async fn run_killed_then_repeat(&mut self, point: CrashPoint, arguments: &[&str]) {
        if self.is_killed() {
            self.run_killed_command(point, arguments).await;
        }
        let mut again = self.run_retro(arguments).await;
        if self.is_killed() && again.code == Some(3) {
            // What the killed command requested may be under way, so that nothing waits for it at this moment.
            self.wait_until_idle().await;
            again = self.run_retro(arguments).await;
        }
        assert_eq!(
            again.code,
            Some(0),
            "`retro {}` after {}: {again:?}",
            arguments.join(" "),
            point.to_fault_value()
        );
        self.record_recovery();
    }

    /// Runs a command that dies at this point.
    pub(super) async fn run_killed_command(&mut self, point: CrashPoint, arguments: &[&str]) {
        let mut command = self.command(arguments);
        let output = run_command(command.envs(FAST_ENV).env("FAULT_CRASH", point.to_fault_value())).await;
        assert_eq!(
            output.code,
            None,
            "`retro {}` does not die at {}: {output:?}",
            arguments.join(" "),
            point.to_fault_value()
        );
        self.record_death(point).await;
    }

    /// Publishes events in order, as an engine does.
    pub(super) async fn publish_events(&mut self, workflow: &str, events: &[Value]) {
        for event in events {
            let begun = self.begin_emission("an engine", workflow, event);
            self.publish_event("default", workflow, event).await;
            begun.finish_ok();
            self.published += 1;
        }
    }

    /// Starts recording the emission of an event, by an engine or by an operator who has edited a dead
    /// letter.
    pub(super) fn begin_emission(&self, who: &str, workflow: &str, event: &Value) -> PendingOperation {
        let event = Event::from_payload("default", workflow, event.to_string().as_bytes());
        self.witness
            .recorder
            .begin_operation(who, Operation::Emit { road: "nats".to_owned(), events: vec![event] })
    }

    /// Asserts that every acknowledged event is in the database, counted or as a dead letter. Valid only
    /// while no process works and nothing else publishes.
    pub(super) async fn assert_acknowledged_is_stored(&self) {
        let (bus, store, tenant) =
            (self.connect_bus().await, self.open_store().await, Tenant::default_tenant());
        let intake = Role::Counter.durable_consumer().expect("the role has a consumer");
        let pending = bus.count_unacknowledged(intake.stream, intake.name).await.expect("the broker answers");
        let counted: u64 = store
            .list_workflows(&tenant)
            .await
            .expect("the store can be read")
            .iter()
            .map(|row| row.state.counted)
            .sum();
        let dead_letters = self.count_dead_letters().await;
        let (acknowledged, stored) = (self.published - pending, counted + dead_letters);
        assert!(acknowledged <= stored, "{acknowledged} events are acknowledged and {stored} are stored");
    }

    /// Returns the number of dead letters.
    pub(super) async fn count_dead_letters(&self) -> u64 {
        let every = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
        let dead_letters = self.open_store().await.list_dead_letters(&Tenant::default_tenant(), &every).await;
        dead_letters.expect("the store can be read").len() as u64
    }

    async fn connect_bus(&self) -> Bus {
        let bus = Bus::connect(BusConfig::new(self.nats_url(), "test")).await.expect("an address");
        self.wait_for("the broker answers", async || bus.is_connected().then_some(())).await;
        bus
    }

    /// Waits until this many runs of a workflow are counted, their windows are closed and every message is
    /// sent.
    pub(super) async fn wait_until_finished(&mut self, workflow: &str, runs: u64) {
        let (store, tenant) = (self.open_store().await, Tenant::default_tenant());
        self.wait_for(&format!("{workflow} is finished"), async || {
            let rows = store.list_workflows(&tenant).await.ok()?;
            let row = rows.iter().find(|row| row.key.workflow.as_str() == workflow)?;
            assert!(
                row.state.counted <= runs,
                "{workflow}: {} runs are counted, {runs} were emitted",
                row.state.counted
            );
            let closed = row.state.counted == runs && !row.state.open && row.state.window_size() < RUNS;
            (closed && store.load_health().await.ok()?.outbox_unsent == 0).then_some(())
        })
        .await;
        self.record_recovery();
    }

    /// Waits until nothing is left to do, verifies the result, stops the program and returns the export.
    async fn finish(mut self) -> String {
        self.wait_until_idle().await;
        let bus = self.connect_bus().await;
        for durable in Role::ALL.iter().filter_map(|role| role.durable_consumer()) {
            let pending = async || {
                (bus.count_unacknowledged(durable.stream, durable.name).await.ok()? == 0).then_some(())
            };
            self.wait_for(&format!("{} has nothing pending", durable.name), pending).await;
        }
        self.verify_store().await;
        // At least one window led to a memory, and the program died at every point at which it should.
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        let floor = floor.with_fault("crash", self.table.len() as u64);
        self.witness.check_when_idle(&self.fleet, &floor).await.assert_sound();
        let export = self.export_canonical().await;
        self.fleet.stop_up().await;
        self.fleet.stop_all().await;
        export
    }
}
