//! Records the checker's input: a history of what happens, and states captured at chosen moments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use retro_bus::{Bus, BusConfig, EventPublisher, OutgoingEvent, Role};
use retro_checker::{
    CheckError, CheckReport, Consumer, Event, History, Operation, PendingOperation, ProgressFloor, Recorder,
    State, StateSource, StoredMessage, Stream, check_history,
};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::subject;
use tokio::sync::OnceCell;

use super::World;

/// Polling interval. Reading a state takes a few milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of times that an engine sends events that the broker has not confirmed.
const EMISSIONS_MAX: u32 = 10;

/// Records what happens in a world.
pub(crate) struct Observer {
    pub(crate) recorder: Recorder,
    path: PathBuf,
    database: String,
    source: OnceCell<StateSource>,
    moments: Vec<State>,
    nats_url: String,
}

impl Observer {
    /// Starts a history in a world with a migrated database.
    pub(crate) async fn start(world: &World, path: &Path) -> Self {
        let witness = Self::start_before_database(world, path);
        witness.open_source().await.expect("the database exists");
        witness
    }

    /// Starts a history in a world without a database, which is opened when it is first read.
    pub(crate) fn start_before_database(world: &World, path: &Path) -> Self {
        let recorder = Recorder::create(path).expect("a new file");
        let (database, nats_url) = (world.database_address(), world.nats_url().to_owned());
        let (source, moments) = (OnceCell::new(), Vec::new());
        Self { recorder, path: path.to_owned(), database, source, moments, nats_url }
    }

    async fn open_source(&self) -> Result<&StateSource, CheckError> {
        self.source.get_or_try_init(|| StateSource::open(&self.database, Some(&self.nats_url))).await
    }

    /// Starts recording an operation of the test.
    pub(crate) fn begin_operation(&self, operation: Operation) -> PendingOperation {
        self.recorder.begin_operation("the test", operation)
    }

    /// Records a fault that has just been injected.
    pub(crate) fn record_fault(&self, fault: &str, detail: impl Into<String>) {
        self.begin_operation(Operation::Fault { fault: fault.to_owned(), detail: detail.into() }).finish_ok();
    }

    /// Records that a process has died.
    pub(crate) fn record_kill(&self, fault: &str, target: impl Into<String>) {
        self.begin_operation(Operation::Kill { target: target.into(), fault: fault.to_owned() }).finish_ok();
    }

    /// Returns an emitter with this name for this world.
    pub(crate) fn create_emitter(&self, client: impl Into<String>) -> Emitter {
        Emitter { recorder: self.recorder.clone(), client: client.into(), nats_url: self.nats_url.clone() }
    }

    /// Captures the current state. Panics if it cannot be read.
    pub(crate) async fn capture_state(&mut self) {
        self.try_capture_state().await.expect("database and broker answer");
    }

    /// Captures the current state. Fails if there are no tables yet.
    pub(crate) async fn try_capture_state(&mut self) -> Result<(), CheckError> {
        let now = self.open_source().await?.read_state().await?;
        self.moments.push(now);
        Ok(())
    }

    /// Returns the number of captured states.
    pub(crate) const fn state_count(&self) -> usize {
        self.moments.len()
    }

    /// Captures the state of the database alone, while the broker may be unavailable.
    pub(crate) async fn capture_database_state(&mut self) {
        let source = self.open_source().await.expect("the database was opened");
        let now = source.read_database_only().await.ok();
        self.moments.extend(now);
    }

    /// Returns the current state, or `None` if it cannot be read.
    pub(crate) async fn read_state(&self) -> Option<State> {
        self.open_source().await.ok()?.read_state().await.ok()
    }

