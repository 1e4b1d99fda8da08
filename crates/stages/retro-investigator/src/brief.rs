//! Builds the brief of a claimed run: the complete input of an engine.

use std::sync::Arc;

use bytes::Bytes;
use retro_core::audience::{Audience, RunRepository};
use retro_core::finding::{
    BriefMemory, EarlierFinding, EarlierFocus, Finding, FocusQuestion, InvestigationBrief, RefutedFinding,
};
use retro_core::id::{Step, Tenant};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::retrospective::{Investigation, PresentedMemory};
use retro_core::run::RunFacts;
use retro_core::trajectory::Trajectory;
use retro_events::{BodyFetcher, JobLog, JobLogFetcher, ObjectError, ObjectStorage, atif};
use retro_redact::Redactor;
use retro_store::{Claim, StoredBody};

use crate::job_log::build_trajectory;

/// Error from fetching the body of a run.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The body no longer exists, cannot be decoded, or differs from the one that the event announced, so
    /// another run replaces this one in the sample.
    Gone(String),
    /// The body could not be fetched; a retry may succeed.
    Unavailable(String),
}

/// Clients that fetch the bodies not stored in the database.
#[derive(Clone)]
pub struct BodySources {
    /// The broker's object store.
    pub objects: Arc<dyn ObjectStorage>,
    /// HTTPS client that fetches bodies from the allowed hosts only.
    pub https: Arc<dyn BodyFetcher>,
    /// Client that fetches the logs of failed jobs; `None` without a token.
    pub job_logs: Option<Arc<dyn JobLogFetcher>>,
}

/// Body of a run, not yet parsed: parsing a large body is slow and must not block an async thread.
pub(crate) enum FetchedBody {
    /// The run has no body, so only its facts are investigated.
    Absent,
    /// A [`Trajectory`] as JSON, as the database stores it.
    Stored(Vec<u8>),
    /// The emitter's ATIF document, not yet redacted.
    Document(Bytes),
    /// Logs of failed CI jobs, not yet redacted.
    JobLogs(Vec<JobLog>),
}

/// Fetches the body of a run of this tenant.
pub(crate) async fn fetch_body(
    tenant: &Tenant,
    body: &StoredBody,
    sources: &BodySources,
) -> Result<FetchedBody, BodyError> {
    let fetched = match body {
        StoredBody::None => return Ok(FetchedBody::Absent),
        StoredBody::Gone(problem) => return Err(BodyError::Gone(problem.clone())),
        StoredBody::Inline(bytes) => return Ok(FetchedBody::Stored(bytes.clone())),
        StoredBody::Object(object) => sources.objects.get(object).await.map(FetchedBody::Document),
        StoredBody::Https(body) => sources.https.fetch_body(body).await.map(FetchedBody::Document),
        StoredBody::GithubLog(log) => match &sources.job_logs {
            Some(job_logs) => job_logs.fetch_failed_jobs(tenant, log).await.map(FetchedBody::JobLogs),
            None => {
                let problem = format!("{log}: github_token is not set in this process");
                return Err(BodyError::Gone(problem));
            }
        },
    };
    fetched.map_err(|error| match error {
        ObjectError::Gone { name, problem } => BodyError::Gone(format!("{name}: {problem}")),
        ObjectError::Unavailable(problem) => BodyError::Unavailable(problem),
    })
}

impl FetchedBody {
    /// Parses the body into a redacted trajectory. Fails with the reason if the body cannot be parsed.
    pub(crate) fn parse_trajectory(self, facts: &RunFacts) -> Result<Trajectory, String> {
        match self {
            Self::Absent => Ok(Trajectory::default()),
            Self::Stored(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| format!("the stored body is unreadable: {error}")),
            Self::Document(bytes) => parse_atif(&bytes, facts),
            Self::JobLogs(jobs) => Ok(build_trajectory(&jobs)),
        }
    }
}

/// Parses and redacts the emitter's ATIF document. Intake redacts only the bodies that it stores, not those
/// that are fetched here.
fn parse_atif(bytes: &Bytes, facts: &RunFacts) -> Result<Trajectory, String> {
    let mut trajectory = atif::from_slice(bytes).map_err(|rejection| rejection.to_string())?;
    let mut redactor = Redactor::shared().begin_run();
    // The stored facts are already redacted. This only reserves their masks, so that a secret of the body does
    // not get the mask of another one.
    redactor.redact_facts(&mut facts.clone());
    redactor.redact_trajectory(&mut trajectory);
    Ok(trajectory)
}

