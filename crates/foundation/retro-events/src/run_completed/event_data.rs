//! Reads the type, the workflow and the `data` of an event.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Workflow;
use retro_core::json::JsonNode;

use crate::envelope::Envelope;
use crate::field;

/// Type of the event. Its meaning never changes; a new meaning gets a new version.
pub const TYPE: &str = "dev.retrospect.run.completed.v1";

/// Returns `data`. Fails if it is not a JSON object.
pub(super) fn data_object(envelope: &Envelope) -> Result<JsonNode<'_>, Rejection> {
    let data = envelope.data.root();
    field::check_object(DeadLetterCode::FieldInvalid, "data", data)
        .map_err(|_| Rejection::of_field(DeadLetterCode::FieldInvalid, "data", "is to be a JSON object"))?;
    Ok(data)
}

fn check_type(envelope: &Envelope) -> Result<(), Rejection> {
    if envelope.kind == TYPE {
        return Ok(());
    }
    Err(Rejection::of_field(DeadLetterCode::TypeUnknown, "type", format!("only {TYPE} is taken here")))
}

/// Parses the workflow. Fails if the event has another type.
pub(super) fn parse_workflow(envelope: &Envelope) -> Result<Workflow, Rejection> {
    check_type(envelope)?;
    match envelope.data.root().get("workflow") {
        Some(workflow) => field::deserialize_field(DeadLetterCode::FieldInvalid, "data.workflow", workflow),
        None => Err(Rejection::of_field(DeadLetterCode::FieldInvalid, "data.workflow", "is missing")),
    }
}
