//! Rules from reviews: who may be believed, what contradicts what, and what nobody uses.

use std::collections::BTreeMap;

use retro_core::finding::MemoryVerdict;
use retro_core::id::{MemoryId, RetrospectiveId, Tenant, Workflow, derive_uuid};
use retro_core::learn::{MutationKind, PromoteError, RuleUse, RuleUseBatch, build_rule_use_batches};
use retro_core::manual::ManualRequest;
use retro_core::memory::{Memory, MemoryScope, MemoryStatus};
use retro_core::policy::Policy;
use retro_core::recall::{RecallCandidate, choose_rules, strip_injected};
use retro_core::retrospective::{Retrospective, RetrospectiveState};
use retro_core::review::{AuthorStanding, OtherRequest, ReadingKind, Repository, RuleMutationKind};

use crate::world::rules::{Shop, asks, repo, within};
use crate::world::{dawn, key, look, run};

use AuthorStanding::{Bot, Contributor, Insider, Outsider};

const WRAP: &str = "Wrap every error with context";
const NEVER_WRAP: &str = "Never wrap every error with context";

fn check(said: &[(AuthorStanding, u64, &str)], rules: &[&str]) {
    let mut shop = Shop::new();
    for (id, (standing, pull_request, title)) in said.iter().enumerate() {
        shop.hear(&[asks(*standing, *pull_request, id as u64, title)]);
    }
    assert_eq!(shop.rules(), rules, "{said:?}");
}

#[test]
fn authority_decides_how_a_rule_begins() {
    check(&[(Insider, 1, WRAP)], &["Wrap every error with context: active"]);
    check(&[(Contributor, 1, WRAP)], &["Wrap every error with context: tentative"]);
    check(&[(Outsider, 1, WRAP)], &["Wrap every error with context: tentative (quarantine)"]);
    check(&[(Bot, 1, WRAP)], &[]);
}

#[test]
fn a_contributors_rule_waits_for_another_pull_request() {
    check(&[(Contributor, 1, WRAP), (Contributor, 1, WRAP)], &["Wrap every error with context: tentative"]);
    check(&[(Contributor, 1, WRAP), (Contributor, 2, WRAP)], &["Wrap every error with context: active"]);
    check(&[(Contributor, 1, WRAP), (Outsider, 2, WRAP)], &["Wrap every error with context: tentative"]);
    check(
        &[(Contributor, 1, WRAP), (Bot, 2, WRAP), (Bot, 3, WRAP)],
        &["Wrap every error with context: tentative"],
    );
    check(&[(Contributor, 1, WRAP), (Insider, 1, WRAP)], &["Wrap every error with context: active"]);
}

#[test]
fn what_is_in_quarantine_is_promoted_by_a_person_alone_and_others_make_rules_of_their_own() {
    check(
        &[(Outsider, 1, WRAP), (Outsider, 2, WRAP)],
        &["Wrap every error with context: tentative (quarantine)"],
    );
    check(
        &[(Outsider, 1, WRAP), (Insider, 2, WRAP)],
        &["Wrap every error with context: active", "Wrap every error with context: superseded (quarantine)"],
    );
    let mut shop = Shop::new();
    shop.hear(&[asks(Outsider, 1, 1, WRAP)]);
    let id = shop.named(WRAP).id;
    shop.promote(id).unwrap();
    assert_eq!(shop.rules(), ["Wrap every error with context: active"]);
    assert_eq!(shop.memories[&id].authority, Some(Insider));
    assert!(matches!(shop.promote(id), Err(PromoteError::WrongStatus { .. })));
}

#[test]
fn hostile_text_is_quarantined_whoever_wrote_it_and_adds_nothing_to_what_is_trusted() {
    let mut hostile = asks(Insider, 1, 1, WRAP);
    hostile.screening.hostile = vec!["it speaks to the agent".to_owned()];
    let mut shop = Shop::new();
    shop.hear(&[hostile.clone()]);
    assert_eq!(shop.rules(), ["Wrap every error with context: tentative (quarantine)"]);
    let why = shop.named(WRAP).quarantine.clone().unwrap();
    assert!(why.ends_with("it speaks to the agent"), "{why}");
    let mut trusted = Shop::new();
    trusted.hear(&[asks(Insider, 2, 2, WRAP)]);
    let before = trusted.memories.clone();
    trusted.hear(&[hostile]);
    assert_eq!(trusted.memories, before);
}

