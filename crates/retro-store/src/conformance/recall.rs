//! Recalling, and what runs met.

use futures::future::join;
use retro_core::id::{MemoryId, MemoryRef, Step};
use retro_core::retrospective::Presented;

use super::Database;
use super::story::{LONG_S, Story, nothing, run_id, step, tenant};
use crate::{Store, Unnamed, resolve};

/// Active, heavy enough, of this step; with all that the choice needs.
pub async fn candidates_are_the_active_memories_of_the_step(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let one = story.learn("Retry at once").await;
    let two = story.learn("List the tables before anything else").await;
    let gone = story.learn("Wait 5 seconds").await;
    super::write::delete(&story, gone.id, "gone").await.expect("it lives");
    let candidates = |weight| database.two.candidates(&story.key, &PLAN, weight);
    let mut found: Vec<_> =
        candidates(100).await.expect("recalling").into_iter().map(|one| one.memory).collect();
    found.sort_by_key(|memory| memory.created_at);
    found.sort_by_key(|memory| memory.lesson.title != one.lesson.title);
    assert_eq!(found, [one.clone(), two]);
    assert_eq!(candidates(300).await.expect("recalling").len(), 2, "the threshold itself is enough");
    assert_eq!(candidates(301).await.expect("recalling"), []);
    let elsewhere = Step::new("another step").expect("a good name");
    assert_eq!(database.one.candidates(&story.key, &elsewhere, 0).await.expect("recalling"), []);
    let memory = database.two.memory(&story.key.tenant, one.id).await.expect("reading");
    assert_eq!(memory, Some(one));
}

static PLAN: std::sync::LazyLock<Step> = std::sync::LazyLock::new(step);

/// However often it is said, and by however many at once.
pub async fn a_presentation_counts_once_a_run(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let (one, two) = (story.learn("Retry at once").await.id, story.learn("Wait 5 seconds").await.id);
    let record = |run: &'static str, memories: &'static [usize]| {
        let ids: Vec<_> = memories.iter().map(|index| [one, two][*index]).collect();
        let (database, key) = (database, &story.key);
        async move {
            let (left, right) = (&database.one, &database.two);
            let run = run_id(run);
            let both =
                join(left.record_presented(key, &run, &ids), right.record_presented(key, &run, &ids)).await;
            both.0.and(both.1).expect("recording");
        }
    };
    record("r1", &[0, 1, 0]).await;
    record("r1", &[0]).await;
    record("r2", &[0]).await;
    record("r3", &[]).await;
    let found = database.one.candidates(&story.key, &PLAN, 0).await.expect("recalling");
    let presentations = |id| found.iter().find(|one| one.memory.id == id).expect("a candidate").presentations;
    assert_eq!((presentations(one), presentations(two)), (2, 1));
}

/// Read before presented, after, and without; what stands is their union, and only a presentation counts as one.
pub async fn reading_is_remembered_with_and_without_a_presentation(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let ids = [story.learn("Retry at once").await.id, story.learn("Wait 5 seconds").await.id];
    let only_read = story.learn("List the tables before anything else").await.id;
    let run = run_id("met");
    let store = &database.one;
    store.record_read(&story.key, &run, ids[0]).await.expect("recording");
    store.record_presented(&story.key, &run, &ids).await.expect("recording");
    store.record_read(&story.key, &run, ids[1]).await.expect("recording");
    store.record_read(&story.key, &run, ids[1]).await.expect("recording");
    store.record_read(&story.key, &run, only_read).await.expect("recording");
    let found = store.candidates(&story.key, &PLAN, 0).await.expect("recalling");
    let mut told: Vec<_> = found.iter().map(|one| (one.memory.id, one.presentations)).collect();
    told.sort_unstable();
    let mut expected = vec![(ids[0], 1), (ids[1], 1), (only_read, 0)];
    expected.sort_unstable();
    assert_eq!(told, expected);
    story.count(&["met", "another"]).await;
    story.sample().await;
    for _ in 0..2 {
        let claim = story.claim(LONG_S).await;
        let met = claim.run.run_id == run;
        let all: Vec<_> = expected.iter().map(|(memory, _)| Presented::own(*memory, true)).collect();
        assert_eq!(claim.presented, if met { all } else { Vec::new() });
        story.finish(&claim, &nothing()).await.expect("finishing");
    }
}

