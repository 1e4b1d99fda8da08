//! Conformance cases for the database metrics.

use std::collections::BTreeMap;

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::RetrospectiveId;
use retro_core::kill_switch::KillSwitchScope;
use retro_core::memory::MemoryStatus;

use super::Database;
use super::scenario::{LONG_S, Scenario, empty_result, result_with_finding, test_tenant, time_at};
use crate::{Claim, DatabaseMetrics, DeliveryPosition, NewDeadLetter, Store};

/// Checks that in an empty database all counts are zero and all ages `None`.
pub async fn an_empty_database_has_zero_metrics(database: &Database) {
    assert_eq!(database.one.load_metrics().await.expect("metrics"), DatabaseMetrics::default());
}

/// Checks that metrics are totals over all tenants.
pub async fn metrics_are_totals_over_all_tenants(database: &Database) {
    let scenarios =
        [("a", "v"), ("b", "w")].map(|(tenant, workflow)| Scenario::new(&*database.one, tenant, workflow));
    for scenario in &scenarios {
        scenario.count_runs(&["1", "2"]).await;
    }
    scenarios[0].draw_sample().await;
    for (sequence, code) in
        [(1, DeadLetterCode::NotJson), (2, DeadLetterCode::NotJson), (3, DeadLetterCode::Oversized)]
    {
        database.one.store_dead_letter(&new_dead_letter(sequence, code)).await.expect("storing");
    }
    let metrics = database.two.load_metrics().await.expect("metrics");
    let open = BTreeMap::from([("not_json".to_owned(), 2), ("oversized".to_owned(), 1)]);
    assert_eq!((metrics.retrospectives_open, metrics.claimable, &metrics.dead_letters_open), (2, 1, &open));
    // Two due retrospectives, one due investigation, and an announcement for each dead letter with a tenant.
    assert_eq!(
        metrics.outbox_unsent,
        database.one.list_unsent_messages(100).await.expect("reading").len() as u64
    );
    let ages = [metrics.outbox_age_ms, metrics.dead_letters_age_ms, metrics.retrospectives_age_ms];
    assert!(ages.iter().all(|age| age.is_some_and(|age| age < LONG_S * 1000)), "{metrics:?}");
    assert_eq!(metrics.oldest_tentative, None);

    scenarios[0].claim_next(LONG_S).await;
    scenarios[0].mark_all_sent().await;
    let metrics = database.two.load_metrics().await.expect("metrics");
    assert_eq!((metrics.claimable, metrics.outbox_unsent, metrics.outbox_age_ms), (0, 0, None));
}

/// Checks that only automatic retrospectives count as open, and only until they end.
pub async fn a_retrospective_is_open_until_it_ends(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let id = scenario.settle_window(["a", "b"], &|_| empty_result()).await;
    assert_eq!(database.two.load_metrics().await.expect("metrics").retrospectives_open, 1);
    scenario.close_retrospective(id).await;
    let metrics = database.two.load_metrics().await.expect("metrics");
    assert_eq!((metrics.retrospectives_open, metrics.retrospectives_age_ms), (0, None));
}

/// Checks that the metric is the policy time of the oldest tentative memory, and that a confirmed memory no
/// longer counts.
pub async fn the_oldest_tentative_memory_has_a_policy_time(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let first = scenario.settle_window(["a", "b"], &|claim| result_with_finding(lesson_title(claim))).await;
    scenario.close_retrospective(first).await;
    let tentative = scenario.list_memories().await;
    assert!(tentative.iter().all(|memory| memory.status == MemoryStatus::Tentative) && tentative.len() == 2);
    let oldest = tentative.iter().map(|memory| memory.changed_at).min();
    assert_eq!(database.two.load_metrics().await.expect("metrics").oldest_tentative, oldest);
    let second = scenario.settle_window(["c", "d"], &|claim| result_with_finding(lesson_title(claim)));
    let second = second.await;
    scenario.close_at(second, time_at(20)).await;
    assert!(scenario.list_memories().await.iter().all(|memory| memory.status == MemoryStatus::Active));
    assert_eq!(database.two.load_metrics().await.expect("metrics").oldest_tentative, None);
}

