//! Rules from reviews: authority, contradiction, quarantine and expiry.

use std::collections::BTreeMap;

use retro_core::calls::WindowSummaries;
use retro_core::finding::MemoryVerdict;
use retro_core::id::{MemoryId, Repository, RetrospectiveId, Tenant, Workflow, derive_uuid};
use retro_core::learn::{MutationKind, PromoteError, RuleUse, RuleUseBatch, build_rule_use_batches};
use retro_core::memory::{Memory, MemoryScope, MemoryStatus};
use retro_core::policy::Policy;
use retro_core::recall::{RecallCandidate, strip_injected};
use retro_core::remark::AuthorStanding;
use retro_core::retrospective::{ManualRequest, Retrospective, RetrospectiveState};
use retro_core::review::{OtherRequest, ReadingKind, RuleMutationKind};

use crate::prepare_and_choose_rules;
use crate::world::rules::{RuleStore, confined_to, repo, rule_request};
use crate::world::{investigate, key, run, start_time};

use AuthorStanding::{Bot, Contributor, Insider, Outsider};

const WRAP: &str = "Wrap every error with context";
const NEVER_WRAP: &str = "Never wrap every error with context";

fn check_rules(requests: &[(AuthorStanding, u64, &str)], rules: &[&str]) {
    let mut store = RuleStore::new();
    for (id, (standing, pull_request, title)) in requests.iter().enumerate() {
        store.record_review(&[rule_request(*standing, *pull_request, id as u64, title)]);
    }
    assert_eq!(store.rules(), rules, "{requests:?}");
}

#[test]
fn authority_decides_the_initial_status_of_a_rule() {
    check_rules(&[(Insider, 1, WRAP)], &["Wrap every error with context: active"]);
    check_rules(&[(Contributor, 1, WRAP)], &["Wrap every error with context: tentative"]);
    check_rules(&[(Outsider, 1, WRAP)], &["Wrap every error with context: tentative (quarantine)"]);
    check_rules(&[(Bot, 1, WRAP)], &[]);
}

#[test]
fn a_contributors_rule_needs_a_second_pull_request() {
    check_rules(
        &[(Contributor, 1, WRAP), (Contributor, 1, WRAP)],
        &["Wrap every error with context: tentative"],
    );
    check_rules(
        &[(Contributor, 1, WRAP), (Contributor, 2, WRAP)],
        &["Wrap every error with context: active"],
    );
    check_rules(
        &[(Contributor, 1, WRAP), (Outsider, 2, WRAP)],
        &["Wrap every error with context: tentative"],
    );
    check_rules(
        &[(Contributor, 1, WRAP), (Bot, 2, WRAP), (Bot, 3, WRAP)],
        &["Wrap every error with context: tentative"],
    );
    check_rules(&[(Contributor, 1, WRAP), (Insider, 1, WRAP)], &["Wrap every error with context: active"]);
}

#[test]
fn only_an_operator_promotes_a_quarantined_rule_and_other_authors_create_their_own() {
    check_rules(
        &[(Outsider, 1, WRAP), (Outsider, 2, WRAP)],
        &["Wrap every error with context: tentative (quarantine)"],
    );
    check_rules(
        &[(Outsider, 1, WRAP), (Insider, 2, WRAP)],
        &["Wrap every error with context: active", "Wrap every error with context: superseded (quarantine)"],
    );
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Outsider, 1, 1, WRAP)]);
    let id = store.named(WRAP).id;
    store.promote(id).unwrap();
    assert_eq!(store.rules(), ["Wrap every error with context: active"]);
    assert_eq!(store.memories[&id].authority, Some(Insider));
    assert!(matches!(store.promote(id), Err(PromoteError::WrongStatus { .. })));
}