/// Builds the brief of a claimed run, without the injected memory blocks and the memory texts that the agent
/// was shown. Fails with the reason if the body cannot be parsed. Takes time linear in the size of the body,
/// so call it on a blocking thread.
pub(crate) fn build_brief(claim: &Claim, fetched: FetchedBody) -> Result<InvestigationBrief, String> {
    let trajectory = fetched.parse_trajectory(&claim.run)?;
    let was_presented = |memory: &&Memory| claim.presented.iter().any(|shown| shown.memory == memory.id);
    let shown: Vec<_> = claim.memories.iter().filter(was_presented).collect();
    let repository = claim.run.repository();
    Ok(InvestigationBrief {
        // Otherwise a memory's own words in the trace would count as evidence for the memory.
        run: claim.run.clone().without_injected_blocks(),
        trajectory: trajectory.without_injected_blocks().without_memory_content(&shown),
        memories: claim
            .memories
            .iter()
            .filter(|memory| was_presented(memory) || memory.scope.includes_run(repository.as_ref()))
            .filter_map(|memory| to_known_memory(memory, &claim.presented))
            .collect(),
        earlier: claim
            .earlier
            .iter()
            .flat_map(|one| earlier_findings(one, claim.retrospective.policy.model_refutes))
            .filter(|one| may_be_told(&one.finding, repository.as_ref()))
            .collect(),
        focus: focus_question(claim),
    })
}

/// Returns the question of a manual retrospective, without secrets, and what its earlier investigations answered.
fn focus_question(claim: &Claim) -> Option<FocusQuestion> {
    let question = claim.retrospective.manual_request.as_ref()?.focus.as_ref()?;
    let earlier = claim.earlier.iter().filter_map(|one| {
        let (checked, _) = one.result.as_ref()?.checked_answer()?;
        Some(EarlierFocus { run: one.run.clone(), text: checked.focus.as_ref()?.text.clone() })
    });
    let question = Redactor::shared().redact_text(question).into_owned();
    Some(FocusQuestion { question, earlier: earlier.collect() })
}

/// Returns `true` if an engine that investigates a run of the repository may be told of a finding. A model may word
/// its own findings after it, so those of other repositories are left out.
fn may_be_told(finding: &Finding, repository: Option<&RunRepository>) -> bool {
    Audience::of_run(finding.origin.repository.as_ref()).includes(repository)
}

/// Returns the active memories of the workflow's steps that may be handed to a run of the repository, without what is
/// known about their presentation.
pub(crate) fn active_memories(claim: &Claim, run: &RunFacts) -> Vec<BriefMemory> {
    let repository = run.repository();
    let active = claim.memories.iter().filter(|memory| {
        memory.status == MemoryStatus::Active && memory.scope.includes_run(repository.as_ref())
    });
    active.filter_map(|memory| to_known_memory(memory, &[])).collect()
}

/// Converts a step-scoped memory, or a rule presented to the run, into its form in the brief. Returns `None`
/// for any other memory.
fn to_known_memory(memory: &Memory, presented: &[PresentedMemory]) -> Option<BriefMemory> {
    let presentation = presented.iter().find(|presentation| presentation.memory == memory.id);
    let step: Option<&Step> = memory.scope.step();
    let is_rule = presentation.is_some_and(|presentation| presentation.repo.is_some());
    (step.is_some() || is_rule).then(|| BriefMemory {
        id: memory.id,
        step: step.cloned(),
        subject: memory.lesson.subject.clone(),
        title: memory.lesson.title.clone(),
        cue: memory.lesson.cue.clone(),
        weight: memory.weight,
        presented: presentation.is_some(),
        read: presentation.is_some_and(|presentation| presentation.read),
    })
}

