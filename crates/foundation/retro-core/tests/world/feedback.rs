//! Feedback on the memories of a test world.

use retro_core::feedback::{
    Feedback, FeedbackAcceptance, FeedbackAuthor, FeedbackFacts, FeedbackVerdict, GivenFeedback,
    accept_feedback,
};
use retro_core::id::{MemoryId, Tenant};
use retro_core::learn::{FeedbackRun, WaitingFeedback};

use super::{key, run};

pub(crate) fn agent(name: &str) -> FeedbackAuthor {
    FeedbackAuthor::Agent { workflow: key().workflow, run: run(name), step: None }
}

pub(crate) fn person(by: &str) -> FeedbackAuthor {
    FeedbackAuthor::Person { by: by.to_owned() }
}

/// Returns feedback as it is stored when it first arrives.
pub(crate) fn said(memory: MemoryId, author: FeedbackAuthor, verdict: FeedbackVerdict) -> Feedback {
    let given = GivenFeedback { memory, verdict, author, why: None };
    match accept_feedback(&Tenant::default_tenant(), &given, &FeedbackFacts::default()) {
        FeedbackAcceptance::New(feedback) => feedback,
        other => panic!("{other:?}"),
    }
}

/// Returns feedback that counts: a run's is about a run that was claimed and had the memory.
pub(crate) fn waiting(memory: MemoryId, author: FeedbackAuthor, verdict: FeedbackVerdict) -> WaitingFeedback {
    let counts = FeedbackRun { recorded: true, claimed: true, shown: true, judged: false };
    let run = author.run().map(|_| counts);
    WaitingFeedback { feedback: said(memory, author, verdict), passes: 0, run }
}