    /// Waits until nothing is left to do and runs the checker.
    pub(crate) async fn check_when_idle(&mut self, world: &World, floor: &ProgressFloor) -> CheckReport {
        // Read twice: the database is read after the broker, so it may be idle by messages that were sent after the
        // broker was read. A second reading of the broker contains them.
        let rest = async || {
            self.read_state().await.filter(is_idle)?;
            self.read_state().await.filter(is_idle)
        };
        let rest = world.wait_for_with_interval(POLL_INTERVAL, "nothing is left to do", rest).await;
        self.moments.push(rest);
        check_history(&self.read_history(), &self.moments, floor)
    }

    /// Returns the history recorded so far.
    pub(crate) fn read_history(&self) -> History {
        History::read_file(&self.path).expect("our own file")
    }
}

/// Returns `true` if nothing is left to do: no message is unsent, undelivered or unacknowledged, no
/// retrospective is open or due, and no replay is waiting to be sent.
fn is_idle(state: &State) -> bool {
    let open = |state: &str| ["due", "investigating", "settling"].contains(&state);
    let mut consumers = state
        .broker
        .streams
        .iter()
        .flat_map(|stream| stream.consumers.iter().map(move |consumer| (stream, consumer)));
    let mut full = state.workflows.iter().filter(|row| !row.paused && row.counted - row.claimed >= 10);
    state.outbox.iter().all(|row| row.sent)
        && consumers
            .all(|(stream, one)| one.pending + one.ack_pending == 0 && has_acknowledged_all(stream, one))
        && !state.retrospectives.iter().any(|one| open(&one.state))
        && full.next().is_none()
        && !state.replays.iter().any(|one| one.state == "waiting")
}

/// Returns `true` if a consumer has acknowledged its last message. The broker counts a message as pending
/// only a moment after it has stored it, so a pending count of zero may come too early.
fn has_acknowledged_all(stream: &Stream, consumer: &Consumer) -> bool {
    let Some(durable) =
        Role::ALL.iter().filter_map(|role| role.durable_consumer()).find(|one| one.name == consumer.name)
    else {
        return true;
    };
    let for_it = |message: &&StoredMessage| message.subject.starts_with(&format!("{}.", durable.prefix));
    let last = stream.messages.iter().rfind(for_it).map_or(0, |message| message.sequence);
    consumer.ack_floor >= last
}

/// An engine that publishes events and records the outcome.
#[derive(Debug, Clone)]
pub(crate) struct Emitter {
    recorder: Recorder,
    client: String,
    nats_url: String,
}

impl Emitter {
    /// Publishes payloads of the default tenant until the broker has confirmed all of them.
    pub(crate) async fn emit_until_stored(&self, workflow: &str, payloads: &[Vec<u8>]) {
        let events: Vec<_> =
            payloads.iter().map(|payload| Event::from_payload("default", workflow, payload)).collect();
        for _ in 0..EMISSIONS_MAX {
            let operation = Operation::Emit { road: "nats".to_owned(), events: events.clone() };
            let begun = self.recorder.begin_operation(&self.client, operation);
            match self.try_publish(workflow, payloads).await {
                Ok(()) => return begun.finish_ok(),
                Err(reason) => begun.finish_unknown(reason),
            }
        }
        panic!("{}: the broker did not accept {} events", self.client, events.len());
    }

    async fn try_publish(&self, workflow: &str, payloads: &[Vec<u8>]) -> Result<(), String> {
        let workflow = Workflow::new(workflow).expect("a name");
        let subject =
            subject::run_completed_subject(&WorkflowKey { tenant: Tenant::default_tenant(), workflow });
        let bus = Bus::connect(BusConfig::new(&self.nats_url, &self.client)).await;
        let mut publisher = EventPublisher::new(bus.map_err(|error| error.to_string())?);
        for payload in payloads {
            let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
            let event = OutgoingEvent { subject: subject.clone(), headers, payload: payload.clone().into() };
            publisher.publish_event(event).await.map_err(|error| error.to_string())?;
        }
        publisher.confirm_all().await.map(drop).map_err(|error| error.to_string())
    }
}
