//! The brief: what an investigator is given about a claimed run.

use std::sync::Arc;

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

/// Fetches the trajectory of a claimed run, redacted. A run without one is looked at by its facts alone.
pub(crate) async fn trajectory(claim: &Claim, bodies: &Bodies) -> Result<Trajectory, NoBody> {
    let fetched = match &claim.body {
        StoredBody::None => return Ok(Trajectory::default()),
        StoredBody::Gone(problem) => return Err(NoBody::Gone(problem.clone())),
        StoredBody::Inline(bytes) => {
            return serde_json::from_slice(bytes)
                .map_err(|error| NoBody::Gone(format!("the stored body is unreadable: {error}")));
        }
        StoredBody::Object(object) => bodies.objects.get(object).await,
        StoredBody::Https(body) => bodies.https.get(body).await,
    };
    match fetched {
        Ok(bytes) => parsed(&bytes).map_err(NoBody::Gone),
        Err(ObjectError::Gone { name, problem }) => Err(NoBody::Gone(format!("{name}: {problem}"))),
        Err(ObjectError::Unavailable(problem)) => Err(NoBody::Unavailable(problem)),
    }
}

/// A body that was fetched is the emitter's ATIF document: it is read and redacted here.
fn parsed(bytes: &[u8]) -> Result<Trajectory, String> {
    let mut trajectory = atif::from_slice(bytes).map_err(|rejection| rejection.to_string())?;
    Redactor::shared().trajectory(&mut trajectory);
    Ok(trajectory)
}

/// Puts the brief together: our own injected blocks, and what the memories told the agent, are taken out of the trace
/// first.
pub(crate) fn brief(claim: &Claim, trajectory: Trajectory) -> Brief {
    let met = |memory: &&Memory| claim.presented.iter().any(|shown| shown.memory == memory.id);
    let met: Vec<_> = claim.memories.iter().filter(met).collect();
    Brief {
        run: claim.run.clone().without_injected_blocks(),
        trajectory: trajectory.without_injected_blocks().without_told(&met),
        memories: claim.memories.iter().filter_map(|memory| known(memory, &claim.presented)).collect(),
        earlier: claim.earlier.iter().flat_map(earlier).collect(),
        focus: claim.retrospective.asked.as_ref().and_then(|asked| asked.focus.clone()),
    }
}

fn known(memory: &Memory, presented: &[Presented]) -> Option<KnownMemory> {
    let shown = presented.iter().find(|shown| shown.memory == memory.id);
    let step: &Step = memory.scope.step()?;
    Some(KnownMemory {
        id: memory.id,
        step: step.clone(),
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
