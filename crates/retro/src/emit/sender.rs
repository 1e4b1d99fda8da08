//! Sends events to the broker, and reads them from files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use retro_bus::{BodyStore, Bus, EventPublisher, OutgoingEvent};
use retro_config::{Config, mask_password};
use retro_core::dead_letter::Rejection;
use retro_core::id::{Tenant, WorkflowKey, derive_uuid};
use retro_core::printable::make_printable_line;
use retro_core::time::Clock;
use retro_events::run_completed::RunEvent;
use retro_events::{ObjectStorage, subject};
use serde::Serialize;

use crate::cli::Emit;
use crate::clock::SystemClock;
use crate::emit::pace::Pace;
use crate::instance::Instance;
use crate::{broker, output};

/// Time after which the user is told that the broker does not respond.
const BROKER_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which the connection state is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Result of `retro emit`.
#[derive(Debug, Default, Serialize)]
pub(super) struct EmitSummary {
    /// Number of events confirmed by the broker.
    pub(super) sent: usize,
    /// Number of sent events by workflow.
    pub(super) workflows: BTreeMap<String, usize>,
    /// Number of bodies uploaded to the object store.
    pub(super) bodies_uploaded: usize,
    /// Files that could not be parsed, each with the location and the reason. None of their events were sent.
    pub(super) refused: Vec<String>,
}

/// Parses the content of a file into events, of which the arguments select some. Fails if another file that the arguments
/// name cannot be used.
pub(super) fn import_events(
    bytes: &[u8],
    file: &Path,
    args: &Emit,
) -> anyhow::Result<Result<Vec<RunEvent>, Rejection>> {
    let options = args.import.options().map_err(anyhow::Error::msg)?;
    let runs = match retro_adapters::import_file(bytes, &file_name(file), &options) {
        Ok(runs) => runs,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let events = runs.into_iter().map(|run| run.event);
    let selected = events.skip(args.skip).take(args.limit.unwrap_or(usize::MAX));
    Ok(Ok(if args.new_event_ids { selected.map(with_new_id).collect() } else { selected.collect() }))
}

/// Returns the name of a file without its folder.
pub(crate) fn file_name(file: &Path) -> String {
    file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Replaces the event id with a new unique one. The run id stays the same.
fn with_new_id(mut event: RunEvent) -> RunEvent {
    let call = format!("{} {}", std::process::id(), SystemClock.now());
    event.envelope.id = derive_uuid("event told again", &[&event.envelope.id, &call]).to_string();
    event
}

/// Sends events to the broker and pauses as requested by `--pause-every`.
pub(super) struct Sender {
    tenant: Tenant,
    bus: Bus,
    publisher: EventPublisher,
    objects: Arc<dyn ObjectStorage>,
    pace: Option<Pace>,
}

impl Sender {
    /// Connects to the broker of the configuration, and to the database if the arguments ask for pauses.
    pub(super) async fn connect(args: &Emit, config: &Config, tenant: &Tenant) -> anyhow::Result<Self> {
        let bus = connect_broker(config, "retro-emit").await?;
        let pace = match args.pause_every {
            Some(runs) => Some(Pace::open(runs, config, tenant).await?),
            None => None,
        };
        let objects: Arc<dyn ObjectStorage> = Arc::new(BodyStore::new(bus.clone()));
        let publisher = EventPublisher::new(bus.clone());
        Ok(Self { tenant: tenant.clone(), bus, publisher, objects, pace })
    }

    /// Sends events in order, and returns when the broker has confirmed all of them.
    pub(super) async fn send_events(
        &mut self,
        events: Vec<RunEvent>,
        sent: &mut EmitSummary,
    ) -> anyhow::Result<()> {
        let bar = build_progress_bar(events.len());
        for event in events {
            let workflow = event.workflow.clone();
            self.send_one(event, sent).await?;
            *sent.workflows.entry(workflow.to_string()).or_default() += 1;
            bar.inc(1);
            if let Some(pace) = &mut self.pace
                && pace.count_event(&workflow)
            {
                // Confirm first: events still on their way to the broker are not in the counter's backlog.
                sent.sent = self.publisher.confirm_all().await?;
                let named = format!("retrospective of {workflow}");
                bar.set_message(make_printable_line(&named).into_owned());
                pace.wait_until_idle(&self.bus, &workflow).await?;
                bar.set_message("");
            }
        }
        sent.sent = self.publisher.confirm_all().await?;
        bar.finish_and_clear();
        Ok(())
    }

    async fn send_one(&mut self, mut event: RunEvent, sent: &mut EmitSummary) -> anyhow::Result<()> {
        // Uploaded before the event is sent, so no event refers to a missing body.
        if let Some(body) = event.body_to_upload() {
            let object = self.objects.put(&self.tenant, body).await?;
            sent.bodies_uploaded += 1;
            event = event.with_object(&object);
        }
        let key = WorkflowKey { tenant: self.tenant.clone(), workflow: event.workflow.clone() };
        let encoded = event.envelope.to_structured();
        let mut headers = encoded.headers;
        let work = retro_telemetry::trace::start_send_event_span(subject::RUN_COMPLETED);
        if let Some(trace) = work.trace_context() {
            headers.push(("traceparent".to_owned(), trace.traceparent()));
            headers.extend(trace.state.map(|state| ("tracestate".to_owned(), state)));
        }
        let outgoing = OutgoingEvent {
            subject: subject::run_completed_subject(&key),
            headers,
            payload: encoded.payload,
        };
        sent.sent = self.publisher.publish_event(outgoing).await?;
        Ok(())
    }
}

/// Connects to the configured broker, or to that of the `retro up` that uses the data folder. `name` is shown at
/// the broker.
pub(crate) async fn connect_broker(config: &Config, name: &str) -> anyhow::Result<Bus> {
    let url = match &config.nats_url {
        Some(url) => url.expose().to_owned(),
        None => Instance::read(&config.data_dir)?.nats_url,
    };
    let bus = Bus::connect(broker::bus_config(config, &url, name)).await?;
    wait_for_broker(&bus, &url).await?;
    Ok(bus)
}

/// Waits up to [`BROKER_TIMEOUT`] for the broker. If the broker does not respond, prints a notice, because
/// the address may be that of a killed `retro up` and sending retries for about half a minute. Fails if the
/// broker refuses the login or another fault of the connection stays, because retrying would not help.
async fn wait_for_broker(bus: &Bus, url: &str) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let settled = async {
        while !bus.is_connected() && bus.connection_fault().is_none() {
            ticks.tick().await;
        }
    };
    let in_time = tokio::time::timeout(BROKER_TIMEOUT, settled).await.is_ok();
    let url = mask_password(url);
    if let Some(problem) = bus.connection_problem().filter(|_| bus.is_login_refused()) {
        bail!(
            "{problem} (at {url}). The address of a `retro up` and its credential are in `nats_url` of the \
             instance.json in its data folder; without NATS_URL they are read from there"
        );
    }
    if let Some(fault) = bus.connection_fault() {
        bail!("{fault} (at {url})");
    }
    if !in_time {
        output::print_notice(&format!(
            "no broker answers at {url}: is `retro up` running? Retrying for about half a minute"
        ));
    }
    Ok(())
}

fn build_progress_bar(events: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("   {bar:30} {pos}/{len} runs  {per_sec}  {msg}");
    let bar = ProgressBar::new(u64::try_from(events).unwrap_or(u64::MAX));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
