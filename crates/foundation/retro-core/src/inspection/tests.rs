use serde_json::json;

use super::*;
use crate::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey, derive_uuid};
use crate::policy::Policy;
use crate::run::RunKind;

fn facts(outcome: &str) -> RunFacts {
    let agent = json!({"name": "coder"});
    let repo = "https://github.com/acme/shop.git";
    serde_json::from_value(
        json!({"run_id": "r", "outcome": outcome, "user": "anna", "agent": agent, "repo": repo}),
    )
    .unwrap()
}

#[test]
fn a_run_that_does_not_count_has_a_reason() {
    let reason = |outcome, ordinal| explain_counting(Some(&facts(outcome)), ordinal);
    assert_eq!(reason("success", Some(3)), CountingReason::Counted);
    assert_eq!(reason("cancellation", None), CountingReason::Cancelled);
    assert_eq!(reason("skip", None), CountingReason::NothingToDo);
    let internal = RunFacts { kind: RunKind::Internal, ..facts("success") };
    assert_eq!(explain_counting(Some(&internal), None), CountingReason::Internal);
    let only = RunFacts { outcome_only: true, ..facts("failure") };
    assert_eq!(explain_counting(Some(&only), None), CountingReason::OutcomeOnly);
    assert_eq!(explain_counting(None, None), CountingReason::Unknown);
    assert_eq!(explain_counting(None, Some(1)), CountingReason::Counted);
}

#[test]
fn a_run_is_sampled_replaces_another_or_is_left_out_by_chance() {
    let mut one = Retrospective {
        id: RetrospectiveId(derive_uuid("r", &["1"])),
        key: WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("w").unwrap() },
        epoch: 1,
        first: 1,
        last: 3,
        as_of: "2026-11-20T00:00:00Z".parse().unwrap(),
        policy: Policy::default(),
        pipeline: None,
        state: RetrospectiveState::Investigating,
        manual_request: None,
    };
    let sample = Sample { seed: "00".to_owned(), order: vec![3, 1, 2], size: 1 };
    let run = facts("success").run_id;
    let scheduled =
        |replacement| Investigation { number: 1, ordinal: 1, run: run.clone(), replacement, result: None };
    let explain = |one: &Retrospective, ordinal, investigation: Option<&Investigation>| {
        explain_sampling(ordinal, one, Some(&sample), investigation)
    };
    assert_eq!(explain(&one, 3, None), SamplingResult::Sampled, "it waits for its turn");
    assert_eq!(explain(&one, 1, None), SamplingResult::NotSampled);
    assert_eq!(explain(&one, 3, Some(&scheduled(false))), SamplingResult::Sampled);
    assert_eq!(explain(&one, 1, Some(&scheduled(true))), SamplingResult::Replacement);
    assert_eq!(explain_sampling(1, &one, None, None), SamplingResult::NotDrawn);
    one.state = RetrospectiveState::Cancelled;
    assert_eq!(explain_sampling(1, &one, None, None), SamplingResult::NeverDrawn);
    one.manual_request = Some(
        serde_json::from_value(json!({"request": "q", "by": "anna", "runs": ["r"]}))
            .expect("a manual request"),
    );
    assert_eq!(explain(&one, 1, None), SamplingResult::Named);
}

#[test]
fn runs_match_by_every_property_and_by_any_address_of_their_repository() {
    let any = RunProperties::default();
    assert!(any.is_any() && any.match_facts(&facts("failure")));
    let with = |user: &str, agent: &str, repo: &str| RunProperties {
        user: Some(user.to_owned()),
        agent: Some(agent.to_owned()),
        prompt_version: None,
        outcome: Some(RunOutcome::Failure),
        repo: Some(crate::id::Repository::new(repo).unwrap()),
    };
    assert!(with("anna", "coder", "acme/shop").match_facts(&facts("failure")), "positive control");
    assert!(!with("anna", "coder", "acme/shop").match_facts(&facts("success")));
    assert!(!with("ann", "coder", "acme/shop").match_facts(&facts("failure")));
    assert!(!with("anna", "code", "acme/shop").match_facts(&facts("failure")));
    assert!(!with("anna", "coder", "acme/docs").match_facts(&facts("failure")));
    let nobody = RunFacts { user: None, agent: None, repo: None, ..facts("failure") };
    assert!(!RunProperties { user: Some("anna".to_owned()), ..any.clone() }.match_facts(&nobody));
    assert!(!RunProperties { agent: Some("coder".to_owned()), ..any.clone() }.match_facts(&nobody));
    let version = RunProperties { prompt_version: Some("4".to_owned()), ..any };
    let fourth = RunFacts { prompt_version: Some("4".to_owned()), ..facts("failure") };
    assert!(version.match_facts(&fourth) && !version.match_facts(&nobody));
}
