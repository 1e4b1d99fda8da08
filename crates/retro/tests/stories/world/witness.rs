//! What is written down beside the program, for the checker: a history while it happens, states at chosen moments.

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

/// Reading a state takes some milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An engine that is not told that its events have arrived sends them again, so often.
const EMISSIONS_MAX: u32 = 10;

/// Writes down what happens in a world.
pub(crate) struct Witness {
    pub(crate) recorder: Recorder,
    path: PathBuf,
    database: String,
    source: OnceCell<StateSource>,
    moments: Vec<State>,
    nats_url: String,
}

impl Witness {
    /// Begins a history in a world whose database is migrated.
    pub(crate) async fn of(world: &World, path: &Path) -> Self {
        let witness = Self::before(world, path);
        witness.source().await.expect("the database is there");
        witness
    }

    /// The same in a world that has no database yet, which is opened when it is first read.
    pub(crate) fn before(world: &World, path: &Path) -> Self {
        let recorder = Recorder::create(path).expect("a new file");
        let (database, nats_url) = (world.database_address(), world.nats_url().to_owned());
        let (source, moments) = (OnceCell::new(), Vec::new());
        Self { recorder, path: path.to_owned(), database, source, moments, nats_url }
    }

    async fn source(&self) -> Result<&StateSource, CheckError> {
        self.source.get_or_try_init(|| StateSource::open(&self.database, Some(&self.nats_url))).await
    }

    /// The test does something to the world.
    pub(crate) fn begin(&self, operation: Operation) -> PendingOperation {
        self.recorder.begin_operation("the test", operation)
    }

    /// Something was broken, just now.
    pub(crate) fn fault(&self, fault: &str, detail: impl Into<String>) {
        self.begin(Operation::Fault { fault: fault.to_owned(), detail: detail.into() }).finish_ok();
    }

    /// A process has died.
    pub(crate) fn death(&self, fault: &str, target: impl Into<String>) {
        self.begin(Operation::Kill { target: target.into(), fault: fault.to_owned() }).finish_ok();
    }

    /// One who emits into this world, of this name.
    pub(crate) fn emitter(&self, client: impl Into<String>) -> Emitter {
        Emitter { recorder: self.recorder.clone(), client: client.into(), nats_url: self.nats_url.clone() }
    }

    /// Keeps what is there now.
    pub(crate) async fn moment(&mut self) {
        self.try_moment().await.expect("database and broker answer");
    }

    /// The same where there may be no tables yet.
    pub(crate) async fn try_moment(&mut self) -> Result<(), CheckError> {
        let now = self.source().await?.read_state().await?;
        self.moments.push(now);
        Ok(())
    }

    /// How many moments are kept.
    pub(crate) const fn moments(&self) -> usize {
        self.moments.len()
    }

    /// The same without the broker, which may be away.
    pub(crate) async fn moment_without_broker(&mut self) {
        let source = self.source().await.expect("it was opened");
        let now = source.read_database_only().await.ok();
        self.moments.extend(now);
    }

    /// What is there now, if it can be read.
    pub(crate) async fn now(&self) -> Option<State> {
        self.source().await.ok()?.read_state().await.ok()
    }

    /// Waits until nothing is left to do, and judges.
    pub(crate) async fn judge(&mut self, world: &World, floor: &ProgressFloor) -> CheckReport {
        let rest = async || self.now().await.filter(is_at_rest);
        let rest = world.until_looked_every(LOOK_EVERY, "nothing is left to do", rest).await;
        self.moments.push(rest);
        check_history(&self.history(), &self.moments, floor)
    }

    /// What was written down so far.
    pub(crate) fn history(&self) -> History {
        History::read_file(&self.path).expect("our own file")
    }
}

/// Whether nothing is left to do: nothing unsent, undelivered or unacknowledged, no retrospective open or due, no replay
/// that is to be sent.
fn is_at_rest(state: &State) -> bool {
    let open = |state: &str| ["due", "investigating", "settling"].contains(&state);
    let mut consumers = state
        .broker
        .streams
        .iter()
        .flat_map(|stream| stream.consumers.iter().map(move |consumer| (stream, consumer)));
    let mut full = state.workflows.iter().filter(|row| !row.paused && row.counted - row.claimed >= 10);
    state.outbox.iter().all(|row| row.sent)
        && consumers.all(|(stream, one)| one.pending + one.ack_pending == 0 && has_answered(stream, one))
        && !state.retrospectives.iter().any(|one| open(&one.state))
        && full.next().is_none()
        && !state.replays.iter().any(|one| one.state == "waiting")
}

/// Whether a consumer has answered for the last message that is for it. What is pending is counted by the broker a moment
/// after a message was stored, so it may be none too early.
fn has_answered(stream: &Stream, consumer: &Consumer) -> bool {
    let Some(durable) =
        Role::ALL.into_iter().filter_map(Role::durable_consumer).find(|one| one.name == consumer.name)
    else {
        return true;
    };
    let for_it = |message: &&StoredMessage| message.subject.starts_with(&format!("{}.", durable.prefix));
    let last = stream.messages.iter().rfind(for_it).map_or(0, |message| message.sequence);
    consumer.ack_floor >= last
}

/// An engine: publishes events and writes down what it was told.
#[derive(Debug, Clone)]
pub(crate) struct Emitter {
    recorder: Recorder,
    client: String,
    nats_url: String,
}

impl Emitter {
    /// Publishes payloads of the default tenant until the broker has all of them.
    pub(crate) async fn emit(&self, workflow: &str, payloads: &[Vec<u8>]) {
        let events: Vec<_> =
            payloads.iter().map(|payload| Event::from_payload("default", workflow, payload)).collect();
        for _ in 0..EMISSIONS_MAX {
            let operation = Operation::Emit { road: "nats".to_owned(), events: events.clone() };
            let begun = self.recorder.begin_operation(&self.client, operation);
            match self.publish(workflow, payloads).await {
                Ok(()) => return begun.finish_ok(),
                Err(reason) => begun.finish_unknown(reason),
            }
        }
        panic!("{}: the broker did not take {} events", self.client, events.len());
    }

    async fn publish(&self, workflow: &str, payloads: &[Vec<u8>]) -> Result<(), String> {
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
