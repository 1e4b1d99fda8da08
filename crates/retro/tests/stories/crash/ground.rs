//! Where a story is told: `retro up` over a broker and a database of the test's own, and a file by which it is armed.

use std::fmt::Write as _;
use std::ops::Deref;
use std::time::Instant;

use retro_bus::{Bus, BusConfig, Role};
use retro_checker::{Event, Operation, PendingOperation, ProgressFloor};
use retro_core::id::Tenant;
use retro_fault::{Label, Side};
use retro_store::DeadLetterFilter;
use serde_json::Value;

use crate::world::{BRIDGED, Fleet, Kind, Witness, carry_out};

/// Three runs make a window, and two of them are looked into: enough for a memory that is active.
pub(super) const RUNS: u64 = 3;
/// A death costs an attempt, and so does a second in which a busy machine renews no lease: attempts are plenty.
const POLICY: &str = "[policy]\nthreshold_runs = 3\nsample_permille = 1000\nsample_runs_max = 2\n\
                      investigation_attempts_max = 20\n";
/// Seconds after which what the dead held is given to the living.
const QUICK: [(&str, &str); 4] = [
    ("RETRO_ACK_WAIT_S", "1"),
    ("RETRO_LEASE_S", "1"),
    ("RETRO_RETRY_INITIAL_MS", "10"),
    ("RETRO_REVIEW_DEBOUNCE_S", "0"),
];

/// The counter panics over a message with these words.
pub(super) const POISONED: &str = "the counter panics over this";

/// A moment at which to die.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) label: Label,
    pub(super) side: Side,
}

impl Point {
    /// Both sides of each.
    pub(super) fn of(labels: &[Label]) -> Vec<Self> {
        let sides = |label: &Label| {
            Side::ALL.iter().map(|side| Self { label: *label, side: *side }).collect::<Vec<_>>()
        };
        labels.iter().flat_map(sides).collect()
    }

    /// As in `FAULT_CRASH`.
    pub(super) fn word(self) -> String {
        format!("{}:{}", self.label.as_str(), self.side.as_str())
    }

    /// The workflow in which it happens.
    pub(super) fn workflow(self) -> String {
        self.word().replace([':', '.', '_'], "-")
    }
}

/// Whether a telling is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    Undisturbed,
    Killed,
}

/// One telling of a story.
pub(super) struct Ground {
    pub(super) fleet: Fleet,
    kind: Kind,
    telling: Telling,
    /// Beside the program: what it was given, each death, and what database and broker held while it was dead.
    witness: Witness,
    /// Events that a test has published itself; nobody else publishes in the stories that ask for it.
    published: u64,
    /// The last death, until what it disturbed is finished.
    died: Option<(Point, Instant)>,
    /// A line for each kill.
    table: Vec<String>,
}

impl Deref for Ground {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.fleet
    }
}

/// Tells a story on SQLite undisturbed, and killed on this database; both leave the same. Returns a line for each kill.
pub(super) async fn tell(kind: Kind, labels: &[Label], script: impl AsyncFn(&mut Ground)) -> String {
    let mut undisturbed = Ground::new(Kind::Sqlite, Telling::Undisturbed).await;
    script(&mut undisturbed).await;
    let expected = undisturbed.end().await;
    let mut ground = Ground::new(kind, Telling::Killed).await;
    script(&mut ground).await;
    let mut table = ground.table.join("\n");
    assert_eq!(ground.table.len(), labels.len() * Side::ALL.len(), "both sides of every label");
    let _ =
        write!(table, "\n{} kills, {} looks while it was dead", ground.table.len(), ground.witness.moments());
    let left = ground.end().await;
    let differ = expected.lines().zip(left.lines()).find(|(one, other)| one != other);
    assert_eq!(differ, None, "undisturbed, and killed");
    assert_eq!(expected, left, "{table}");
    table
}

