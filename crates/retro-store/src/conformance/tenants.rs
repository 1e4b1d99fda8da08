//! Law 11: nothing of one tenant is visible to another. Two tenants use the same names for everything; each case
//! shows that the one whose object it is sees it (the positive control) and that the other one does not.

use retro_core::count::Disposition;
use retro_core::manual::{ProposalFacts, Untriggered};
use retro_core::memory::Status;
use retro_core::message::Message;
use retro_core::replay::Pace;
use retro_core::retrospective::Presented;

use super::Database;
use super::close::closing_facts;
use super::delivery::letter;
use super::recall::name;
use super::replay::{replay, start};
use super::steer::{act, cancel, fail, reopen};
use super::story::{LONG_S, Story, drawn, failed, found, found_about, nothing, run, run_id, step, tenant};
use crate::{
    BatchCancelled, Cancelled, Claim, DeadLetterFilter, Discarded, IncomingBody, MemoryFilter, NewDeadLetter,
    ProposalFilter, Reopened, Replayed, RunFilter, Step, StoredBody, Unnamed, resolve,
};

fn two<'a>(database: &'a Database) -> (Story<'a>, Story<'a>) {
    (Story::new(&*database.one, "mine", "w"), Story::new(&*database.two, "theirs", "w"))
}

/// The same event, run and workflow names are other events, runs and workflows.
pub async fn counting_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    assert_eq!(mine.count(&["a"]).await, [Disposition::Counted(1)]);
    assert_eq!(
        theirs.count(&["a"]).await,
        [Disposition::Counted(1)],
        "no duplicate of somebody else's event"
    );
    assert_eq!(theirs.count(&["a"]).await, [Disposition::Duplicate]);
    mine.count(&["b"]).await;
    assert_eq!(mine.state().await.epoch, 1);
    assert_eq!(theirs.state().await.epoch, 0, "their window is not full");
    let mut changed = theirs.run("b");
    changed.arrival.content_hash = "other content".to_owned();
    let counted = theirs.count_batch(&[changed], super::story::moment(0)).await;
    assert_eq!(counted[0].disposition, Disposition::Counted(2), "no conflict with somebody else's event");
}

/// A retrospective is found by its own tenant only.
pub async fn sampling_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    mine.count(&["a", "b"]).await;
    let id = mine.retrospective().await.id;
    let foreign = database.one.sample(&theirs.key.tenant, id, &drawn).await.expect("sampling");
    assert_eq!(foreign, Step::Unknown);
    let overdue = database.one.overdue_samples(0, 9).await.expect("overdue");
    assert_eq!(overdue, [(mine.key.tenant.clone(), id)]);
    assert_eq!(mine.sample().await, Step::Done);
}

/// What a worker is handed about a run is of the run's tenant.
pub async fn investigating_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    let memory = mine.learn("Retry at once").await;
    for story in [&mine, &theirs] {
        let mut runs = [story.run("a"), story.run("b")];
        for run in &mut runs {
            // Both tenants' events name a memory of mine, and the gateway is told so.
            run.arrival.run.memories.presented = vec![memory.id];
            let id = &run.arrival.run.run_id;
            database.one.record_presented(&story.key, id, &[memory.id]).await.expect("recording");
        }
        story.count_batch(&runs, super::story::moment(0)).await;
        story.sample().await;
    }
    for _ in 0..4 {
        let claim = mine.claim(LONG_S).await;
        let own = claim.retrospective.key == mine.key;
        let run = run(&claim.retrospective.key, claim.run.run_id.as_str());
        assert_eq!(IncomingBody::Inline(body(&claim)), run.body, "the same names, another run");
        assert_eq!(claim.memories.len(), usize::from(own));
        assert_eq!(claim.presented.len(), usize::from(own));
        assert!(
            claim
                .earlier
                .iter()
                .all(|one| one.result == Some(found(claim.retrospective.key.tenant.as_str())))
        );
        let result = found(claim.retrospective.key.tenant.as_str());
        mine.finish(&claim, &result).await.expect("finishing");
    }
    let id = mine.retrospective().await.id;
    let whole = |tenant| database.one.retrospective(tenant, id);
    let own = whole(&mine.key.tenant).await.expect("reading").expect("it is mine");
    assert_eq!(own.investigations.len(), 2);
    assert_eq!(whole(&theirs.key.tenant).await.expect("reading"), None);
}

