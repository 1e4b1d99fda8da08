//! Conformance cases for tenant isolation (law 11).
//!
//! Two tenants use the same names for everything. Each case shows that the owner sees its object (the
//! positive control) and that the other tenant does not.

use retro_core::count::Disposition;
use retro_core::manual::{ProposalFacts, TriggerError};
use retro_core::memory::MemoryStatus;
use retro_core::message::Message;
use retro_core::recall::Assignment;
use retro_core::replay::ReplayPace;
use retro_core::retrospective::PresentedMemory;

use super::Database;
use super::cancel::{cancel_retrospective, fail_retrospective, new_act, reopen_failed};
use super::close::closing_facts;
use super::delivery::new_dead_letter;
use super::recall::parse_ref;
use super::replay::{request_replay, start_batch};
use super::scenario::{
    LONG_S, Scenario, decide_sample, empty_result, failed_result, inline_body, new_run, result_about,
    result_with_finding, run_id, test_step, test_tenant,
};
use super::summaries;
use crate::{
    CancelBatchResult, CancelResult, Claim, CommitResult, DeadLetterFilter, DiscardResult, MemoryFilter,
    NewDeadLetter, ProposalFilter, ReopenResult, RequestReplayResult, RunFilter, StoredBody, UnresolvedRef,
    resolve_memory_ref,
};

fn two_tenants<'a>(database: &'a Database) -> (Scenario<'a>, Scenario<'a>) {
    (Scenario::new(&*database.one, "mine", "w"), Scenario::new(&*database.two, "theirs", "w"))
}

/// Checks that equal names of events, runs and workflows denote different objects in different tenants.
pub async fn counting_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    assert_eq!(mine.count_runs(&["a"]).await, [Disposition::Counted(1)]);
    assert_eq!(
        theirs.count_runs(&["a"]).await,
        [Disposition::Counted(1)],
        "no duplicate of somebody else's event"
    );
    assert_eq!(theirs.count_runs(&["a"]).await, [Disposition::Duplicate]);
    mine.count_runs(&["b"]).await;
    assert_eq!(mine.workflow_state().await.epoch, 1);
    assert_eq!(theirs.workflow_state().await.epoch, 0, "their window is not full");
    let mut changed = theirs.new_run("b");
    changed.arrival.content_hash = "other content".to_owned();
    let counted = theirs.count_batch(&[changed], super::scenario::time_at(0)).await;
    assert_eq!(counted[0].disposition, Disposition::Counted(2), "no conflict with somebody else's event");
}

/// Checks that a sampler finds a retrospective only under its own tenant.
pub async fn sampling_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    mine.count_runs(&["a", "b"]).await;
    let id = mine.latest_retrospective().await.id;
    let foreign = database.one.draw_sample(&theirs.key.tenant, id, &decide_sample).await.expect("sampling");
    assert_eq!(foreign, CommitResult::NotFound);
    let overdue = database.one.list_overdue_samples(0, 9).await.expect("overdue");
    assert_eq!(overdue, [(mine.key.tenant.clone(), id)]);
    assert_eq!(mine.draw_sample().await, CommitResult::Done);
}