#[test]
fn hostile_text_is_quarantined_whoever_wrote_it_and_supports_no_trusted_rule() {
    let mut hostile = rule_request(Insider, 1, 1, WRAP);
    hostile.screening.hostile = vec!["it speaks to the agent".to_owned()];
    let mut store = RuleStore::new();
    store.record_review(&[hostile.clone()]);
    assert_eq!(store.rules(), ["Wrap every error with context: tentative (quarantine)"]);
    let why = store.named(WRAP).quarantine.clone().unwrap();
    assert!(why.ends_with("it speaks to the agent"), "{why}");
    let mut trusted = RuleStore::new();
    trusted.record_review(&[rule_request(Insider, 2, 2, WRAP)]);
    let before = trusted.memories.clone();
    trusted.record_review(&[hostile]);
    assert_eq!(trusted.memories, before);
}

#[test]
fn an_opposite_rule_of_equal_or_higher_authority_supersedes_and_links_the_older_one() {
    let won = ["Never wrap every error with context: active", "Wrap every error with context: superseded"];
    check_rules(&[(Insider, 1, WRAP), (Insider, 2, NEVER_WRAP)], &won);
    check_rules(&[(Contributor, 1, WRAP), (Insider, 2, NEVER_WRAP)], &won);
    let kept = ["Never wrap every error with context: tentative", "Wrap every error with context: active"];
    check_rules(&[(Insider, 1, WRAP), (Contributor, 2, NEVER_WRAP)], &kept);
    check_rules(&[(Insider, 1, WRAP), (Contributor, 2, NEVER_WRAP), (Contributor, 3, NEVER_WRAP)], &kept);
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
    let old = store.named(WRAP).id;
    store.record_review(&[rule_request(Insider, 2, 2, NEVER_WRAP)]);
    let by = store.named(NEVER_WRAP).id;
    assert!(store.log.iter().any(|change| change.memory == old
        && matches!(change.effect, retro_core::memory::ChangeEffect::Superseded { by: to } if to == by)));
}

#[test]
fn a_rule_says_which_it_replaces_and_which_stays_beside_it() {
    let reason_of = |standing| {
        let mut store = RuleStore::new();
        store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
        let old = store.named(WRAP).id;
        store.record_review(&[rule_request(standing, 2, 2, NEVER_WRAP)]);
        let id = store.named(NEVER_WRAP).id;
        let created = store.log.iter().find(|change| change.memory == id).expect("it is created");
        (created.reason.clone(), old)
    };
    let (reason, old) = reason_of(Insider);
    assert!(reason.contains(&format!("it replaces rule {old}")), "{reason}");
    let (reason, old) = reason_of(Contributor);
    assert!(reason.contains(&format!("rule {old} says otherwise and stands higher: both stay")), "{reason}");
}

#[test]
fn a_disabled_rule_is_not_replaced_and_replaces_none() {
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
    store.disable(store.named(WRAP).id);
    store.record_review(&[rule_request(Insider, 2, 2, NEVER_WRAP)]);
    let both = ["Never wrap every error with context: active", "Wrap every error with context: active"];
    assert_eq!(store.rules(), both, "what a person has disabled stays as it is");
    store.record_review(&[rule_request(Insider, 3, 3, WRAP)]);
    assert_eq!(store.rules(), both, "what nobody is shown takes no place");
}

#[test]
fn rules_for_different_paths_both_stay() {
    let mut store = RuleStore::new();
    store.record_review(&[
        confined_to("src", rule_request(Insider, 1, 1, WRAP)),
        confined_to("tests", rule_request(Insider, 1, 2, NEVER_WRAP)),
    ]);
    assert_eq!(
        store.rules(),
        ["Never wrap every error with context: active", "Wrap every error with context: active"]
    );
}

#[test]
fn a_retired_rule_is_suppressed_and_its_opposite_is_not() {
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
    store.retire(store.named(WRAP).id);
    let report = store.record_review(&[rule_request(Insider, 2, 2, WRAP)]);
    assert_eq!(report.remarks[0].changes[0].kind, "suppressed");
    store.record_review(&[rule_request(Insider, 3, 3, NEVER_WRAP)]);
    assert_eq!(
        store.rules(),
        ["Never wrap every error with context: active", "Wrap every error with context: deleted"]
    );
}