/// A run, a retrospective and a proposal of mine are nothing to them: not to name, not to read, not to decide.
pub async fn manual_retrospectives_keep_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    let id = super::manual::proposed(&mine, "Retry at once").await;
    let missing = Untriggered::UnknownRun { run: run_id("a"), workflow: theirs.key.workflow.clone() };
    assert_eq!(super::manual::ask(&theirs, "q", &["a"]).await, Err(missing), "they have no such run");
    theirs.count(&["a"]).await;
    assert_eq!(super::manual::ask(&theirs, "q", &["a"]).await, Ok(Step::Done), "their request is not mine");
    let read = |tenant| database.one.proposal(tenant, id);
    assert_eq!(read(&theirs.key.tenant).await.expect("reading"), None);
    let all = ProposalFilter { limit: 9, ..Default::default() };
    assert_eq!(theirs.store.proposals(&theirs.key.tenant, &all).await.expect("listing"), []);
    let never = |_: &ProposalFacts| panic!("there is nothing for them to decide");
    let foreign = theirs.store.decide_proposal(&theirs.key.tenant, id, &never).await.expect("deciding");
    assert_eq!(foreign, None);
    assert!(read(&mine.key.tenant).await.expect("reading").is_some_and(|row| row.decision.is_none()));
    super::manual::accepted(&mine, id).await.expect("it is mine and open");
    assert_eq!(theirs.memories().await, []);
}

fn body(claim: &Claim) -> Vec<u8> {
    match &claim.body {
        StoredBody::Inline(body) => body.clone(),
        other => panic!("the story's bodies are inline, not {other:?}"),
    }
}

/// A writer sees and changes memories of its own tenant only, and similarity never looks further.
pub async fn closing_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    mine.learn("Retry at once").await;
    let id = theirs
        .settle(["a", "b"], &|claim| if claim.number == 1 { found("Retry at once") } else { nothing() })
        .await;
    let decide = |facts| mine.closing(facts, super::story::moment(10));
    let foreign = database.one.close(&mine.key.tenant, id, super::story::moment(10), &decide).await;
    assert_eq!(foreign.expect("closing"), Step::Unknown);
    assert_eq!(theirs.close(id).await, Step::Done);
    // Theirs is new and tentative: mine confirmed nothing, and mine is as it was.
    let statuses = |memories: Vec<retro_core::memory::Memory>| -> Vec<_> {
        memories.into_iter().map(|memory| (memory.status, memory.observed_runs)).collect()
    };
    assert_eq!(statuses(theirs.memories().await), [(Status::Tentative, 1)]);
    assert_eq!(statuses(mine.memories().await), [(Status::Active, 2)]);
    super::write::delete(&mine, mine.memories().await[0].id, "gone").await.expect("it lives");
    let id = theirs.settle(["c", "d"], &|_| found("Retry at once")).await;
    theirs.close(id).await;
    assert_eq!(
        statuses(theirs.memories().await),
        [(Status::Active, 3)],
        "my tombstone forbids nothing of theirs"
    );
}

/// Runs, epochs, memories, tombstones and changes of the same names are somebody else's.
pub async fn what_a_writer_is_told_keeps_tenants_apart(database: &Database) {
    let (mine, mut theirs) = two(database);
    theirs.policy.failure_pause_s = 0;
    let memory = mine.learn("lesson").await.id;
    let gone = mine.learn("Retry at once").await.id;
    super::write::delete(&mine, gone, "gone").await.expect("it lives");
    let first = theirs.settle(["lesson 1", "lesson 2"], &|_| failed()).await;
    theirs.close(first).await;
    theirs.sample().await;
    let presented = [memory, gone].map(|memory| Presented::own(memory, true)).to_vec();
    theirs.investigate(&|_| found_about("another lesson", None, presented.clone())).await;
    let second = theirs.retrospective().await;
    assert_eq!(second.epoch, 2);
    let told = closing_facts(&theirs, second.id).await;
    assert_eq!(told.writer.previous_epoch, None, "their only one before it failed");
    assert_eq!(
        (told.writer.memories.len(), told.writer.tombstones.len(), told.writer.applied.len()),
        (0, 0, 0)
    );
    assert_eq!((told.window.len(), told.investigations.len()), (2, 2));
    assert_eq!((told.history.spent.len(), told.history.sightings.len()), (2, 0));
    // The positive control: the same questions about mine have answers.
    mine.count(&["a", "b"]).await;
    mine.sample().await;
    mine.investigate(&|_| found_about("another lesson", None, presented.clone())).await;
    let told = closing_facts(&mine, mine.retrospective().await.id).await;
    assert_eq!(told.writer.previous_epoch, Some(2));
    assert_eq!((told.writer.memories.len(), told.writer.tombstones.len()), (2, 1));
    assert_eq!((told.history.spent.len(), told.history.sightings.len()), (6, 4));
}