/// Checks that a claim contains only objects of the run's tenant.
pub async fn investigating_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let memory = mine.learn_lesson("Retry at once").await;
    for scenario in [&mine, &theirs] {
        let mut runs = [scenario.new_run("a"), scenario.new_run("b")];
        for run in &mut runs {
            // The events of both tenants name a memory of the first tenant, and the gateway records a
            // presentation of it.
            run.arrival.run.memories.presented = vec![memory.id];
            let id = &run.arrival.run.run_id;
            database.one.record_presented(&scenario.key, id, &[memory.id], &[]).await.expect("recording");
        }
        scenario.count_batch(&runs, super::scenario::time_at(0)).await;
        scenario.draw_sample().await;
    }
    for _ in 0..4 {
        let claim = mine.claim_next(LONG_S).await;
        let own = claim.retrospective.key == mine.key;
        let run = new_run(&claim.retrospective.key, claim.run.run_id.as_str());
        assert_eq!(inline_body(&body_bytes(&claim)), run.body, "the same names, another run");
        assert_eq!(claim.memories.len(), usize::from(own));
        assert_eq!(claim.presented.len(), usize::from(own));
        assert!(
            claim
                .earlier
                .iter()
                .all(|one| one.result == Some(result_with_finding(claim.retrospective.key.tenant.as_str())))
        );
        let result = result_with_finding(claim.retrospective.key.tenant.as_str());
        mine.finish_claim(&claim, &result).await.expect("finishing");
    }
    let id = mine.latest_retrospective().await.id;
    let whole = |tenant| database.one.find_retrospective(tenant, id);
    let own = whole(&mine.key.tenant).await.expect("reading").expect("it is mine");
    assert_eq!(own.investigations.len(), 2);
    assert_eq!(whole(&theirs.key.tenant).await.expect("reading"), None);
}

/// Checks that a claim begins, stores and counts summaries of its own tenant only, though workflows, runs and
/// ordinals have equal names.
pub async fn summarising_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let claim = summaries::claim_window(&mine, &["a", "b"]).await;
    let writes = ["a", "b"].map(|name| summaries::readable(name, "mine"));
    summaries::store(&mine, &claim, &writes).await.expect("storing");
    assert_eq!(summaries::list_summaries(&theirs).await, []);
    mine.finish_claim(&claim, &empty_result()).await.expect("finishing");
    mine.investigate_all(&|_| empty_result()).await;
    let claim = summaries::claim_window(&theirs, &["a", "b"]).await;
    let begun = summaries::begin(&theirs, &claim, 9).await;
    assert_eq!(summaries::run_names(&begun), ["a", "b"], "theirs are not summarised");
    summaries::store(&theirs, &claim, &[summaries::readable("a", "theirs")]).await.expect("storing");
    theirs.finish_claim(&claim, &empty_result()).await.expect("finishing");
    theirs.investigate_all(&|_| empty_result()).await;
    for (scenario, counted, tool) in [(&mine, 2, "mine"), (&theirs, 1, "theirs")] {
        let id = scenario.latest_retrospective().await.id;
        let calls = closing_facts(scenario, id).await.calls.expect("they were counted");
        assert_eq!((calls.coverage.counted, calls.operations[0].tool.as_str()), (counted, tool));
        assert_eq!(summaries::list_summaries(scenario).await.len(), counted as usize);
    }
}

/// Checks that a tenant cannot name, read or decide another tenant's runs, retrospectives and proposals.
pub async fn manual_retrospectives_keep_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let id = super::manual::create_proposal(&mine, "Retry at once").await;
    let missing = TriggerError::UnknownRun { run: run_id("a"), workflow: theirs.key.workflow.clone() };
    assert_eq!(
        super::manual::trigger_manual(&theirs, "q", &["a"]).await,
        Err(missing),
        "they have no such run"
    );
    theirs.count_runs(&["a"]).await;
    assert_eq!(
        super::manual::trigger_manual(&theirs, "q", &["a"]).await,
        Ok(CommitResult::Done),
        "their request is not mine"
    );
    let read = |tenant| database.one.find_proposal(tenant, id);
    assert_eq!(read(&theirs.key.tenant).await.expect("reading"), None);
    let all = ProposalFilter { limit: 9, ..Default::default() };
    assert_eq!(theirs.store.list_proposals(&theirs.key.tenant, &all).await.expect("listing"), []);
    let never = |_: &ProposalFacts| panic!("there is nothing for them to decide");
    let foreign = theirs.store.decide_proposal(&theirs.key.tenant, id, &never).await.expect("deciding");
    assert_eq!(foreign, Ok(None));
    let foreign = theirs.store.load_proposal_facts(&theirs.key.tenant, id).await.expect("reading");
    assert!(foreign.is_none());
    assert!(read(&mine.key.tenant).await.expect("reading").is_some_and(|row| row.decision.is_none()));
    super::manual::accept_proposal(&mine, id).await.expect("it is mine and open");
    assert_eq!(theirs.list_memories().await, []);
}