impl Ground {
    async fn new(kind: Kind, telling: Telling) -> Self {
        let mut fleet = Fleet::nowhere(kind).await;
        fleet.start_broker().await;
        fleet.start_database().await;
        fleet.write_policy(POLICY);
        let witness = Witness::before(&fleet, &fleet.path("history.jsonl"));
        Self { fleet, kind, telling, witness, published: 0, died: None, table: Vec::new() }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.telling == Telling::Killed
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Starts the program and waits until it can be reached.
    pub(super) async fn up(&mut self) {
        let armed = format!("@{}", self.armed().display());
        let poison = format!("counter:panic:{POISONED}");
        let faults = [("FAULT_CRASH", armed.as_str()), ("FAULT_POISON", poison.as_str())];
        let variables = [&QUICK[..], &BRIDGED, &faults].concat();
        self.fleet.up_with(&variables).await;
    }

    fn armed(&self) -> std::path::PathBuf {
        self.path("armed")
    }

    /// From now on the program dies at this point.
    pub(super) fn arm(&self, point: Point) {
        if self.is_killed() {
            // At once, or the program might read half of it.
            let file = self.write("arming", point.word());
            std::fs::rename(file, self.armed()).expect("our own folder");
        }
    }

    /// Waits until the program is dead, looks at what it left, and starts it again.
    pub(super) async fn dies(&mut self, point: Point) {
        if self.is_killed() {
            self.fleet.up_died(&point.word()).await;
            self.dead(point).await;
            self.up().await;
        }
    }

    /// The program died there; it is not armed any more. What it left is kept for the checker, as soon as there are tables.
    pub(super) async fn dead(&mut self, point: Point) {
        let _ = std::fs::remove_file(self.armed());
        self.died = Some((point, Instant::now()));
        self.witness.death("crash", point.word());
        let seen = self.witness.try_moment().await;
        assert!(seen.is_ok() || self.witness.moments() == 0, "after {}: {seen:?}", point.word());
    }

    /// What was disturbed is finished: a line of the table.
    pub(super) fn recovered(&mut self) {
        if let Some((point, since)) = self.died.take() {
            let (word, kind, ms) = (point.word(), self.kind, since.elapsed().as_millis());
            self.table.push(format!("{word:<30} {kind:?} died, recovered in {ms} ms"));
        }
    }

    /// A command of the program that dies at this point, and is given again.
    pub(super) async fn given_twice(&mut self, point: Point, arguments: &[&str]) {
        if self.is_killed() {
            self.command_dies(point, arguments).await;
        }
        let again = self.retro(arguments).await;
        assert_eq!(again.code, Some(0), "`retro {}` after {}: {again:?}", arguments.join(" "), point.word());
        self.recovered();
    }

    /// A command of the program that dies at this point.
    pub(super) async fn command_dies(&mut self, point: Point, arguments: &[&str]) {
        let mut command = self.command(arguments);
        let told = carry_out(command.envs(QUICK).env("FAULT_CRASH", point.word())).await;
        assert_eq!(
            told.code,
            None,
            "`retro {}` does not die at {}: {told:?}",
            arguments.join(" "),
            point.word()
        );
        self.dead(point).await;
    }

    /// Publishes events as an engine does, in order.
    pub(super) async fn publish_all(&mut self, workflow: &str, events: &[Value]) {
        for event in events {
            let begun = self.hands_over("an engine", workflow, event);
            self.publish("default", workflow, event).await;
            begun.finish_ok();
            self.published += 1;
        }
    }

    /// Somebody hands an event over, which the history is told: an engine, or a person who has mended a letter.
    pub(super) fn hands_over(&self, who: &str, workflow: &str, event: &Value) -> PendingOperation {
        let event = Event::from_payload("default", workflow, event.to_string().as_bytes());
        self.witness
            .recorder
            .begin_operation(who, Operation::Emit { road: "nats".to_owned(), events: vec![event] })
    }

    /// What the broker holds as acknowledged is in the database: counted, or a dead letter. Asked while nobody works, and
    /// only where nobody else publishes.
    pub(super) async fn nothing_is_acknowledged_too_early(&self) {
        let (bus, store, tenant) = (self.bus().await, self.store().await, Tenant::default_tenant());
        let intake = Role::Counter.durable_consumer().expect("it consumes");
        let pending = bus.count_unacknowledged(intake.stream, intake.name).await.expect("the broker answers");
        let counted: u64 = store
            .list_workflows(&tenant)
            .await
            .expect("it can be read")
            .iter()
            .map(|row| row.state.counted)
            .sum();
        let letters = self.letters().await;
        let (acknowledged, kept) = (self.published - pending, counted + letters);
        assert!(acknowledged <= kept, "{acknowledged} events are acknowledged and {kept} are stored");
    }

    /// How many dead letters there are.
    pub(super) async fn letters(&self) -> u64 {
        let every = DeadLetterFilter { limit: 1000, ..DeadLetterFilter::default() };
        let letters = self.store().await.list_dead_letters(&Tenant::default_tenant(), &every).await;
        letters.expect("it can be read").len() as u64
    }

    async fn bus(&self) -> Bus {
        let bus = Bus::connect(BusConfig::new(self.nats_url(), "test")).await.expect("an address");
        self.until("the broker answers", async || bus.is_connected().then_some(())).await;
        bus
    }

    /// Waits until so many runs of a workflow are counted, their windows closed, and everything is said.
    pub(super) async fn finished(&mut self, workflow: &str, runs: u64) {
        let (store, tenant) = (self.store().await, Tenant::default_tenant());
        self.until(&format!("{workflow} is done"), async || {
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
        self.recovered();
    }

    /// Waits until nobody has anything to do, looks whether it is sound, stops it, and returns the export.
    async fn end(mut self) -> String {
        self.still().await;
        let bus = self.bus().await;
        for durable in Role::ALL.into_iter().filter_map(Role::durable_consumer) {
            let pending = async || {
                (bus.count_unacknowledged(durable.stream, durable.name).await.ok()? == 0).then_some(())
            };
            self.until(&format!("{} has nothing pending", durable.name), pending).await;
        }
        self.sound().await;
        // At least a window was learnt from, and whoever is to die has died at every point.
        let floor = ProgressFloor { counted: RUNS, closed: 1, ..ProgressFloor::default() };
        let floor = floor.with_fault("crash", self.table.len() as u64);
        self.witness.judge(&self.fleet, &floor).await.assert_sound();
        let export = self.export().await;
        self.fleet.stop_up().await;
        self.fleet.stop_all().await;
        export
    }
}