/// Another tenant's memory answers exactly like a missing one.
pub async fn deleting_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    let memory = mine.learn("Retry at once").await.id;
    assert_eq!(super::write::delete(&theirs, memory, "request").await, Ok(Step::Unknown));
    assert_eq!(mine.memories().await[0].status, Status::Active);
    assert_eq!(super::write::delete(&mine, memory, "request").await, Ok(Step::Done));
}

/// Nobody is handed, opens, or counts another's memory.
pub async fn recalling_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    let (own, foreign) = (mine.learn("Retry at once").await, theirs.learn("Retry at once").await);
    assert_ne!(own.id, foreign.id, "ids are derived from the tenant, too");
    let run = run_id("a");
    database.one.record_presented(&theirs.key, &run, &[own.id, foreign.id]).await.expect("recording");
    database.one.record_read(&theirs.key, &run, own.id).await.expect("nothing happens");
    for (story, memory, presentations) in [(&mine, &own, 0), (&theirs, &foreign, 1)] {
        let found = database.one.candidates(&story.key, &step(), 0).await.expect("recalling");
        let found: Vec<_> = found.into_iter().map(|one| (one.memory.id, one.presentations)).collect();
        assert_eq!(found, [(memory.id, presentations)]);
    }
    for (story, memory, met) in [(&mine, &own, false), (&theirs, &foreign, true)] {
        story.count(&["a", "b"]).await;
        story.sample().await;
        let shown = Presented::own(memory.id, false);
        let of_run =
            |claim: &Claim| if claim.run.run_id == run && met { vec![shown.clone()] } else { Vec::new() };
        story
            .investigate(&|claim| {
                assert_eq!(claim.presented, of_run(claim), "{}", story.key);
                nothing()
            })
            .await;
    }
    let read = |tenant, id| database.one.memory(tenant, id);
    assert_eq!(read(&mine.key.tenant, own.id).await.expect("reading"), Some(own.clone()));
    assert_eq!(read(&theirs.key.tenant, own.id).await.expect("reading"), None);
}

/// Theirs is never meant by me, and never makes mine ambiguous.
pub async fn naming_keeps_tenants_apart(database: &Database) {
    // The first memories of these workflows, one of each tenant, have ids that begin alike.
    let mine = Story::new(&*database.one, "mine", "w112848");
    let theirs = Story::new(&*database.two, "theirs", "w2495");
    let (own, foreign) = (mine.learn("Retry at once").await.id, theirs.learn("Retry at once").await.id);
    let short = name(&own.short());
    assert_eq!(own.short(), foreign.short(), "the case is about nothing");
    for (key, id) in [(&mine.key, own), (&theirs.key, foreign)] {
        assert_eq!(resolve(&*database.one, &key.tenant, short).await.expect("naming"), Ok(id));
        assert_eq!(database.one.named(&key.tenant, short).await.expect("naming"), [id]);
    }
    let lone = mine.learn("Wait 5 seconds").await.id;
    let short = name(&lone.short());
    let of_mine = resolve(&*database.two, &mine.key.tenant, short).await.expect("naming");
    assert_eq!(of_mine, Ok(lone), "the positive control");
    for nobody in [theirs.key.tenant, tenant("nobody")] {
        let missing = resolve(&*database.two, &nobody, short).await.expect("naming");
        assert_eq!(missing, Err(Unnamed::Missing(short)), "{nobody}");
        assert_eq!(database.two.named(&nobody, lone.into()).await.expect("naming"), []);
    }
}