#[test]
fn deleting_or_editing_a_remark_removes_its_rule() {
    let mut store = RuleStore::new();
    let original = rule_request(Insider, 1, 1, WRAP);
    store.record_review(std::slice::from_ref(&original));
    let mut edited = rule_request(Insider, 1, 1, NEVER_WRAP);
    edited.remark.edited = true;
    store.record_review(&[edited.clone()]);
    assert_eq!(
        store.rules(),
        ["Never wrap every error with context: active", "Wrap every error with context: superseded"]
    );
    edited.remark.deleted = true;
    edited.remark.body.clear();
    store.record_review(&[edited]);
    assert_eq!(store.named(NEVER_WRAP).status, MemoryStatus::Deleted);
    assert!(store.tombstones.is_empty(), "a deleted remark leaves no tombstone");
}

#[test]
fn an_uncertain_remark_becomes_a_rule_only_with_support_from_another_pull_request() {
    let mut doubtful = rule_request(Insider, 2, 2, WRAP);
    (doubtful.reading.kind, doubtful.reading.certainty) = (ReadingKind::OneOff, 300);
    let mut store = RuleStore::new();
    let report = store.record_review(&[doubtful.clone()]);
    assert!(report.remarks[0].reason.contains("300 of the 600"), "{}", report.remarks[0].reason);
    assert!(store.memories.is_empty());
    doubtful.support.acknowledged = true;
    let other = |standing, number| OtherRequest {
        added_rule: None,
        remark: rule_request(standing, number, 9, WRAP).remark.key,
        standing,
        title: WRAP.to_owned(),
    };
    store.record_review_with(&[doubtful.clone()], &[other(Bot, 1), other(Contributor, 2)]);
    assert!(store.memories.is_empty(), "bots and the same pull request give no support");
    let report = store.record_review_with(&[doubtful], &[other(Contributor, 1)]);
    assert_eq!(report.remarks[0].certainty, 650);
    assert_eq!(store.rules(), ["Wrap every error with context: active"]);
}

#[test]
fn questions_author_remarks_and_screened_remarks_make_no_rule() {
    let mut question = rule_request(Insider, 1, 1, WRAP);
    question.reading.kind = ReadingKind::Question;
    let mut own = rule_request(Insider, 1, 2, WRAP);
    own.remark.by_author = true;
    let mut refused = rule_request(Insider, 1, 3, WRAP);
    refused.screening.not_a_rule = Some("it names an address".to_owned());
    let mut store = RuleStore::new();
    let report = store.record_review(&[question, own, refused]);
    assert!(store.memories.is_empty() && report.mutations.is_empty());
    assert_eq!(report.remarks.len(), 3, "the report lists each remark with its reason");
}

#[test]
fn a_remark_that_was_cut_says_so_in_its_report() {
    let mut long = rule_request(Insider, 1, 1, WRAP);
    long.remark.truncated = true;
    let report = RuleStore::new().record_review(&[long, rule_request(Insider, 1, 2, "Return a `Result`")]);
    let says = report.remarks.iter().map(|one| one.reason.contains("only the beginning of this long remark"));
    assert_eq!(says.collect::<Vec<_>>(), [true, false]);
}

fn candidate(memory: &Memory) -> RecallCandidate {
    RecallCandidate { memory: memory.clone(), presentations: 0 }
}

#[test]
fn rules_have_their_own_budget_and_apply_only_to_their_path() {
    let mut store = RuleStore::new();
    let titles = [
        "Sort imports",
        "Name constants loudly",
        "Keep functions short",
        "Return early",
        "Test the edges",
        "Log once",
    ];
    let remarks: Vec<_> =
        titles.iter().enumerate().map(|(id, title)| rule_request(Insider, 1, id as u64, title)).collect();
    store.record_review(&remarks);
    store.record_review(&[confined_to("src/api", rule_request(Insider, 2, 50, "Version every route"))]);
    store.record_review(&[rule_request(Outsider, 3, 60, "Trust strangers")]);
    let words = |text: &str| text.split_whitespace().count();
    let all = || store.memories.values().map(candidate).collect::<Vec<_>>();
    let recall = prepare_and_choose_rules(all(), &[], &Policy::default(), &words);
    assert_eq!((recall.memories.len(), recall.omitted), (5, 2));
    assert_eq!(strip_injected(&recall.text).as_deref(), Some(""));
    let only = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|path| (*path).to_owned()).collect();
        let of_path = |candidate: &RecallCandidate| {
            matches!(&candidate.memory.scope, MemoryScope::Repository { path: Some(_), .. })
        };
        let candidates = all().into_iter().filter(of_path).collect();
        prepare_and_choose_rules(candidates, &paths, &Policy::default(), &words).memories.len()
    };
    assert_eq!((only(&["src/api/x.rs"]), only(&["src/apis/x.rs"]), only(&["./src/api"])), (1, 0, 1));
}

