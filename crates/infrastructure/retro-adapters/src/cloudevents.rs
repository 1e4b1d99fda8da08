//! Importer for `run.completed` CloudEvents, which are forwarded unchanged.

use retro_core::dead_letter::Rejection;
use retro_core::json::JsonDocument;
use retro_events::atif;
use retro_events::envelope::Envelope;
use retro_events::run_completed::RunEvent;
use serde_json::Value;

use crate::import::ImportedRun;

/// Parses one event in structured mode. The trajectory is validated here, so the author of the file sees the
/// path of an error immediately instead of in a dead letter.
pub(crate) fn parse_document(document: &Value) -> Result<Vec<ImportedRun>, Rejection> {
    let event = RunEvent::from_envelope(Envelope::from_document(&JsonDocument::from_value(document))?)?;
    if let Some(trajectory) = event.trajectory() {
        atif::parse_trajectory(trajectory, "data.trajectory")?;
    }
    Ok(vec![ImportedRun { location: String::new(), event }])
}
