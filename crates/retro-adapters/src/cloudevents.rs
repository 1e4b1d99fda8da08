//! CloudEvents that say that a run is over: sent on as they are.

use retro_core::dead_letter::Rejection;
use retro_core::json::Document;
use retro_events::atif;
use retro_events::envelope::Envelope;
use retro_events::run_completed::RunEvent;
use serde_json::Value;

use crate::ForeignRun;

/// Reads one structured event. Its trajectory is checked here, where its author sees the path, not in a dead letter.
pub(crate) fn read(document: &Value) -> Result<Vec<ForeignRun>, Rejection> {
    let event = RunEvent::of_envelope(Envelope::from_document(&Document::of_value(document))?)?;
    if let Some(trajectory) = event.trajectory() {
        atif::read(trajectory, "data.trajectory")?;
    }
    Ok(vec![ForeignRun { place: String::new(), event }])
}
