//! The writing side: what `retro emit`, the demo and tests send.

use bytes::Bytes;
use retro_core::canonical::content_hash;
use retro_core::dead_letter::Rejection;
use retro_core::id::{Workflow, derive};
use retro_core::run::{ObjectRef, RunFacts};
use serde_json::{Map, Value, json};

use super::TYPE;
use crate::envelope::Envelope;

/// The largest trajectory that travels inside its event, in bytes of JSON: CloudEvents asks every hop to carry 64
/// KiB.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A finished run on its way to the broker.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// What is sent; `structured` or `binary` give its form on the wire.
    pub envelope: Envelope,
    /// The workflow, as it stands in the envelope: the subject needs it.
    pub workflow: Workflow,
    /// The facts, as they stand in the envelope.
    pub run: RunFacts,
}

impl RunEvent {
    /// A new event. Its id is derived from its source and content: the same run told twice is one event.
    pub fn new(source: &str, workflow: Workflow, run: RunFacts, trajectory: Option<Value>) -> Self {
        let mut data = json!(run);
        data["workflow"] = workflow.as_str().into();
        if let Some(trajectory) = trajectory {
            data["trajectory"] = trajectory;
        }
        let envelope = Envelope {
            id: derive("event", &[source, &content_hash(&data)]).to_string(),
            source: source.to_owned(),
            kind: TYPE.to_owned(),
            time: run.finished_at,
            extensions: Map::new(),
            data,
        };
        Self { envelope, workflow, run }
    }

    /// An event that exists already, to be sent as it is: re-writing its data would make another content under the
    /// same id of it. Facts that cannot be read are refused.
    pub fn of_envelope(envelope: Envelope) -> Result<Self, Rejection> {
        let workflow = super::workflow_of(&envelope)?;
        let run = super::read_facts(super::facts_in(super::data_of(&envelope)?))?;
        super::check_times(&run, None)?;
        Ok(Self { envelope, workflow, run })
    }

    /// The trajectory inside the event: an ATIF document.
    pub fn trajectory(&self) -> Option<&Value> {
        self.envelope.data.get("trajectory").filter(|trajectory| !trajectory.is_null())
    }

    /// The trajectory's JSON when it is too large to travel inside: to be stored as an object, then named by
    /// [`RunEvent::with_object`].
    pub fn body_to_upload(&self) -> Option<Bytes> {
        let json = self.trajectory()?.to_string();
        (json.len() > INLINE_BYTES_MAX).then(|| json.into())
    }

    /// The event with its body by reference instead of inside.
    pub fn with_object(mut self, object: &ObjectRef) -> Self {
        if let Some(data) = self.envelope.data.as_object_mut() {
            data.remove("trajectory");
            data.insert("dataref".to_owned(), json!(object));
        }
        self
    }
}
