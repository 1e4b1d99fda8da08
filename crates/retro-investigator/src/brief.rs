//! The brief: what an investigator is given about a claimed run.

use std::sync::Arc;

use bytes::Bytes;
use retro_core::finding::{Brief, EarlierFinding, KnownMemory};
use retro_core::id::Step;
use retro_core::memory::Memory;
use retro_core::retrospective::{Investigation, Presented};
use retro_core::trajectory::Trajectory;
use retro_events::{Https, ObjectError, Objects, atif};
use retro_redact::Redactor;
use retro_store::{Claim, StoredBody};

/// Why there is no trajectory.
#[derive(Debug)]
pub(crate) enum NoBody {
    /// It is gone or differs; another run takes this one's place.
    Gone(String),
    /// It could not be fetched this time.
    Unavailable(String),
}

/// Where bodies that are not in the database are fetched from.
#[derive(Clone)]
pub struct Bodies {
    /// The broker's object store.
    pub objects: Arc<dyn Objects>,
    /// The hosts that are allowed.
    pub https: Arc<dyn Https>,
}

/// A body as it was fetched; reading it takes a while.
pub(crate) enum Fetched {
    /// There is none: the run is looked at by its facts alone.
    Nothing,
    /// Our own JSON of a [`Trajectory`].
    Stored(Vec<u8>),
    /// The emitter's ATIF document, unread.
    Document(Bytes),
}

/// Fetches the body of a claimed run.
pub(crate) async fn fetch(claim: &Claim, bodies: &Bodies) -> Result<Fetched, NoBody> {
    let fetched = match &claim.body {
        StoredBody::None => return Ok(Fetched::Nothing),
        StoredBody::Gone(problem) => return Err(NoBody::Gone(problem.clone())),
        StoredBody::Inline(bytes) => return Ok(Fetched::Stored(bytes.clone())),
        StoredBody::Object(object) => bodies.objects.get(object).await,
        StoredBody::Https(body) => bodies.https.get(body).await,
    };
    fetched.map(Fetched::Document).map_err(|error| match error {
        ObjectError::Gone { name, problem } => NoBody::Gone(format!("{name}: {problem}")),
        ObjectError::Unavailable(problem) => NoBody::Unavailable(problem),
    })
}

impl Fetched {
    /// The trajectory, redacted; fails with why it cannot be read.
    fn read(self) -> Result<Trajectory, String> {
        match self {
            Self::Nothing => Ok(Trajectory::default()),
            Self::Stored(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| format!("the stored body is unreadable: {error}")),
            Self::Document(bytes) => parsed(&bytes),
        }
    }
}

/// A body that was fetched is the emitter's ATIF document: it is read and redacted here.
fn parsed(bytes: &Bytes) -> Result<Trajectory, String> {
    let mut trajectory = atif::from_slice(bytes).map_err(|rejection| rejection.to_string())?;
    Redactor::shared().trajectory(&mut trajectory);
    Ok(trajectory)
}

/// Puts the brief together: our own injected blocks, and what the memories told the agent, are taken out of the trace
/// first. Fails with why the body cannot be read. Computes for as long as the body is large.
pub(crate) fn brief(claim: &Claim, fetched: Fetched) -> Result<Brief, String> {
    let trajectory = fetched.read()?;
    let met = |memory: &&Memory| claim.presented.iter().any(|shown| shown.memory == memory.id);
    let met: Vec<_> = claim.memories.iter().filter(met).collect();
    Ok(Brief {
        run: claim.run.clone().without_injected_blocks(),
        trajectory: trajectory.without_injected_blocks().without_told(&met),
        memories: claim.memories.iter().filter_map(|memory| known(memory, &claim.presented)).collect(),
        earlier: claim.earlier.iter().flat_map(earlier).collect(),
        outcomes: claim.outcomes.clone(),
        focus: claim.retrospective.asked.as_ref().and_then(|asked| asked.focus.clone()),
    })
}

/// What is said about a run is about its steps' memories, and about rules that it was presented with.
fn known(memory: &Memory, presented: &[Presented]) -> Option<KnownMemory> {
    let shown = presented.iter().find(|shown| shown.memory == memory.id);
    let step: Option<&Step> = memory.scope.step();
    let is_rule = shown.is_some_and(|shown| shown.repo.is_some());
    (step.is_some() || is_rule).then(|| KnownMemory {
        id: memory.id,
        step: step.cloned(),
        subject: memory.lesson.subject.clone(),
        title: memory.lesson.title.clone(),
        cue: memory.lesson.cue.clone(),
        weight: memory.weight,
        presented: shown.is_some(),
        read: shown.is_some_and(|shown| shown.read),
    })
}

fn earlier(investigation: &Investigation) -> Vec<EarlierFinding> {
    let looked = investigation.result.as_ref().and_then(|result| result.looked());
    let findings = looked.map(|(checked, _)| checked.findings.clone()).unwrap_or_default();
    findings.into_iter().map(|finding| EarlierFinding { run: investigation.run.clone(), finding }).collect()
}