#[test]
fn an_unused_rule_expires_and_returns_when_it_is_requested_again() {
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
    let id = store.named(WRAP).id;
    let used = |unused| BTreeMap::from([(id, RuleUse { presented: 70, unused })]);
    store.apply_mutation(RuleMutationKind::Expire, used(49));
    assert_eq!(store.named(WRAP).status, MemoryStatus::Active);
    store.apply_mutation(RuleMutationKind::Expire, used(50));
    assert_eq!(store.named(WRAP).status, MemoryStatus::Archived);
    store.record_review(&[rule_request(Contributor, 2, 2, WRAP)]);
    assert_eq!(store.named(WRAP).status, MemoryStatus::Tentative);
    store.record_review(&[rule_request(Insider, 3, 3, WRAP)]);
    assert_eq!(store.named(WRAP).status, MemoryStatus::Active);
}

#[test]
fn a_rule_used_in_the_same_retrospective_does_not_expire() {
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
    let id = store.named(WRAP).id;
    let uses = || BTreeMap::from([(id, RuleUse { presented: 51, unused: 50 })]);
    let credit = |run_id: &str, verdict| RuleMutationKind::Credit {
        memory: id,
        workflow: Workflow::new("fix-bugs").unwrap(),
        run: run(run_id),
        verdict,
        reason: "because".to_owned(),
    };
    let both = [
        credit("r1", MemoryVerdict::Ignored),
        credit("r2", MemoryVerdict::Applied),
        RuleMutationKind::Expire,
    ];
    store.apply_mutations(&both, uses());
    assert_eq!(store.named(WRAP).status, MemoryStatus::Active);
    store.apply_mutations(&[credit("r3", MemoryVerdict::Ignored), RuleMutationKind::Expire], uses());
    assert_eq!(store.named(WRAP).status, MemoryStatus::Archived);
}