#[test]
fn the_opposite_supersedes_the_older_when_it_ranks_no_lower_and_keeps_the_link() {
    let won = ["Never wrap every error with context: active", "Wrap every error with context: superseded"];
    check(&[(Insider, 1, WRAP), (Insider, 2, NEVER_WRAP)], &won);
    check(&[(Contributor, 1, WRAP), (Insider, 2, NEVER_WRAP)], &won);
    let kept = ["Never wrap every error with context: tentative", "Wrap every error with context: active"];
    check(&[(Insider, 1, WRAP), (Contributor, 2, NEVER_WRAP)], &kept);
    check(&[(Insider, 1, WRAP), (Contributor, 2, NEVER_WRAP), (Contributor, 3, NEVER_WRAP)], &kept);
    let mut shop = Shop::new();
    shop.hear(&[asks(Insider, 1, 1, WRAP)]);
    let old = shop.named(WRAP).id;
    shop.hear(&[asks(Insider, 2, 2, NEVER_WRAP)]);
    let by = shop.named(NEVER_WRAP).id;
    assert!(shop.log.iter().any(|change| change.memory == old
        && matches!(change.effect, retro_core::memory::ChangeEffect::Superseded { by: to } if to == by)));
}

#[test]
fn rules_for_different_paths_both_stay() {
    let mut shop = Shop::new();
    shop.hear(&[within("src", asks(Insider, 1, 1, WRAP)), within("tests", asks(Insider, 1, 2, NEVER_WRAP))]);
    assert_eq!(
        shop.rules(),
        ["Never wrap every error with context: active", "Wrap every error with context: active"]
    );
}

#[test]
fn a_retired_rule_is_kept_away_and_its_opposite_is_not() {
    let mut shop = Shop::new();
    shop.hear(&[asks(Insider, 1, 1, WRAP)]);
    shop.retire(shop.named(WRAP).id);
    let report = shop.hear(&[asks(Insider, 2, 2, WRAP)]);
    assert_eq!(report.remarks[0].did[0].kind, "suppressed");
    shop.hear(&[asks(Insider, 3, 3, NEVER_WRAP)]);
    assert_eq!(
        shop.rules(),
        ["Never wrap every error with context: active", "Wrap every error with context: deleted"]
    );
}

#[test]
fn a_remark_that_is_deleted_or_edited_takes_its_rule_with_it() {
    let mut shop = Shop::new();
    let said = asks(Insider, 1, 1, WRAP);
    shop.hear(std::slice::from_ref(&said));
    let mut edited = asks(Insider, 1, 1, NEVER_WRAP);
    edited.remark.edited = true;
    shop.hear(&[edited.clone()]);
    assert_eq!(
        shop.rules(),
        ["Never wrap every error with context: active", "Wrap every error with context: superseded"]
    );
    edited.remark.deleted = true;
    edited.remark.body.clear();
    shop.hear(&[edited]);
    assert_eq!(shop.named(NEVER_WRAP).status, MemoryStatus::Deleted);
    assert!(shop.tombstones.is_empty(), "nothing is kept away by that");
}

#[test]
fn in_doubt_it_is_no_rule_until_the_same_is_asked_elsewhere() {
    let mut doubtful = asks(Insider, 2, 2, WRAP);
    (doubtful.reading.kind, doubtful.reading.certainty) = (ReadingKind::OneOff, 300);
    let mut shop = Shop::new();
    let report = shop.hear(&[doubtful.clone()]);
    assert!(report.remarks[0].why.contains("300 of the 600"), "{}", report.remarks[0].why);
    assert!(shop.memories.is_empty());
    doubtful.support.acknowledged = true;
    let other = |standing, number| OtherRequest {
        remark: asks(standing, number, 9, WRAP).remark.key,
        standing,
        title: WRAP.to_owned(),
    };
    shop.hear_beside(&[doubtful.clone()], &[other(Bot, 1), other(Contributor, 2)]);
    assert!(shop.memories.is_empty(), "a bot elsewhere, and the same pull request, say nothing");
    let report = shop.hear_beside(&[doubtful], &[other(Contributor, 1)]);
    assert_eq!(report.remarks[0].certainty, 650);
    assert_eq!(shop.rules(), ["Wrap every error with context: active"]);
}

