#![doc = include_str!("../README.md")]

mod atif;
mod atif_document;
mod chat;
mod claude_code;
mod cloudevents;
mod codex;
mod conversation;
mod detect;
mod file_content;
mod import;
mod location;
mod otel;
mod swe_agent;
mod tau2;

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::json::JsonBounds;

pub use detect::Format;
pub use file_content::FILE_BYTES_MAX;
pub use import::{ImportOptions, ImportedRun, TASK_BYTES_MAX};
pub use location::prefix_path;
pub use otel::{
    ImportedSpan, ImportedTrace, ImportedTraces, TraceEncoding, assemble_trace, import_traces,
    join_span_documents,
};

use file_content::Content;
use location::join_locations;

/// Parses all runs of a file, in order. The file name is used if the content alone does not identify the
/// format. Either all runs are imported or the file is rejected. The rejection has the code `type_unknown` if
/// the format is not supported; otherwise it contains the path of the first invalid field.
pub fn import_file(
    bytes: &[u8],
    file_name: &str,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let content = file_content::parse_file(bytes)?;
    let format = detect::detect_content(&content, file_name)?;
    import_content(format, &content, options)
}

/// Parses all runs of a file that was sent over a network, as [`import_file`] does. Fails also if it has more than
/// `bytes_max` bytes, or more than 250,000 values and keys. It is never decompressed.
pub fn import_upload(
    body: &Bytes,
    bytes_max: usize,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let bounds = JsonBounds { bytes_max, values_max: file_content::UPLOAD_VALUES_MAX };
    let content = file_content::parse_content(body, bounds)?;
    import_content(detect::detect_content(&content, "")?, &content, options)
}

/// Detects the format of a file. Fails with `type_unknown` if the format is not recognized or not supported
/// yet.
pub fn detect_format(bytes: &[u8], file_name: &str) -> Result<Format, Rejection> {
    detect::detect_content(&file_content::parse_file(bytes)?, file_name)
}

/// Parses all runs of a file in the given format.
pub fn import_file_as(
    format: Format,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    import_content(format, &file_content::parse_file(bytes)?, options)
}

fn import_content(
    format: Format,
    content: &Content,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let runs = parse_runs(format, content, options)?;
    // An event that somebody else has made is sent as it is.
    let Some(text) = options.agents_md.as_deref().filter(|_| format != Format::CloudEvents) else {
        return Ok(runs);
    };
    Ok(runs.into_iter().map(|run| ImportedRun { event: run.event.with_agents_md(text), ..run }).collect())
}

fn parse_runs(
    format: Format,
    content: &Content,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    if let Content::Spans(spans) = content {
        return otel::build_runs(spans.clone(), options);
    }
    let documents = content.list_documents();
    // The documents of a transcript are its entries.
    let entries = || documents.iter().map(|(_, document)| *document).collect::<Vec<_>>();
    match format {
        Format::ClaudeCode => return Ok(vec![claude_code::parse_session(&entries(), options)?]),
        Format::OpenTelemetry => return otel::build_runs(otel::parse_documents(&documents)?, options),
        Format::Codex => return Ok(vec![codex::parse_session(&entries(), options)?]),
        Format::Chat if documents.first().is_some_and(|(_, document)| chat::is_message(document)) => {
            return Ok(vec![chat::parse_messages(&entries(), options)?]);
        }
        _ => {}
    }
    let mut runs = Vec::new();
    for (place, document) in documents {
        let found = match format {
            Format::CloudEvents => cloudevents::parse_document(document),
            Format::Atif => atif::parse_document(document, options),
            Format::SweAgent => swe_agent::parse_document(document, options),
            Format::Tau2 => tau2::parse_document(document, options),
            Format::Chat => chat::parse_document(document, options),
            Format::ClaudeCode | Format::Codex | Format::OpenTelemetry => unreachable!("handled above"),
        };
        let found = found.map_err(|rejection| prefix_path(&place, rejection))?;
        runs.extend(
            found
                .into_iter()
                .map(|run| ImportedRun { location: join_locations(&place, &run.location), ..run }),
        );
    }
    Ok(runs)
}
