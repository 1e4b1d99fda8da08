//! Conformance cases for drawing the sample of a retrospective.

use futures::future::join;
use retro_core::id::RetrospectiveId;
use retro_core::investigate::NextStage;
use retro_core::message::Notice;
use retro_core::retrospective::RetrospectiveState;

use super::Database;
use super::scenario::{Scenario, decide_sample, test_tenant};
use crate::{CommitResult, StoreError};

/// Checks that the sample is stored in the transaction that makes the first investigation due and stores its
/// message.
pub async fn a_sample_is_stored_before_anything_is_investigated(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    scenario.mark_all_sent().await;
    assert_eq!(database.one.count_claimable().await.expect("claimable"), 0);
    assert_eq!(scenario.draw_sample().await, CommitResult::Done);
    let id = scenario.latest_retrospective().await.id;
    let detail = database
        .two
        .find_retrospective(&scenario.key.tenant, id)
        .await
        .expect("reading")
        .expect("the row exists");
    assert_eq!(detail.sample, Some(decide_sample(&detail.retrospective, vec![1, 2]).sample));
    assert_eq!(detail.retrospective.state, RetrospectiveState::Investigating);
    assert_eq!(detail.investigations.len(), 1);
    assert_eq!(
        scenario.list_notices().await,
        [Notice::InvestigationDue { retrospective: id, investigation: 1 }]
    );
    assert_eq!(database.one.count_claimable().await.expect("claimable"), 1);
}

/// Checks that neither a repeated message nor a concurrent sampler changes a drawn sample.
pub async fn a_sample_is_drawn_once_by_however_many_samplers(database: &Database) {
    let (scenario, other) =
        (Scenario::new(&*database.one, "t", "w"), Scenario::new(&*database.two, "t", "w"));
    scenario.count_runs(&["a", "b"]).await;
    let both = join(scenario.draw_sample(), other.draw_sample()).await;
    assert!(
        both == (CommitResult::Done, CommitResult::AlreadyDone)
            || both == (CommitResult::AlreadyDone, CommitResult::Done),
        "{both:?}"
    );
    assert_eq!(scenario.draw_sample().await, CommitResult::AlreadyDone);
    assert_eq!(database.one.count_claimable().await.expect("claimable"), 1);
    let nobody = RetrospectiveId::of_epoch(&scenario.key, 99);
    assert_eq!(
        database.one.draw_sample(&test_tenant("t"), nobody, &decide_sample).await.expect("sampling"),
        CommitResult::NotFound
    );
}

/// Checks that drawing a sample whose first investigation has no stored run fails and stores nothing.
pub async fn a_window_with_a_missing_run_is_damage_and_nothing_is_stored(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    scenario.mark_all_sent().await;
    let id = scenario.latest_retrospective().await.id;
    let wrong = |one: &_, window: Vec<u64>| {
        let mut sampling = decide_sample(one, window);
        sampling.first = NextStage::Investigate { number: 1, at: 7, replacement: false };
        sampling
    };
    let error =
        database.one.draw_sample(&scenario.key.tenant, id, &wrong).await.expect_err("there is no place 7");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(scenario.latest_retrospective().await.state, RetrospectiveState::Due);
    assert_eq!(scenario.list_notices().await, []);
    assert_eq!(scenario.draw_sample().await, CommitResult::Done, "nothing blocks it");
}

/// Checks that the sweep finds due retrospectives whose wake-up message was lost.
pub async fn a_retrospective_is_overdue_only_while_it_waits_for_its_sample(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let overdue = |age_s| database.two.list_overdue_samples(age_s, 10);
    let id = scenario.latest_retrospective().await.id;
    assert_eq!(overdue(0).await.expect("overdue"), [(scenario.key.tenant.clone(), id)]);
    assert_eq!(overdue(3600).await.expect("overdue"), [], "it has only just opened");
    assert_eq!(overdue(u64::MAX).await.expect("overdue"), []);
    assert_eq!(database.two.list_overdue_samples(0, 0).await.expect("overdue"), [], "at most so many");
    scenario.draw_sample().await;
    assert_eq!(overdue(0).await.expect("overdue"), []);
}