/// Returns the findings of an earlier investigation, without those that count nothing because a model refutes them.
fn earlier_findings(investigation: &Investigation, refuted: RefutedFinding) -> Vec<EarlierFinding> {
    let looked = investigation.result.as_ref().and_then(|result| result.checked_answer());
    let Some((checked, _)) = looked else { return Vec::new() };
    let counted = checked.findings.iter().filter(|finding| checked.find_dispute(finding, refuted).is_none());
    counted
        .map(|finding| EarlierFinding { run: investigation.run.clone(), finding: finding.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use retro_core::audience::RepoVisibility;
    use retro_core::finding::{CheckedAnswer, EvidenceOrigin, FindingKind, LessonCue, Quote};
    use retro_core::id::{Repository, RunId, Workflow, WorkflowKey};
    use retro_core::learn::{AdditionFacts, LessonWording, WrittenMemory, add_memory};
    use retro_core::memory::MemoryScope;
    use retro_core::policy::Policy;
    use retro_core::retrospective::{InvestigationResult, WorkflowState};
    use retro_core::similarity::NgramEmbedder;
    use retro_core::trajectory::QuotePlace;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn key() -> WorkflowKey {
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("release").unwrap() }
    }

    /// Returns an active memory whose title and audience are given.
    fn memory(title: &str, audience: Audience) -> Memory {
        let key = key();
        let scope = MemoryScope::Step { workflow: key.workflow.clone(), step: Step::main(), audience };
        let wording = LessonWording { title: Some(title.to_owned()), content: None };
        let written = WrittenMemory::new(&key, scope, &wording, title, "anna", "test").unwrap();
        let facts = AdditionFacts { key, written, memories: Vec::new(), tombstones: Vec::new() };
        add_memory(&facts, &Policy::default(), &NgramEmbedder, NOW.parse().unwrap()).unwrap().memory
    }

    /// Returns an ended investigation with one finding of a repository.
    fn investigation(number: u32, repository: Option<RunRepository>) -> Investigation {
        let finding = Finding {
            kind: FindingKind::SelfFeedback,
            step: Step::main(),
            subject: "sh".to_owned(),
            title: repository.as_ref().map_or("none", |one| one.repo.as_str()).to_owned(),
            content: String::new(),
            cue: LessonCue::default(),
            quote: Quote { place: QuotePlace::Message { turn: 0 }, text: "words".to_owned() },
            contradicts: None,
            origin: EvidenceOrigin { repository, ..EvidenceOrigin::default() },
        };
        let checked = CheckedAnswer { findings: vec![finding], ..CheckedAnswer::default() };
        Investigation {
            number,
            ordinal: number.into(),
            run: RunId::new(format!("earlier-{number}")).unwrap(),
            replacement: false,
            result: Some(InvestigationResult::Found { checked, presented: Vec::new() }),
        }
    }

    fn repository(name: &str) -> RunRepository {
        RunRepository::of_run(Some(name), Some(RepoVisibility::Private)).unwrap()
    }

    fn claim(repo: Option<&str>, presented: &[usize]) -> Claim {
        let mut state = WorkflowState { counted: 10, ..WorkflowState::default() };
        let opened = state.open_if_due(&key(), &Policy::default(), NOW.parse().unwrap(), 0).unwrap();
        let shop = Repository::new("acme/shop").unwrap();
        let memories = vec![
            memory("Everyone’s", Audience::Everyone),
            memory("Private", Audience::PrivateRepositories),
            memory("Of the shop", Audience::Repository(shop)),
        ];
        let run = serde_json::json!({"run_id": "r1", "outcome": "success", "repo": repo});
        let shown = presented.iter().map(|at| PresentedMemory::from_own_workflow(memories[*at].id, false));
        Claim {
            retrospective: opened.retrospective,
            number: 1,
            token: 1,
            attempt: 1,
            taken_over: false,
            run: serde_json::from_value(run).unwrap(),
            body: StoredBody::None,
            presented: shown.collect(),
            memories,
            earlier: vec![
                investigation(1, None),
                investigation(2, Some(repository("acme/shop"))),
                investigation(3, Some(repository("acme/vault"))),
            ],
            journal: Vec::new(),
            last_error: None,
        }
    }

    #[test]
    fn an_engine_is_told_nothing_of_other_repositories() {
        for (repo, presented, memories, earlier) in [
            (Some("acme/shop"), &[][..], &["Everyone’s", "Of the shop"][..], &["none", "acme/shop"][..]),
            (Some("acme/open"), &[], &["Everyone’s"], &["none"]),
            (None, &[], &["Everyone’s"], &["none"]),
            (Some("acme/open"), &[1], &["Everyone’s", "Private"], &["none"]),
        ] {
            let claim = claim(repo, presented);
            let brief = build_brief(&claim, FetchedBody::Absent).unwrap();
            let told: Vec<_> = brief.memories.iter().map(|one| one.title.as_str()).collect();
            assert_eq!(told, memories, "{repo:?}");
            let found: Vec<_> = brief.earlier.iter().map(|one| one.finding.title.as_str()).collect();
            assert_eq!(found, earlier, "{repo:?}");
            let summarized = active_memories(&claim, &claim.run);
            assert_eq!(summarized.len(), memories.len() - presented.len(), "{repo:?}");
        }
    }
}