/// Checks that memories in quarantine are counted by their status while a person can release them.
pub async fn held_memories_are_counted_per_status(database: &Database) {
    let scenarios =
        [("a", "v"), ("b", "w")].map(|(tenant, workflow)| Scenario::new(&*database.one, tenant, workflow));
    let mut held = Vec::new();
    for scenario in &scenarios {
        let memory = scenario.learn_lesson("Retry at once").await.id;
        super::write::hold_memory(scenario, memory).await;
        held.push((scenario, memory));
    }
    let id = scenarios[0]
        .settle_window(["c", "d"], &|claim| {
            if claim.number == 1 { result_with_finding("Wait 5 seconds") } else { empty_result() }
        })
        .await;
    scenarios[0].close_retrospective(id).await;
    let all = scenarios[0].list_memories().await;
    let tentative = all.iter().find(|memory| memory.status == MemoryStatus::Tentative).expect("one run");
    super::write::hold_memory(&scenarios[0], tentative.id).await;
    let count = async || database.two.load_metrics().await.expect("metrics").memories_held;
    assert_eq!(count().await, BTreeMap::from([(MemoryStatus::Tentative, 1), (MemoryStatus::Active, 2)]));
    let (scenario, memory) = held[0];
    super::write::release_memory(scenario.store, &scenario.key.tenant, memory, "one")
        .await
        .expect("it is held");
    let (scenario, memory) = held[1];
    super::write::delete_memory(scenario, memory, "two").await.expect("the memory is living");
    assert_eq!(count().await, BTreeMap::from([(MemoryStatus::Tentative, 1)]));
}

/// Checks that engaged kill switches are counted by what they stop, and disengaged ones are not.
pub async fn engaged_kill_switches_are_counted_by_their_scope(database: &Database) {
    let scope = |workflow: Option<&str>, step: Option<&str>| KillSwitchScope {
        tenant: Some(test_tenant("t")),
        workflow: workflow.map(|name| name.parse().expect("a name")),
        step: step.map(|name| name.parse().expect("a name")),
    };
    let everybody = KillSwitchScope { tenant: None, ..scope(None, None) };
    let act = super::cancel::new_act("ann");
    let two_steps = [scope(Some("w"), Some("a")), scope(Some("w"), Some("b"))];
    for switch in [&two_steps[..], &[scope(None, None), scope(Some("w"), None), everybody.clone()]].concat() {
        assert!(database.one.engage_kill_switch(&switch, &act).await.expect("engaging"));
    }
    let count = async || database.two.load_metrics().await.expect("metrics").kill_switches_engaged;
    let all = [("everybody", 1), ("tenant", 1), ("workflow", 1), ("step", 2)];
    assert_eq!(count().await, BTreeMap::from(all));
    assert!(database.one.disengage_kill_switch(&everybody, &act).await.expect("disengaging"));
    assert_eq!(count().await, BTreeMap::from_iter(all[1..].iter().copied()));
}

/// Checks that each confirmed memory has a delay measured from the confirming run, and that a first
/// observation confirms nothing.
pub async fn a_confirmation_has_its_delay(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    let unconfirmed =
        scenario.settle_window(["a", "b"], &|claim| result_with_finding(lesson_title(claim))).await;
    assert_eq!(count_confirmed(&*database.two, unconfirmed).await, 0, "it is not closed yet");
    scenario.close_retrospective(unconfirmed).await;
    assert_eq!(count_confirmed(&*database.two, unconfirmed).await, 0);
    let both = scenario.settle_window(["c", "d"], &|claim| result_with_finding(lesson_title(claim)));
    let both = both.await;
    scenario.close_retrospective(both).await;
    assert_eq!(count_confirmed(&*database.two, both).await, 2);
    scenario.policy.confirm_runs = 1;
    let at_once = scenario.settle_window(["e", "f"], &|_| result_with_finding("one run is enough")).await;
    scenario.close_retrospective(at_once).await;
    assert_eq!(count_confirmed(&*database.two, at_once).await, 1, "the second run only saw it again");
    let other =
        database.one.load_confirmation_delays_ms(&test_tenant("other"), at_once).await.expect("requesting");
    assert_eq!(other, Vec::<u64>::new(), "another tenant's");
}

/// Returns a lesson title that differs between the two investigations of a retrospective.
fn lesson_title(claim: &Claim) -> &'static str {
    if claim.number == 1 { "Retry at once" } else { "List the tables before anything else" }
}

async fn count_confirmed(store: &dyn Store, id: RetrospectiveId) -> usize {
    let waits = store.load_confirmation_delays_ms(&test_tenant("t"), id).await.expect("requesting");
    assert!(waits.iter().all(|wait| *wait < LONG_S * 1000), "{waits:?}");
    waits.len()
}

fn new_dead_letter(sequence: u64, code: DeadLetterCode) -> NewDeadLetter {
    NewDeadLetter {
        position: DeliveryPosition { consumer: "counter".to_owned(), stream: "s".to_owned(), sequence },
        tenant: None,
        workflow: None,
        subject: "nobody's".to_owned(),
        headers: Vec::new(),
        payload: b"?".to_vec(),
        rejection: Rejection::of_message(code, "the tests want it so"),
        attempts: 1,
        stored_at: time_at(0),
    }
}