fn body_bytes(claim: &Claim) -> Vec<u8> {
    match &claim.body {
        StoredBody::Inline(body) => body.clone(),
        other => panic!("the scenario's bodies are inline, not {other:?}"),
    }
}

/// Checks that a closing loads, compares and changes only memories of its own tenant.
pub async fn closing_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    mine.learn_lesson("Retry at once").await;
    let id = theirs
        .settle_window(["a", "b"], &|claim| {
            if claim.number == 1 { result_with_finding("Retry at once") } else { empty_result() }
        })
        .await;
    let decide = |facts| Ok(mine.decide_closing(facts, super::scenario::time_at(10)));
    let foreign =
        database.one.close_retrospective(&mine.key.tenant, id, super::scenario::time_at(10), &decide).await;
    assert_eq!(foreign.expect("closing"), Ok(CommitResult::NotFound));
    let foreign = database.one.load_closing_facts(&mine.key.tenant, id).await.expect("reading");
    assert!(foreign.is_none());
    assert_eq!(theirs.close_retrospective(id).await, CommitResult::Done);
    // The second tenant's memory is new and tentative: the first tenant's memory neither confirmed it nor
    // changed.
    let statuses = |memories: Vec<retro_core::memory::Memory>| -> Vec<_> {
        memories.into_iter().map(|memory| (memory.status, memory.observed_runs)).collect()
    };
    assert_eq!(statuses(theirs.list_memories().await), [(MemoryStatus::Tentative, 1)]);
    assert_eq!(statuses(mine.list_memories().await), [(MemoryStatus::Active, 2)]);
    super::write::delete_memory(&mine, mine.list_memories().await[0].id, "gone")
        .await
        .expect("the memory is living");
    let id = theirs.settle_window(["c", "d"], &|_| result_with_finding("Retry at once")).await;
    theirs.close_retrospective(id).await;
    assert_eq!(
        statuses(theirs.list_memories().await),
        [(MemoryStatus::Active, 3)],
        "my tombstone forbids nothing of theirs"
    );
}

/// Checks that another tenant's runs, epochs, memories, tombstones and changes are not loaded, even if their
/// names are equal.
pub async fn closing_facts_keep_tenants_apart(database: &Database) {
    let (mine, mut theirs) = two_tenants(database);
    theirs.policy.failure_pause_s = 0;
    let memory = mine.learn_lesson("lesson").await.id;
    let deleted = mine.learn_lesson("Retry at once").await.id;
    super::write::delete_memory(&mine, deleted, "gone").await.expect("the memory is living");
    let first = theirs.settle_window(["lesson 1", "lesson 2"], &|_| failed_result()).await;
    theirs.close_retrospective(first).await;
    theirs.draw_sample().await;
    let presented = [memory, deleted].map(|memory| PresentedMemory::from_own_workflow(memory, true)).to_vec();
    theirs.investigate_all(&|_| result_about("another lesson", None, presented.clone())).await;
    let second = theirs.latest_retrospective().await;
    assert_eq!(second.epoch, 2);
    let results = closing_facts(&theirs, second.id).await;
    assert_eq!(results.writer.previous_epoch, None, "their only one before it failed");
    assert_eq!(
        (results.writer.memories.len(), results.writer.tombstones.len(), results.writer.applied.len()),
        (0, 0, 0)
    );
    assert_eq!((results.window.len(), results.investigations.len()), (2, 2));
    assert_eq!((results.history.spending.len(), results.history.investigated_runs.len()), (2, 0));
    // Positive control: the same queries return results for the owner.
    mine.count_runs(&["a", "b"]).await;
    mine.draw_sample().await;
    mine.investigate_all(&|_| result_about("another lesson", None, presented.clone())).await;
    let results = closing_facts(&mine, mine.latest_retrospective().await.id).await;
    assert_eq!(results.writer.previous_epoch, Some(2));
    assert_eq!((results.writer.memories.len(), results.writer.tombstones.len()), (2, 1));
    assert_eq!((results.history.spending.len(), results.history.investigated_runs.len()), (6, 4));
}