/// An agent may name anything.
pub async fn a_memory_of_another_workflow_is_not_recorded(database: &Database) {
    let (story, other) = (Story::new(&*database.one, "t", "w"), Story::new(&*database.one, "t", "v"));
    let memory = story.learn("Retry at once").await.id;
    let run = run_id("a");
    database.one.record_presented(&other.key, &run, &[memory]).await.expect("nothing happens");
    database.one.record_read(&other.key, &run, memory).await.expect("nothing happens");
    let found = database.one.candidates(&story.key, &PLAN, 0).await.expect("recalling");
    assert_eq!(found[0].presentations, 0);
    other.count(&["a", "b"]).await;
    other.sample().await;
    for _ in 0..2 {
        let claim = other.claim(LONG_S).await;
        assert_eq!((claim.presented.len(), claim.memories.len()), (0, 0));
        other.finish(&claim, &nothing()).await.expect("finishing");
    }
}

/// The memory that these first digits of an id mean, as tenant `t`.
async fn meant(store: &dyn Store, text: &str) -> Result<MemoryId, Unnamed> {
    resolve(store, &tenant("t"), name(text)).await.expect("naming")
}

pub(super) fn name(text: &str) -> MemoryRef {
    text.parse().expect("enough digits")
}

/// However much of the id is given, and whatever became of the memory.
pub async fn a_short_name_means_the_one_memory_that_begins_so(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    let (id, other) = (story.learn("Retry at once").await.id, story.learn("Wait 5 seconds").await.id);
    super::write::delete(&story, other, "gone").await.expect("it lives");
    for id in [id, other] {
        let text = id.to_string();
        for digits in [id.short(), text[..12].to_owned(), text[..35].to_owned(), text.clone()] {
            assert_eq!(meant(&*database.two, &digits).await, Ok(id), "{digits}");
        }
        assert_eq!(database.two.named(&tenant("t"), id.into()).await.expect("naming"), [id]);
    }
    let nobodys = MemoryId(retro_core::id::derive("nobody's", &[]));
    let missing = Err(Unnamed::Missing(name(&nobodys.short())));
    assert_eq!(meant(&*database.two, &nobodys.short()).await, missing);
    // Its neighbours on either side begin otherwise.
    let digits = id.0.as_u128() >> 96;
    for next in [digits - 1, digits + 1].map(|digits| format!("{digits:08x}")) {
        assert_eq!(meant(&*database.two, &next).await, Err(Unnamed::Missing(name(&next))));
    }
}

/// The first memories of these two workflows of tenant `t` have ids that begin alike.
const ALIKE: [&str; 2] = ["w23234", "w116783"];

/// One digit more, and each is meant alone.
pub async fn a_short_name_of_several_memories_asks_for_more_digits(database: &Database) {
    let mut ids = Vec::new();
    for workflow in ALIKE {
        ids.push(Story::new(&*database.one, "t", workflow).learn("Retry at once").await.id);
    }
    let short = ids[0].short();
    assert_eq!(short, ids[1].short(), "the case is about nothing");
    assert_eq!(meant(&*database.two, &short).await, Err(Unnamed::Ambiguous(name(&short))));
    for id in &ids {
        assert_eq!(meant(&*database.two, &id.to_string()[..10]).await, Ok(*id));
    }
    ids.sort_unstable();
    assert_eq!(database.two.named(&tenant("t"), name(&short)).await.expect("naming"), ids);
}
