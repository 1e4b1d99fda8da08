//! The writing side: what `retro emit`, the demo and tests send.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::id::{Workflow, derive};
use retro_core::run::{ObjectRef, RunFacts};
use serde_json::{Map, Value, json};

use super::TYPE;
use crate::envelope::Envelope;
use retro_core::json::{Document, Node};

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
        let data = Document::of_value(&data);
        let envelope = Envelope {
            id: derive("event", &[source, &data.root().content_hash()]).to_string(),
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
        let run = super::read_facts(super::data_of(&envelope)?)?;
        super::check_times(&run, None)?;
        Ok(Self { envelope, workflow, run })
    }

    /// The trajectory inside the event: an ATIF document.
    pub fn trajectory(&self) -> Option<Node<'_>> {
        self.envelope.data.root().get_present("trajectory")
    }

    /// The trajectory's JSON when it is too large to travel inside: to be stored as an object, then named by
    /// [`RunEvent::with_object`].
    pub fn body_to_upload(&self) -> Option<Bytes> {
        let trajectory = self.trajectory()?;
        // What is small as it came is left as it came, without writing it to see.
        if trajectory.text().len() <= INLINE_BYTES_MAX {
            return None;
        }
        let json = trajectory.sorted_json();
        (json.len() > INLINE_BYTES_MAX).then(|| json.into())
    }

    /// The event with its body by reference instead of inside.
    pub fn with_object(mut self, object: &ObjectRef) -> Self {
        let object = Document::of_value(&json!(object));
        let data = self.envelope.data.root();
        let rest = data.members().into_iter().flatten().filter(|(name, _)| name != "trajectory");
        let members: BTreeMap<Cow<'_, str>, Node<'_>> =
            rest.chain([("dataref".into(), object.root())]).collect();
        let written = serde_json::to_vec(&members).expect("members are plain data");
        self.envelope.data = Document::of_written(written);
        self
    }
}