/// Checks that deleting another tenant's memory has the same result as deleting a missing one.
pub async fn deleting_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let memory = mine.learn_lesson("Retry at once").await.id;
    assert_eq!(super::write::delete_memory(&theirs, memory, "request").await, Ok(CommitResult::NotFound));
    assert_eq!(mine.list_memories().await[0].status, MemoryStatus::Active);
    assert_eq!(super::write::delete_memory(&mine, memory, "request").await, Ok(CommitResult::Done));
}

/// Checks that releasing another tenant's memory has the same result as releasing a missing one.
pub async fn releasing_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let memory = mine.learn_lesson("Retry at once").await.id;
    super::write::hold_memory(&mine, memory).await;
    for (scenario, result) in [(&theirs, CommitResult::NotFound), (&mine, CommitResult::Done)] {
        let tenant = &scenario.key.tenant;
        let held = MemoryFilter { held: true, limit: 9, ..Default::default() };
        let listed = database.one.list_memories(tenant, &held).await.expect("held memories");
        assert_eq!(listed.len(), usize::from(result == CommitResult::Done), "{tenant}");
        let released = super::write::release_memory(&*database.one, tenant, memory, "request").await;
        assert_eq!(released, Ok(result), "{tenant}");
    }
}

/// Checks that a tenant cannot receive, open or count another tenant's memory.
pub async fn recalling_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let (own, foreign) =
        (mine.learn_lesson("Retry at once").await, theirs.learn_lesson("Retry at once").await);
    assert_ne!(own.id, foreign.id, "ids are derived from the tenant, too");
    let run = run_id("a");
    database.one.record_presented(&theirs.key, &run, &[own.id, foreign.id], &[]).await.expect("recording");
    database.one.record_read(&theirs.key, &run, own.id).await.expect("the call does nothing");
    for (scenario, memory, presentations) in [(&mine, &own, 0), (&theirs, &foreign, 1)] {
        let found =
            database.one.load_candidates(&scenario.key, &test_step(), None, 0).await.expect("recalling");
        let found: Vec<_> = found.into_iter().map(|one| (one.memory.id, one.presentations)).collect();
        assert_eq!(found, [(memory.id, presentations)]);
    }
    for (scenario, memory, met) in [(&mine, &own, false), (&theirs, &foreign, true)] {
        scenario.count_runs(&["a", "b"]).await;
        scenario.draw_sample().await;
        let shown = PresentedMemory::from_own_workflow(memory.id, false);
        let of_run =
            |claim: &Claim| if claim.run.run_id == run && met { vec![shown.clone()] } else { Vec::new() };
        scenario
            .investigate_all(&|claim| {
                assert_eq!(claim.presented, of_run(claim), "{}", scenario.key);
                empty_result()
            })
            .await;
    }
    let read = |tenant, id| database.one.find_memory(tenant, id);
    assert_eq!(read(&mine.key.tenant, own.id).await.expect("reading"), Some(own.clone()));
    assert_eq!(read(&theirs.key.tenant, own.id).await.expect("reading"), None);
}