#[test]
fn verdicts_on_rules_are_credited_only_in_their_rule_scope() {
    let (repo, other) = (repo(), Repository::new("acme/other").unwrap());
    let rule = |number| MemoryId(derive_uuid("rule", &[number]));
    let investigated = [
        investigate("r1")
            .with_rule_verdict(&repo, rule("1"), Some(MemoryVerdict::Applied))
            .with_rule_verdict(&other, rule("2"), Some(MemoryVerdict::Harmed)),
        investigate("r2")
            .with_rule_verdict(&repo, rule("1"), Some(MemoryVerdict::CueNotMet))
            .with_rule_verdict(&repo, rule("3"), None),
    ];
    let investigated: Vec<_> =
        (1..).zip(&investigated).map(|(number, one)| one.to_investigation(number)).collect();
    let retrospective = Retrospective {
        id: RetrospectiveId::of_epoch(&key(), 1),
        key: key(),
        epoch: 1,
        first: 1,
        last: 10,
        as_of: start_time(),
        policy: Policy::default(),
        pipeline: None,
        state: RetrospectiveState::Settling,
        manual_request: None,
    };
    // The run's own workflow gets only the sweep.
    let own = retro_core::learn::build_batch(&retrospective, &investigated, &WindowSummaries::default());
    assert!(matches!(&own[..], [one] if matches!(one.request, MutationKind::Sweep { .. })), "{own:?}");
    let used = build_rule_use_batches(&retrospective, &investigated, &Policy::default());
    let describe = |used: &RuleUseBatch| {
        let asks = used.mutations.iter().map(|one| match &one.request {
            RuleMutationKind::Credit { memory, run, verdict, .. } => {
                let number = ["1", "2", "3"].into_iter().find(|number| rule(number) == *memory).unwrap();
                format!("{run} {number} {}", verdict.as_key())
            }
            other => other.as_str().to_owned(),
        });
        format!("{}: {}", used.rule_scope, asks.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        used.iter().map(describe).collect::<Vec<_>>(),
        [
            "default/repo:acme/other: r1 2 harmed, expire",
            "default/repo:acme/shop: r1 1 applied, r2 1 cue_not_met, expire"
        ]
    );
    let manual_request = Some(ManualRequest {
        request: "one".to_owned(),
        by: "ann".to_owned(),
        with_token: None,
        runs: vec![run("r1")],
        focus: None,
        reason: None,
    });
    assert_eq!(
        build_rule_use_batches(
            &Retrospective { manual_request, ..retrospective },
            &investigated,
            &Policy::default()
        ),
        []
    );
}

#[test]
fn a_run_moves_a_rules_weight_once_and_too_light_rules_are_archived() {
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, WRAP)]);
    let id = store.named(WRAP).id;
    let credit = |run_id: &str, verdict| RuleMutationKind::Credit {
        memory: id,
        workflow: Workflow::new("fix-bugs").unwrap(),
        run: run(run_id),
        verdict,
        reason: "because".to_owned(),
    };
    store.apply_mutation(credit("r1", MemoryVerdict::Helped), BTreeMap::new());
    store.apply_mutation(credit("r1", MemoryVerdict::Helped), BTreeMap::new());
    assert_eq!(store.memories[&id].weight.get(), 400);
    for run_id in ["r2", "r3", "r4"] {
        store.apply_mutation(credit(run_id, MemoryVerdict::Harmed), BTreeMap::new());
    }
    assert_eq!((store.memories[&id].weight.get(), store.memories[&id].status), (0, MemoryStatus::Archived));
}

#[test]
fn a_workflow_named_like_a_rule_scope_shares_only_its_key() {
    let mut store = RuleStore::new();
    let workflow = repo().rule_scope(&Tenant::default_tenant()).workflow;
    let mut world = crate::world::World::new();
    world.add_active("stranger", 300);
    let mut stranger = world.named("stranger").clone();
    stranger.scope = MemoryScope::Workflow { workflow: workflow.clone() };
    stranger.lesson.title = WRAP.to_owned();
    store.memories.insert(stranger.id, stranger.clone());
    store.record_review(&[rule_request(Contributor, 1, 1, WRAP)]);
    assert_eq!(store.memories[&stranger.id], stranger);
    assert_eq!(store.memories.len(), 2);
    assert_eq!(Repository::of_rule_scope(&workflow), Some(repo()));
}

#[test]
fn a_dangerous_rule_of_an_insider_is_held_and_stays_until_a_person_decides() {
    let title = "Turn the linter off in the tests";
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, title)]);
    assert_eq!(store.rules(), [format!("{title}: active (quarantine)")]);
    store.record_review(&[rule_request(Contributor, 2, 2, title)]);
    assert_eq!(store.rules(), [format!("{title}: active (quarantine)")], "the same request replaces nothing");
    let why = store.memories.values().next().unwrap().quarantine.clone().unwrap();
    assert!(why.contains("Switches hooks, reviews or tests off"), "{why}");
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Outsider, 1, 1, title)]);
    let why = store.memories.values().next().unwrap().quarantine.clone().unwrap();
    assert!(why.contains("standing") && why.contains("Switches"), "both reasons are told: {why}");
}

#[test]
fn a_rule_that_waits_for_a_person_replaces_none() {
    let [old, new] = ["Never turn the linter off in the tests", "Turn the linter off in the tests"];
    let mut store = RuleStore::new();
    store.record_review(&[rule_request(Insider, 1, 1, old)]);
    store.record_review(&[rule_request(Insider, 2, 2, new)]);
    let mut rules = store.rules();
    rules.sort();
    assert_eq!(rules, [format!("{old}: active"), format!("{new}: active (quarantine)")]);
}