#[test]
fn questions_the_authors_own_words_and_what_is_no_instruction_make_no_rule() {
    let mut question = asks(Insider, 1, 1, WRAP);
    question.reading.kind = ReadingKind::Question;
    let mut own = asks(Insider, 1, 2, WRAP);
    own.remark.by_author = true;
    let mut refused = asks(Insider, 1, 3, WRAP);
    refused.screening.not_a_rule = Some("it names an address".to_owned());
    let mut shop = Shop::new();
    let report = shop.hear(&[question, own, refused]);
    assert!(shop.memories.is_empty() && report.mutations.is_empty());
    assert_eq!(report.remarks.len(), 3, "and each stands in the report with its reason");
}

fn candidate(memory: &Memory) -> RecallCandidate {
    RecallCandidate { memory: memory.clone(), presentations: 0 }
}

#[test]
fn rules_have_their_own_budget_and_fit_where_they_are_confined() {
    let mut shop = Shop::new();
    let titles = [
        "Sort imports",
        "Name constants loudly",
        "Keep functions short",
        "Return early",
        "Test the edges",
        "Log once",
    ];
    let said: Vec<_> =
        titles.iter().enumerate().map(|(id, title)| asks(Insider, 1, id as u64, title)).collect();
    shop.hear(&said);
    shop.hear(&[within("src/api", asks(Insider, 2, 50, "Version every route"))]);
    shop.hear(&[asks(Outsider, 3, 60, "Trust strangers")]);
    let words = |text: &str| text.split_whitespace().count();
    let all = || shop.memories.values().map(candidate).collect::<Vec<_>>();
    let recall = choose_rules(all(), &[], &Policy::default(), &words);
    assert_eq!((recall.memories.len(), recall.left_out), (5, 2));
    assert_eq!(strip_injected(&recall.text).as_deref(), Some(""));
    let only = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|path| (*path).to_owned()).collect();
        let of_path = |candidate: &RecallCandidate| {
            matches!(&candidate.memory.scope, MemoryScope::Repository { path: Some(_), .. })
        };
        let candidates = all().into_iter().filter(of_path).collect();
        choose_rules(candidates, &paths, &Policy::default(), &words).memories.len()
    };
    assert_eq!((only(&["src/api/x.rs"]), only(&["src/apis/x.rs"]), only(&["./src/api"])), (1, 0, 1));
}

#[test]
fn what_nobody_uses_expires_and_comes_back_when_it_is_asked_for() {
    let mut shop = Shop::new();
    shop.hear(&[asks(Insider, 1, 1, WRAP)]);
    let id = shop.named(WRAP).id;
    let used = |unused| BTreeMap::from([(id, RuleUse { presented: 70, unused })]);
    shop.ask(RuleMutationKind::Expire, used(49));
    assert_eq!(shop.named(WRAP).status, MemoryStatus::Active);
    shop.ask(RuleMutationKind::Expire, used(50));
    assert_eq!(shop.named(WRAP).status, MemoryStatus::Archived);
    shop.hear(&[asks(Contributor, 2, 2, WRAP)]);
    assert_eq!(shop.named(WRAP).status, MemoryStatus::Tentative);
    shop.hear(&[asks(Insider, 3, 3, WRAP)]);
    assert_eq!(shop.named(WRAP).status, MemoryStatus::Active);
}

#[test]
fn what_some_run_of_the_same_retrospective_used_does_not_expire() {
    let mut shop = Shop::new();
    shop.hear(&[asks(Insider, 1, 1, WRAP)]);
    let id = shop.named(WRAP).id;
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
    shop.ask_all(&both, uses());
    assert_eq!(shop.named(WRAP).status, MemoryStatus::Active);
    shop.ask_all(&[credit("r3", MemoryVerdict::Ignored), RuleMutationKind::Expire], uses());
    assert_eq!(shop.named(WRAP).status, MemoryStatus::Archived);
}