/// Checks that another tenant's memory neither matches a reference nor makes it ambiguous.
pub async fn resolving_references_keeps_tenants_apart(database: &Database) {
    // The first memories of these workflows, one per tenant, have a common id prefix.
    let mine = Scenario::new(&*database.one, "mine", "w112848");
    let theirs = Scenario::new(&*database.two, "theirs", "w2495");
    let (own, foreign) =
        (mine.learn_lesson("Retry at once").await.id, theirs.learn_lesson("Retry at once").await.id);
    let short = parse_ref(&own.short_id());
    assert_eq!(own.short_id(), foreign.short_id(), "the case would test nothing");
    for (key, id) in [(&mine.key, own), (&theirs.key, foreign)] {
        assert_eq!(resolve_memory_ref(&*database.one, &key.tenant, short).await.expect("recording"), Ok(id));
        assert_eq!(database.one.find_memory_ids(&key.tenant, short).await.expect("recording"), [id]);
    }
    let lone = mine.learn_lesson("Wait 5 seconds").await.id;
    let short = parse_ref(&lone.short_id());
    let of_mine = resolve_memory_ref(&*database.two, &mine.key.tenant, short).await.expect("recording");
    assert_eq!(of_mine, Ok(lone), "the positive control");
    for nobody in [theirs.key.tenant, test_tenant("nobody")] {
        let missing = resolve_memory_ref(&*database.two, &nobody, short).await.expect("recording");
        assert_eq!(missing, Err(UnresolvedRef::Missing(short)), "{nobody}");
        assert_eq!(database.two.find_memory_ids(&nobody, lone.into()).await.expect("recording"), []);
    }
}

/// Checks that every operator query returns only data of the given tenant.
pub async fn every_query_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let memory = mine.learn_lesson("Retry at once").await.id;
    super::write::delete_memory(&mine, memory, "gone").await.expect("the memory is living");
    let assigned = [Assignment { memory, withheld: true, permille: 100 }];
    for scenario in [&mine, &theirs] {
        let run = run_id("Retry at once 1");
        scenario.store.record_presented(&scenario.key, &run, &[], &assigned).await.expect("recording");
    }
    let id = mine.latest_retrospective().await.id;
    let store = &database.two;
    assert_eq!(store.list_tenants().await.expect("listing"), std::slice::from_ref(&mine.key.tenant));
    for (key, sees) in [(&mine.key, 1), (&theirs.key, 0)] {
        let tenant = &key.tenant;
        let runs = RunFilter { limit: 9, ..Default::default() };
        assert_eq!(store.list_runs(tenant, &runs).await.expect("runs").len(), 2 * sees);
        assert_eq!(store.list_ordinals(key).await.expect("ordinals").len(), 2 * sees);
        assert_eq!(
            store.list_run_exposures(key, memory, None, 9).await.expect("run exposures").len(),
            2 * sees
        );
        let assigned = store.list_assigned_runs(key, memory, 9).await.expect("assigned runs");
        assert_eq!(assigned.len(), sees);
        assert_eq!(store.list_workflows(tenant).await.expect("workflows").len(), sees);
        let memories = MemoryFilter { limit: 9, ..Default::default() };
        assert_eq!(store.list_memories(tenant, &memories).await.expect("memories").len(), sees);
        assert_eq!(store.list_memory_changes(tenant, memory).await.expect("history").len(), 3 * sees);
        assert_eq!(store.list_workflow_changes(key).await.expect("changes").len(), 3 * sees);
        assert_eq!(store.list_tombstones(key).await.expect("tombstones").len(), sees);
        let all = store.list_retrospectives(tenant, None, 9).await.expect("retrospectives");
        assert_eq!(all.len(), sees);
        let one = store.find_retrospective(tenant, id).await.expect("retrospective");
        assert_eq!(usize::from(one.is_some()), sees);
        let report = store.find_report(tenant, id).await.expect("report");
        assert_eq!(usize::from(report.is_some()), sees);
    }
    let of_mine = |message: &Message| message.tenant == mine.key.tenant;
    assert!(
        store.list_unsent_messages(100).await.expect("reading").iter().all(of_mine),
        "each message says whose it is"
    );
}

