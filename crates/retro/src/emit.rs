//! Runs `retro emit`, which sends finished runs from files, one event per run, in file order.

mod pace;
mod sender;
mod watch;

use std::path::Path;

use anyhow::Context;
use retro_config::Config;
use retro_core::dead_letter::Rejection;
use retro_core::id::Tenant;
use retro_core::trace::TraceContext;
use retro_events::run_completed::RunEvent;
use retro_telemetry::trace::{Kind, Span, SpanParent};

use crate::cli::{Emit, Output};
use crate::exit::Exit;
use crate::output;
use sender::{EmitSummary, Sender, import_events};

pub(crate) use sender::{connect_broker, file_name};

/// Sends the events of all files. Files that cannot be parsed are reported and skipped.
pub(crate) async fn emit_files(
    args: &Emit,
    config: &Config,
    tenant: &Tenant,
    output: Output,
) -> anyhow::Result<Exit> {
    if let Some(folder) = &args.watch {
        return watch::watch_folder(folder, args, config, tenant, output).await;
    }
    let mut sent = EmitSummary::default();
    let mut events = Vec::new();
    for file in &args.files {
        match read_events(file, args)? {
            Ok(read) => events.extend(read),
            Err(rejection) => sent.refused.push(format!("{}: {rejection}", file.display())),
        }
    }
    if !events.is_empty() {
        let outer = read_trace_context();
        let work = Span::start("retro emit", Kind::Internal, SpanParent::from_trace(outer.as_ref(), false));
        // Connect after parsing, so invalid files are reported even without a broker.
        let mut sender = Sender::connect(args, config, tenant).await?;
        Box::pin(work.instrument(sender.send_events(events, &mut sent))).await?;
    }
    for refused in &sent.refused {
        output::print_notice(&format!("refused {refused}"));
    }
    output::print_data(output, &sent, || format_summary(&sent))?;
    Ok(if sent.refused.is_empty() { Exit::Done } else { Exit::ProblemFound })
}

/// Reads the caller's trace context from TRACEPARENT and TRACESTATE; `None` if it is missing or invalid.
fn read_trace_context() -> Option<TraceContext> {
    let of = |name| std::env::var(name).ok();
    TraceContext::from_headers(&of("TRACEPARENT")?, of("TRACESTATE").as_deref()).ok()
}

fn format_summary(sent: &EmitSummary) -> String {
    let workflows: Vec<_> = sent.workflows.iter().map(|(name, count)| format!("{name} {count}")).collect();
    format!("sent {} events ({}), refused {}", sent.sent, workflows.join(", "), sent.refused.len())
}

/// Parses a file into events. Rejects the whole file, with the location and the reason, if any part of it is
/// invalid. Fails if the file, or another one that the arguments name, cannot be read.
fn read_events(file: &Path, args: &Emit) -> anyhow::Result<Result<Vec<RunEvent>, Rejection>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    import_events(&bytes, file, args)
}