#[test]
fn verdicts_on_rules_are_asked_of_their_keeper_and_of_nobody_else() {
    let (repo, other) = (repo(), Repository::new("acme/other").unwrap());
    let rule = |number| MemoryId(derive_uuid("rule", &[number]));
    let looks = [
        look("r1").ruled(&repo, rule("1"), Some(MemoryVerdict::Applied)).ruled(
            &other,
            rule("2"),
            Some(MemoryVerdict::Harmed),
        ),
        look("r2").ruled(&repo, rule("1"), Some(MemoryVerdict::CueNotMet)).ruled(&repo, rule("3"), None),
    ];
    let looks: Vec<_> = (1..).zip(&looks).map(|(number, one)| one.ended(number)).collect();
    let retrospective = Retrospective {
        id: RetrospectiveId::of_epoch(&key(), 1),
        key: key(),
        epoch: 1,
        first: 1,
        last: 10,
        as_of: dawn(),
        policy: Policy::default(),
        state: RetrospectiveState::Settling,
        asked: None,
    };
    // The run's own workflow is asked for the sweep alone.
    let own = retro_core::learn::build_batch(&retrospective, &looks);
    assert!(matches!(&own[..], [one] if one.ask == MutationKind::Sweep), "{own:?}");
    let used = build_rule_use_batches(&retrospective, &looks, &Policy::default());
    let told = |used: &RuleUseBatch| {
        let asks = used.mutations.iter().map(|one| match &one.ask {
            RuleMutationKind::Credit { memory, run, verdict, .. } => {
                let number = ["1", "2", "3"].into_iter().find(|number| rule(number) == *memory).unwrap();
                format!("{run} {number} {}", verdict.as_key())
            }
            other => other.as_str().to_owned(),
        });
        format!("{}: {}", used.rule_scope, asks.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        used.iter().map(told).collect::<Vec<_>>(),
        [
            "default/repo:acme/other: r1 2 harmed, expire",
            "default/repo:acme/shop: r1 1 applied, r2 1 cue_not_met, expire"
        ]
    );
    let asked = Some(ManualRequest {
        request: "one".to_owned(),
        by: "ann".to_owned(),
        runs: vec![run("r1")],
        focus: None,
    });
    assert_eq!(
        build_rule_use_batches(&Retrospective { asked, ..retrospective }, &looks, &Policy::default()),
        []
    );
}

#[test]
fn a_run_moves_a_rules_weight_once_and_what_is_too_light_to_be_presented_is_archived() {
    let mut shop = Shop::new();
    shop.hear(&[asks(Insider, 1, 1, WRAP)]);
    let id = shop.named(WRAP).id;
    let credit = |run_id: &str, verdict| RuleMutationKind::Credit {
        memory: id,
        workflow: Workflow::new("fix-bugs").unwrap(),
        run: run(run_id),
        verdict,
        reason: "because".to_owned(),
    };
    shop.ask(credit("r1", MemoryVerdict::Helped), BTreeMap::new());
    shop.ask(credit("r1", MemoryVerdict::Helped), BTreeMap::new());
    assert_eq!(shop.memories[&id].weight.get(), 400);
    for run_id in ["r2", "r3", "r4"] {
        shop.ask(credit(run_id, MemoryVerdict::Harmed), BTreeMap::new());
    }
    assert_eq!((shop.memories[&id].weight.get(), shop.memories[&id].status), (0, MemoryStatus::Archived));
}

#[test]
fn a_workflow_that_is_named_like_a_keeper_shares_its_key_and_nothing_else() {
    let mut shop = Shop::new();
    let workflow = repo().rule_scope(&Tenant::default_tenant()).workflow;
    let mut world = crate::world::World::new();
    world.active("stranger", 300);
    let mut stranger = world.named("stranger").clone();
    stranger.scope = MemoryScope::Workflow { workflow: workflow.clone() };
    stranger.lesson.title = WRAP.to_owned();
    shop.memories.insert(stranger.id, stranger.clone());
    shop.hear(&[asks(Contributor, 1, 1, WRAP)]);
    assert_eq!(shop.memories[&stranger.id], stranger);
    assert_eq!(shop.memories.len(), 2);
    assert_eq!(Repository::of_rule_scope(&workflow), Some(repo()));
}
