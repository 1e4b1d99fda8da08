//! Times the parts of counting that use the CPU alone, one after the other on one thread.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;
use retro_core::json::{JsonBounds, JsonDocument};
use retro_events::Delivery;
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, Body, RunCompleted};
use retro_events::subject::run_completed_subject;
use retro_redact::Redactor;

use crate::events::Event;

/// Time at which the broker has stored every event, shortly after the runs ended.
const STORED_AT: &str = "2026-11-01T12:00:00Z";

/// Wraps an event in a message as the broker delivers it.
pub(crate) fn delivery(event: &Event, sequence: u64) -> Delivery {
    Delivery {
        stream: crate::servers::INTAKE_STREAM.to_owned(),
        subject: run_completed_subject(&event.key),
        sequence,
        headers: Vec::new(),
        payload: event.payload.clone().into(),
        delivered: 1,
        stored_at: STORED_AT.parse().expect("a timestamp"),
    }
}

/// CPU time of one part.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) time: Duration,
}

/// Returns the CPU time of each part, per event.
pub(crate) fn time_parts(events: &[Event]) -> Result<Vec<Part>> {
    let hosts = DatarefHosts::default();
    let deliveries: Vec<Delivery> = events.iter().zip(1..).map(|(event, nth)| delivery(event, nth)).collect();
    let parse = |delivery: &Delivery| {
        run_completed::parse_delivery(delivery, &hosts).map_err(|rejection| anyhow::anyhow!("{rejection:?}"))
    };
    // Patterns are compiled at first use.
    redact(&mut parse(&deliveries[0])?);
    let began = Instant::now();
    let parsed: Result<Vec<RunCompleted>> = deliveries.iter().map(parse).collect();
    let parsing = began.elapsed();
    let mut parsed = parsed?;

    let data: Vec<JsonDocument> = deliveries
        .iter()
        .map(|delivery| {
            JsonDocument::parse(&delivery.payload, JsonBounds::with_bytes_max(1 << 20))
                .map_err(|error| anyhow::anyhow!("{error:?}"))
        })
        .collect::<Result<_>>()?;
    let began = Instant::now();
    for document in &data {
        black_box(document.root().content_hash());
    }
    let hashing = began.elapsed();

    let began = Instant::now();
    parsed.iter_mut().for_each(redact);
    let redaction = began.elapsed();

    let began = Instant::now();
    let bodies: Vec<Vec<u8>> = parsed.iter().map(serialize_body).collect();
    let serializing = began.elapsed();

    let mut compressor = zstd::bulk::Compressor::new(3)?;
    let began = Instant::now();
    for body in &bodies {
        black_box(compressor.compress(body)?);
    }
    let compressing = began.elapsed();

    let number = u32::try_from(events.len())?;
    let part = |name, time: Duration| Part { name, time: time / number };
    Ok(vec![
        part("parse and check", parsing.saturating_sub(hashing)),
        part("canonical hash", hashing),
        part("redact", redaction),
        part("serialize", serializing),
        part("compress", compressing),
    ])
}

fn redact(run: &mut RunCompleted) {
    let mut redactor = Redactor::shared().begin_run();
    redactor.redact_facts(&mut run.run);
    if let Body::Inline(trajectory) = &mut run.body {
        redactor.redact_trajectory(trajectory);
    }
}

fn serialize_body(run: &RunCompleted) -> Vec<u8> {
    match &run.body {
        Body::Inline(trajectory) => serde_json::to_vec(trajectory).expect("a trajectory serializes to JSON"),
        _ => Vec::new(),
    }
}
