//! `retro emit`: finished runs from files, one event each, in the order of the files.

mod pace;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use retro_adapters::Options;
use retro_bus::{BodyStore, Bus, BusConfig, EventPublisher, OutgoingEvent};
use retro_config::{Config, without_password};
use retro_core::dead_letter::Rejection;
use retro_core::id::{Tenant, WorkflowKey, derive};
use retro_core::printable::make_printable_line;
use retro_core::time::Clock;
use retro_core::trace::TraceContext;
use retro_events::run_completed::RunEvent;
use retro_events::{Objects, subject};
use retro_trace::{Cause, Kind, Work};
use serde::Serialize;

use crate::cli::{Emit, Output};
use crate::clock::SystemClock;
use crate::commands::Exit;
use crate::emit::pace::Pace;
use crate::instance::Instance;
use crate::output;

/// A broker that is there answers well within this.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How often the connection is looked at until then.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What was sent, and what could not be read.
#[derive(Debug, Default, Serialize)]
struct Sent {
    /// Events that the broker has.
    sent: usize,
    /// Events of each workflow.
    workflows: BTreeMap<String, usize>,
    /// Bodies that went to the object store.
    bodies_uploaded: usize,
    /// Files that could not be read, each with where and why. Nothing of them was sent.
    refused: Vec<String>,
}

/// Sends every file. One that cannot be read is told and left out; the rest goes on.
pub(crate) async fn emit(
    args: &Emit,
    config: &Config,
    tenant: &Tenant,
    output: Output,
) -> anyhow::Result<Exit> {
    let mut sent = Sent::default();
    let mut events = Vec::new();
    for file in &args.files {
        match read(file, args)? {
            Ok(read) => events.extend(read),
            Err(rejection) => sent.refused.push(format!("{}: {rejection}", file.display())),
        }
    }
    if !events.is_empty() {
        let outer = outer_trace();
        let work = Work::begin("retro emit", Kind::Internal, Cause::of(outer.as_ref(), false));
        let sender = Sender::connect(args, config, tenant).await?;
        Box::pin(work.around(sender.send(events, &mut sent))).await?;
    }
    for refused in &sent.refused {
        output::told(&format!("refused {refused}"));
    }
    output::data(output, &sent, || summary(&sent))?;
    Ok(if sent.refused.is_empty() { Exit::Done } else { Exit::NotInOrder })
}

/// What called the program, as tools that trace pass it on.
fn outer_trace() -> Option<TraceContext> {
    let of = |name| std::env::var(name).ok();
    TraceContext::of_headers(&of("TRACEPARENT")?, of("TRACESTATE").as_deref()).ok()
}

fn summary(sent: &Sent) -> String {
    let workflows: Vec<_> = sent.workflows.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!("sent {} events ({}), refused {}", sent.sent, workflows.join(", "), sent.refused.len())
}

/// Reads a file into events. A file that cannot be read is refused whole, with where and why.
fn read(file: &Path, args: &Emit) -> anyhow::Result<Result<Vec<RunEvent>, Rejection>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let options = Options { workflow: args.workflow.clone(), outcome: args.outcome, task: args.task.clone() };
    Ok(retro_adapters::read_file(&bytes, &name, &options).map(|runs| {
        let events = runs.into_iter().map(|run| run.event);
        let wanted = events.skip(args.skip).take(args.take.unwrap_or(usize::MAX));
        if args.new_event_ids { wanted.map(renamed).collect() } else { wanted.collect() }
    }))
}

/// The same run told by another event, whose id no other call makes.
fn renamed(mut event: RunEvent) -> RunEvent {
    let call = format!("{} {}", std::process::id(), SystemClock.now());
    event.envelope.id = derive("event told again", &[&event.envelope.id, &call]).to_string();
    event
}

/// The road to the broker.
struct Sender {
    tenant: Tenant,
    bus: Bus,
    publisher: EventPublisher,
    objects: Arc<dyn Objects>,
    pace: Option<Pace>,
}

impl Sender {
    async fn connect(args: &Emit, config: &Config, tenant: &Tenant) -> anyhow::Result<Self> {
        let url = match &config.nats_url {
            Some(url) => url.expose().to_owned(),
            None => Instance::read(&config.data_dir)?.nats_url,
        };
        let bus = Bus::connect(BusConfig::new(&url, "retro-emit")).await?;
        await_broker(&bus, &url).await?;
        let pace = match args.pace {
            Some(runs) => Some(Pace::every(runs, config, tenant).await?),
            None => None,
        };
        let objects: Arc<dyn Objects> = Arc::new(BodyStore::new(bus.clone()));
        let publisher = EventPublisher::new(bus.clone());
        Ok(Self { tenant: tenant.clone(), bus, publisher, objects, pace })
    }

    async fn send(mut self, events: Vec<RunEvent>, sent: &mut Sent) -> anyhow::Result<()> {
        let bar = bar(events.len());
        for event in events {
            let workflow = event.workflow.clone();
            self.send_one(event, sent).await?;
            *sent.workflows.entry(workflow.to_string()).or_default() += 1;
            bar.inc(1);
            if let Some(pace) = &mut self.pace
                && pace.full(&workflow)
            {
                sent.sent = self.publisher.finish().await?;
                let named = format!("retrospective of {workflow}");
                bar.set_message(make_printable_line(&named).into_owned());
                pace.wait(&self.bus, &workflow).await?;
                bar.set_message("");
            }
        }
        sent.sent = self.publisher.finish().await?;
        bar.finish_and_clear();
        Ok(())
    }

    async fn send_one(&mut self, mut event: RunEvent, sent: &mut Sent) -> anyhow::Result<()> {
        if let Some(body) = event.body_to_upload() {
            let object = self.objects.put(&self.tenant, body).await?;
            sent.bodies_uploaded += 1;
            event = event.with_object(&object);
        }
        let key = WorkflowKey { tenant: self.tenant.clone(), workflow: event.workflow.clone() };
        let encoded = event.envelope.structured();
        let mut headers = encoded.headers;
        let work = retro_trace::send_event(subject::RUN_COMPLETED);
        if let Some(trace) = work.trace() {
            headers.push(("traceparent".to_owned(), trace.parent()));
            headers.extend(trace.state.map(|state| ("tracestate".to_owned(), state)));
        }
        let outgoing =
            OutgoingEvent { subject: subject::run_completed(&key), headers, payload: encoded.payload };
        sent.sent = self.publisher.publish_event(outgoing).await?;
        Ok(())
    }
}

/// Waits a moment for the broker. A program that was killed leaves its address behind; sending is tried for a while, and a person
/// wants to know why nothing happens. Fails when the broker refuses us: trying again would not change that.
async fn await_broker(bus: &Bus, url: &str) -> anyhow::Result<()> {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let settled = async {
        while !bus.is_connected() && !bus.is_login_refused() {
            looks.tick().await;
        }
    };
    let in_time = tokio::time::timeout(ANSWERS_WITHIN, settled).await.is_ok();
    let url = without_password(url);
    if let Some(problem) = bus.problem().filter(|_| bus.is_login_refused()) {
        bail!(
            "{problem} (at {url}). The address of a `retro up` with its credential is `nats_url` in the instance.json of its \
             data folder; without NATS_URL it is taken from there"
        );
    }
    if !in_time {
        output::told(&format!(
            "no broker answers at {url}: is `retro up` running? Trying for about half a minute"
        ));
    }
    Ok(())
}

fn bar(events: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("   {bar:30} {pos}/{len} runs  {per_sec}  {msg}");
    let bar = ProgressBar::new(u64::try_from(events).unwrap_or(u64::MAX));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