/// Every listing and every look-up of the people's port.
pub async fn every_question_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    let memory = mine.learn("Retry at once").await.id;
    super::write::delete(&mine, memory, "gone").await.expect("it lives");
    let id = mine.retrospective().await.id;
    let store = &database.two;
    assert_eq!(store.tenants().await.expect("listing"), std::slice::from_ref(&mine.key.tenant));
    for (key, sees) in [(&mine.key, 1), (&theirs.key, 0)] {
        let tenant = &key.tenant;
        let runs = RunFilter { limit: 9, ..Default::default() };
        assert_eq!(store.runs(tenant, &runs).await.expect("runs").len(), 2 * sees);
        assert_eq!(store.ordinals(key).await.expect("ordinals").len(), 2 * sees);
        assert_eq!(store.runs_met(key, memory, None, 9).await.expect("runs met").len(), 2 * sees);
        assert_eq!(store.workflows(tenant).await.expect("workflows").len(), sees);
        let memories = MemoryFilter { limit: 9, ..Default::default() };
        assert_eq!(store.memories(tenant, &memories).await.expect("memories").len(), sees);
        assert_eq!(store.history(tenant, memory).await.expect("history").len(), 3 * sees);
        assert_eq!(store.changes(key).await.expect("changes").len(), 3 * sees);
        assert_eq!(store.tombstones(key).await.expect("tombstones").len(), sees);
        let all = store.retrospectives(tenant, None, 9).await.expect("retrospectives");
        assert_eq!(all.len(), sees);
        let one = store.retrospective(tenant, id).await.expect("retrospective");
        assert_eq!(usize::from(one.is_some()), sees);
        let report = store.report(tenant, id).await.expect("report");
        assert_eq!(usize::from(report.is_some()), sees);
    }
    let of_mine = |message: &Message| message.tenant == mine.key.tenant;
    assert!(store.unsent(100).await.expect("reading").iter().all(of_mine), "each message says whose it is");
}

/// Theirs may hold anything that they sent.
pub async fn dead_letters_keep_tenants_apart(database: &Database) {
    let mine = NewDeadLetter { tenant: Some(tenant("mine")), ..letter(1) };
    let theirs = NewDeadLetter { tenant: Some(tenant("theirs")), ..letter(2) };
    let nobodys = NewDeadLetter { tenant: None, ..letter(3) };
    for letter in [&mine, &theirs, &nobodys] {
        database.one.bury(letter).await.expect("burying");
    }
    let filter = DeadLetterFilter { limit: 9, ..Default::default() };
    for (name, own) in [("mine", &mine), ("theirs", &theirs), ("default", &nobodys)] {
        let all = database.two.dead_letters(&tenant(name), &filter).await.expect("listing");
        assert_eq!(all.iter().map(|one| &one.letter).collect::<Vec<_>>(), [own], "{name}");
        for letter in [&mine, &theirs, &nobodys] {
            let one = database.two.dead_letter(&tenant(name), letter.id()).await.expect("reading");
            assert_eq!(one.is_some(), letter == own, "{name}");
        }
    }
}

/// Another tenant's retrospective and letter answer like missing ones, and stay as they are.
pub async fn steering_keeps_tenants_apart(database: &Database) {
    let (mine, theirs) = two(database);
    let letter = fail(&mine, ["a", "b"]).await;
    assert_eq!(reopen(&theirs, letter, "eve").await, Reopened::Unknown);
    assert!(matches!(reopen(&mine, letter, "ann").await, Reopened::Now(_)));
    assert_eq!(database.two.acts(&theirs.key.tenant, letter.0).await.expect("reading"), []);
    let open = mine.retrospective().await;
    assert_eq!(cancel(&theirs, &open, "eve").await, Cancelled::Unknown);
    assert_eq!(mine.retrospective().await, open);
    assert!(matches!(cancel(&mine, &open, "ann").await, Cancelled::Now { .. }));
    assert_eq!(database.two.acts(&theirs.key.tenant, open.id.0).await.expect("reading"), []);
}

/// Another tenant's letter and batch answer like missing ones, and stay as they are.
pub async fn replaying_keeps_tenants_apart(database: &Database) {
    let (t, theirs) = (tenant("t"), tenant("theirs"));
    let id = database.one.bury(&letter(1)).await.expect("burying");
    let eve = act("eve");
    assert_eq!(database.two.replay(&theirs, id, None, &eve).await.expect("asking"), Replayed::Unknown);
    let aside = database.two.discard(&theirs, &[id], &eve).await.expect("asking");
    assert_eq!(aside, [Discarded::Unknown]);
    assert_eq!(database.two.content(&theirs, id, None).await.expect("asking"), None);
    let batch = start(database, &[id], Pace::default()).await;
    assert_eq!(database.two.batch(&theirs, batch, 9).await.expect("asking"), None);
    assert_eq!(database.two.batches(&theirs, 9).await.expect("asking"), []);
    let called_off = database.two.cancel_batch(&theirs, batch, &eve).await.expect("asking");
    assert_eq!(called_off, BatchCancelled::Unknown);
    assert!(
        database.two.batch(&t, batch, 9).await.expect("asking").is_some_and(|(row, _)| row.state.is_open())
    );
    replay(database, id, "ann").await;
    assert_eq!(database.two.replays(&theirs, id).await.expect("asking"), []);
    assert_eq!(database.two.replays(&t, id).await.expect("asking").len(), 1);
    assert!(database.two.content(&t, id, None).await.expect("asking").is_some());
}
