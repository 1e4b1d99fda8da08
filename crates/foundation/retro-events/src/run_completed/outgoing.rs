//! Builds the `run.completed` events that `retro emit`, the demo and tests send.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::id::{Workflow, derive_uuid};
use retro_core::run::{GithubLogRef, ObjectRef, RunFacts};
use serde_json::{Map, Value, json};

use super::event_data::{TYPE, data_object, parse_workflow};
use super::facts::{check_times, parse_facts};
use crate::atif::AGENTS_MD;
use crate::envelope::Envelope;
use retro_core::json::{JsonDocument, JsonNode};

/// Maximum size of a trajectory sent inside its event, in bytes of JSON: 64 KiB, the event size that
/// CloudEvents asks every intermediary to forward.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// An outgoing `run.completed` event.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// Envelope to send; `to_structured` and `to_binary` encode it.
    pub envelope: Envelope,
    /// Workflow named in the envelope, from which the subject is built.
    pub workflow: Workflow,
    /// Facts of the run, as contained in the envelope.
    pub run: RunFacts,
}

impl RunEvent {
    /// Creates an event. Its id is derived from its source and content, so the same run sent twice is one
    /// event.
    pub fn new(source: &str, workflow: Workflow, run: RunFacts, trajectory: Option<Value>) -> Self {
        Self::with_body(source, workflow, run, trajectory.map(|trajectory| ("trajectory", trajectory)))
    }

    fn with_body(source: &str, workflow: Workflow, run: RunFacts, body: Option<(&str, Value)>) -> Self {
        let mut data = json!(run);
        data["workflow"] = workflow.as_str().into();
        if let Some((member, body)) = body {
            data[member] = body;
        }
        let data = JsonDocument::from_value(&data);
        let envelope = Envelope {
            id: derive_uuid("event", &[source, &data.root().content_hash()]).to_string(),
            source: source.to_owned(),
            kind: TYPE.to_owned(),
            time: run.finished_at,
            extensions: Map::new(),
            data,
        };
        Self { envelope, workflow, run }
    }

    /// Returns the event of the same run with the log of its failed jobs as its body. It has an id of its own,
    /// because its content differs.
    pub fn with_github_log(self, log: &GithubLogRef) -> Self {
        let run = RunFacts { outcome_only: false, ..self.run };
        let body = Some(("dataref", json!({"github_log": log})));
        Self::with_body(&self.envelope.source, self.workflow, run, body)
    }

    /// Returns the event of this attempt at the same run. It has an id of its own, because its content differs.
    pub fn with_attempt(self, attempt: u32) -> Self {
        if self.run.attempt == attempt {
            return self;
        }
        let body = self.trajectory().map(|trajectory| ("trajectory", trajectory.to_value()));
        let run = RunFacts { attempt, ..self.run };
        Self::with_body(&self.envelope.source, self.workflow, run, body)
    }

    /// Returns the event of the same run whose trajectory carries what the repository's `AGENTS.md` says, unless it carries
    /// one already or the event has no trajectory. It has an id of its own, because its content differs.
    pub fn with_agents_md(self, text: &str) -> Self {
        let trajectory = self.trajectory().map(|trajectory| trajectory.to_value());
        let Some(Value::Object(mut trajectory)) = trajectory else { return self };
        let extra = trajectory.entry("extra").or_insert(Value::Null);
        if extra.is_null() {
            *extra = json!({});
        }
        let Some(members) = extra.as_object_mut() else { return self };
        if !members.get(AGENTS_MD).is_none_or(Value::is_null) {
            return self;
        }
        members.insert(AGENTS_MD.to_owned(), text.into());
        let body = Some(("trajectory", Value::Object(trajectory)));
        Self::with_body(&self.envelope.source, self.workflow, self.run, body)
    }

    /// Wraps an existing event to be sent unchanged, because rewriting its data could give it other content under
    /// the same id. Fails if its facts cannot be parsed.
    pub fn from_envelope(envelope: Envelope) -> Result<Self, Rejection> {
        let workflow = parse_workflow(&envelope)?;
        let run = parse_facts(data_object(&envelope)?)?;
        // Not compared with a clock: the gateway or the broker does so when it receives the event.
        check_times(&run, None)?;
        Ok(Self { envelope, workflow, run })
    }

    /// Returns the ATIF document inside the event; `None` if the event contains no trajectory.
    pub fn trajectory(&self) -> Option<JsonNode<'_>> {
        self.envelope.data.root().get_non_null("trajectory")
    }

    /// Returns the JSON of the trajectory if it is too large to send inside the event; otherwise `None`. The
    /// caller stores it as an object and passes the reference to [`RunEvent::with_object`].
    pub fn body_to_upload(&self) -> Option<Bytes> {
        let trajectory = self.trajectory()?;
        // A short original text is not serialized just to measure it.
        if trajectory.raw_text().len() <= INLINE_BYTES_MAX {
            return None;
        }
        let json = trajectory.sorted_json();
        (json.len() > INLINE_BYTES_MAX).then(|| json.into())
    }

    /// Replaces the trajectory with a reference to an object.
    pub fn with_object(mut self, object: &ObjectRef) -> Self {
        let object = JsonDocument::from_value(&json!(object));
        let data = self.envelope.data.root();
        let rest = data.members().into_iter().flatten().filter(|(name, _)| name != "trajectory");
        let members: BTreeMap<Cow<'_, str>, JsonNode<'_>> =
            rest.chain([("dataref".into(), object.root())]).collect();
        let written = serde_json::to_vec(&members).expect("members serialize to JSON");
        self.envelope.data = JsonDocument::from_serialized(written);
        self
    }
}