/// Checks that no other tenant can read a dead letter, which may contain any data of its tenant.
pub async fn dead_letters_keep_tenants_apart(database: &Database) {
    let mine = NewDeadLetter { tenant: Some(test_tenant("mine")), ..new_dead_letter(1) };
    let theirs = NewDeadLetter { tenant: Some(test_tenant("theirs")), ..new_dead_letter(2) };
    let nobodys = NewDeadLetter { tenant: None, ..new_dead_letter(3) };
    for dead_letter in [&mine, &theirs, &nobodys] {
        database.one.store_dead_letter(dead_letter).await.expect("storing");
    }
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    for (name, own) in [("mine", &mine), ("theirs", &theirs), ("default", &nobodys)] {
        let all = database.two.list_dead_letters(&test_tenant(name), &filter).await.expect("listing");
        assert_eq!(all.iter().map(|one| &one.message).collect::<Vec<_>>(), [own], "{name}");
        for dead_letter in [&mine, &theirs, &nobodys] {
            let one =
                database.two.find_dead_letter(&test_tenant(name), dead_letter.id()).await.expect("reading");
            assert_eq!(one.is_some(), dead_letter == own, "{name}");
        }
    }
}

/// Checks that cancelling or reopening another tenant's retrospective finds nothing and changes nothing.
pub async fn cancelling_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two_tenants(database);
    let dead_letter = fail_retrospective(&mine, ["a", "b"]).await;
    assert_eq!(reopen_failed(&theirs, dead_letter, "eve").await, ReopenResult::NotFound);
    assert!(matches!(reopen_failed(&mine, dead_letter, "ann").await, ReopenResult::Opened(_)));
    assert_eq!(database.two.list_audit_rows(&theirs.key.tenant, dead_letter.0).await.expect("reading"), []);
    let open = mine.latest_retrospective().await;
    assert_eq!(cancel_retrospective(&theirs, &open, "eve").await, CancelResult::NotFound);
    assert_eq!(mine.latest_retrospective().await, open);
    assert!(matches!(cancel_retrospective(&mine, &open, "ann").await, CancelResult::Cancelled { .. }));
    assert_eq!(database.two.list_audit_rows(&theirs.key.tenant, open.id.0).await.expect("reading"), []);
}

/// Checks that another tenant's dead letters and replay batches are reported as missing and do not change.
pub async fn replaying_keeps_tenants_apart(database: &Database) {
    let (t, theirs) = (test_tenant("t"), test_tenant("theirs"));
    let id = database.one.store_dead_letter(&new_dead_letter(1)).await.expect("storing");
    let eve = new_act("eve");
    assert_eq!(
        database.two.replay_dead_letter(&theirs, id, None, &eve).await.expect("requesting"),
        RequestReplayResult::NotFound
    );
    let discarded = database.two.discard_dead_letters(&theirs, &[id], &eve).await.expect("requesting");
    assert_eq!(discarded, [DiscardResult::NotFound]);
    assert_eq!(database.two.find_replay_content(&theirs, id, None).await.expect("requesting"), None);
    let batch = start_batch(database, &[id], ReplayPace::default()).await;
    assert_eq!(database.two.find_replay_batch(&theirs, batch, 9).await.expect("requesting"), None);
    assert_eq!(database.two.list_replay_batches(&theirs, 9).await.expect("requesting"), []);
    let called_off = database.two.cancel_replay_batch(&theirs, batch, &eve).await.expect("requesting");
    assert_eq!(called_off, CancelBatchResult::NotFound);
    assert!(
        database
            .two
            .find_replay_batch(&t, batch, 9)
            .await
            .expect("requesting")
            .is_some_and(|(row, _)| row.state.is_open())
    );
    request_replay(database, id, "ann").await;
    assert_eq!(database.two.list_replays(&theirs, id).await.expect("requesting"), []);
    assert_eq!(database.two.list_replays(&t, id).await.expect("requesting").len(), 1);
    assert!(database.two.find_replay_content(&t, id, None).await.expect("requesting").is_some());
}
