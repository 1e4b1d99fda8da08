//! A task decides in which order eligible memories get their places, and nothing else.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use std::ops::Deref;

use retro_core::id::{MemoryId, RunId, derive_uuid};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::policy::Policy;
use retro_core::recall::{
    FoundKind, FoundMemories, PreparedMemories, Recall, RecallCandidate, RecallTask, TASK_BYTES_MAX,
    TaskVectors, TextIndex, is_withheld,
};
use retro_core::similarity::SimilarityScale;
use retro_core::weight::Weight;

use crate::cases;
use crate::world::World;

/// Words of which titles, contents and tasks are made, so that they have some in common.
const WORDS: &[&str] = &[
    "deploy",
    "region",
    "checkout",
    "`deploy_service`",
    "src/app.rs",
    "migration",
    "retry",
    "timeout",
    "cache",
    "use",
    "the",
    "E1054",
];

/// A candidate in words that say how it differs from the others.
#[derive(Debug, Clone)]
struct Drawn {
    words: Vec<&'static str>,
    weight: u16,
    presentations: u64,
    fate: Fate,
}

/// What may speak against a memory, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Eligible,
    Disabled,
    Held,
    Tentative,
}

fn texts() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(WORDS), 1..8)
}

fn candidates() -> impl Strategy<Value = Vec<Drawn>> {
    let fates =
        vec![Fate::Eligible, Fate::Eligible, Fate::Eligible, Fate::Disabled, Fate::Held, Fate::Tentative];
    let one = (texts(), 0u16..=1000, 0u64..4, prop::sample::select(fates));
    let drawn =
        one.prop_map(|(words, weight, presentations, fate)| Drawn { words, weight, presentations, fate });
    prop::collection::vec(drawn, 0..24)
}

fn to_candidate((nth, drawn): (usize, &Drawn)) -> RecallCandidate {
    let mut world = World::new();
    world.add_active("A", drawn.weight);
    let mut memory: Memory = world.named("A").clone();
    memory.id = MemoryId(derive_uuid("memory", &[&nth.to_string()]));
    memory.lesson.title = format!("Note {nth}: {}", drawn.words.join(" "));
    memory.lesson.content.clone_from(&memory.lesson.title);
    match drawn.fate {
        Fate::Eligible => {}
        Fate::Disabled => memory.disabled_by = Some("ann".to_owned()),
        Fate::Held => memory.quarantine = Some("a person decides".to_owned()),
        Fate::Tentative => memory.status = MemoryStatus::Tentative,
    }
    RecallCandidate { memory, presentations: drawn.presentations }
}

/// Memories with the index of their texts.
struct Indexed {
    memories: PreparedMemories,
    index: TextIndex,
}

impl Deref for Indexed {
    type Target = PreparedMemories;

    fn deref(&self) -> &PreparedMemories {
        &self.memories
    }
}

fn prepare(drawn: &[Drawn]) -> Indexed {
    index(&drawn.iter().enumerate().map(to_candidate).collect::<Vec<_>>())
}

fn index(candidates: &[RecallCandidate]) -> Indexed {
    let memories = PreparedMemories::new(candidates.to_vec(), &Policy::default());
    let index = memories.index_texts(candidates);
    Indexed { memories, index }
}

fn choose(prepared: &Indexed, run: Option<&RunId>, task: Option<&RecallTask>, policy: &Policy) -> Recall {
    let order = task.map(|task| prepared.order_for_task(&prepared.index, task, None));
    prepared.choose(run, order.as_ref(), policy, &|text| text.split_whitespace().count())
}

fn ids(recall: &Recall) -> Vec<MemoryId> {
    recall.memories.iter().map(|memory| memory.id).collect()
}

/// Returns the policy under which every eligible memory gets a place.
fn all_places() -> Policy {
    Policy { inject_memories_max: 100, inject_tokens_max: 100_000, inject_newcomers: 0, ..Policy::default() }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn a_task_permutes_what_is_eligible(drawn in candidates(), task in ".{0,200}", words in texts()) {
        let prepared = prepare(&drawn);
        let eligible: BTreeSet<_> = ids(&choose(&prepared, None, None, &all_places())).into_iter().collect();
        for text in [task, words.join(" ")] {
            let Some(task) = RecallTask::new(&text) else { continue };
            let ordered = choose(&prepared, None, Some(&task), &all_places());
            prop_assert_eq!(ids(&ordered).into_iter().collect::<BTreeSet<_>>(), eligible.clone());
            prop_assert_eq!(ordered.memories.len(), eligible.len(), "each of them once");
        }
    }

    #[test]
    fn no_text_lifts_what_is_not_eligible(drawn in candidates()) {
        let prepared = prepare(&drawn);
        let eligible = |id: MemoryId| drawn.iter().enumerate().map(|one| (one.1, to_candidate(one).memory)).any(
            |(drawn, memory)| memory.id == id && drawn.fate == Fate::Eligible && drawn.weight >= 100,
        );
        for one in &drawn {
            // The very words of a memory.
            let task = RecallTask::new(&one.words.join(" "));
            let Some(task) = &task else { continue };
            let recall = choose(&prepared, None, Some(task), &Policy::default());
            prop_assert!(ids(&recall).into_iter().all(eligible));
            let order = prepared.order_for_task(&prepared.index, task, None);
            let found = prepared.find_about(&order, FoundKind::Memory, None, 0);
            prop_assert!(found.iter().all(|found| eligible(found.memory.id)));
        }
    }

    #[test]
    fn a_heavier_memory_is_never_behind_where_it_was(
        drawn in candidates(), words in texts(), nth in any::<prop::sample::Index>(), more in 1u16..500,
    ) {
        prop_assume!(!drawn.is_empty());
        let nth = nth.index(drawn.len());
        let mut heavier = drawn.clone();
        heavier[nth].weight = (heavier[nth].weight + more).min(1000);
        let Some(task) = RecallTask::new(&words.join(" ")) else { return Ok(()) };
        let id = to_candidate((nth, &drawn[nth])).memory.id;
        let rank = |drawn: &[Drawn]| {
            ids(&choose(&prepare(drawn), None, Some(&task), &all_places())).iter().position(|one| *one == id)
        };
        // A memory that becomes heavy enough is new among the others, and changes what they have in common.
        if let Some(before) = rank(&drawn) {
            prop_assert!(rank(&heavier).is_some_and(|after| after <= before));
        }
    }

    #[test]
    fn places_tokens_chance_and_newcomers_are_as_without_a_task(drawn in candidates(), words in texts()) {
        let prepared = prepare(&drawn);
        let run = RunId::new("run-1").unwrap();
        let policy = Policy { withhold_permille: 300, inject_memories_max: 6, inject_tokens_max: 90, ..Policy::default() };
        let Some(task) = RecallTask::new(&words.join(" ")) else { return Ok(()) };
        let (without, with) =
            (choose(&prepared, Some(&run), None, &policy), choose(&prepared, Some(&run), Some(&task), &policy));
        prop_assert!(with.tokens <= policy.inject_tokens_max && with.memories.len() <= 6);
        prop_assert_eq!(with.blocked, without.blocked);
        let eligible = |recall: &Recall| recall.memories.len() + recall.withheld() + recall.omitted as usize;
        prop_assert_eq!(eligible(&with), eligible(&without));
        let newcomers = |recall: &Recall| recall.memories.iter().filter(|memory| memory.newcomer).count();
        prop_assert!(newcomers(&with) <= policy.inject_newcomers as usize);
        let everybody = choose(&prepared, None, None, &all_places());
        let left = everybody.memories.iter().filter(|memory| !is_withheld(memory.id, &run, 300)).count();
        prop_assert!(with.memories.len() == left || newcomers(&with) > 0 || with.memories.len() < 2);
        for assignment in &with.assignments {
            prop_assert_eq!(assignment.withheld, is_withheld(assignment.memory, &run, 300));
            prop_assert_eq!(assignment.withheld, !ids(&with).contains(&assignment.memory));
        }
        prop_assert!(without.memories.iter().all(|memory| memory.because.is_none()));
        prop_assert!(with.memories.iter().all(|memory| memory.because.is_some()));
        prop_assert_eq!(&choose(&prepared, Some(&run), Some(&task), &policy), &with, "the same again");
    }

    #[test]
    fn a_search_leaves_out_what_is_withheld_and_says_so(drawn in candidates(), words in texts(), limit in 1usize..6) {
        let prepared = prepare(&drawn);
        let run = RunId::new("run-1").unwrap();
        let Some(task) = RecallTask::new(&words.join(" ")) else { return Ok(()) };
        let order = prepared.order_for_task(&prepared.index, &task, None);
        let search = |run| FoundMemories::take_best(prepared.find_about(&order, FoundKind::Memory, run, 300), limit);
        let (all, of_run) = (search(None), search(Some(&run)));
        prop_assert!(all.assignments.is_empty() && all.found.len() <= limit);
        prop_assert!(of_run.found.is_sorted_by(|one, other| one.score >= other.score));
        let handed: Vec<_> = of_run.found.iter().map(|one| one.memory.id).collect();
        for assignment in &of_run.assignments {
            prop_assert_eq!(assignment.withheld, !handed.contains(&assignment.memory));
        }
        // Whatever anybody else would find is found, or withheld from this run.
        for one in &all.found {
            let decided = of_run.assignments.iter().any(|assignment| assignment.memory == one.memory.id);
            prop_assert!(decided, "{:?}", one);
        }
    }
}

#[test]
fn a_repeated_request_gets_the_same_list_with_the_same_reasons() {
    let drawn: Vec<Drawn> = (0..24)
        .map(|nth| Drawn {
            words: vec![WORDS[nth % WORDS.len()], "note"],
            weight: 100 + nth as u16 * 30,
            presentations: 1,
            fate: Fate::Eligible,
        })
        .collect();
    let (prepared, run, policy) = (prepare(&drawn), RunId::new("run-1").unwrap(), Policy::default());
    let task = RecallTask::new("Write the migration").unwrap();
    let order = prepared.order_for_task(&prepared.index, &task, None);
    let count = |text: &str| text.split_whitespace().count();
    let first = prepared.choose(Some(&run), Some(&order), &policy, &count);
    assert!(first.memories[0].title.contains("migration"), "{first:?}");
    let again = prepared.choose_again(&(&first).into(), &run, Some(&order), &policy, &count);
    assert_eq!(again, first);
}

#[test]
fn a_task_without_a_word_is_none_and_a_long_one_is_cut_between_characters() {
    assert!(RecallTask::new(" \n - … the").is_none());
    let long = "ü".repeat(TASK_BYTES_MAX);
    let task = RecallTask::new(&format!("a migration {long}")).unwrap();
    assert!(task.text().len() <= TASK_BYTES_MAX && task.text().ends_with('ü'));
}

#[test]
fn vectors_of_another_embedder_decide_where_words_do_not() {
    let drawn = |words, weight| Drawn { words, weight, presentations: 0, fate: Fate::Eligible };
    let prepared = prepare(&[drawn(vec!["cache"], 500), drawn(vec!["region"], 300)]);
    let task = RecallTask::new("Publish to Frankfurt").unwrap();
    let titles: Vec<String> = prepared.compared_titles().map(str::to_owned).collect();
    let vectors = titles.iter().cloned().zip([[0, 9].into(), [9, 1].into()]).collect();
    let scale = SimilarityScale { contradiction: 300, tombstone: 500, merge: 700 };
    let vectors = TaskVectors { scale, task: [9, 0].into(), memories: vectors };
    let first = |vectors| {
        let order = prepared.order_for_task(&prepared.index, &task, vectors);
        prepared.choose(None, Some(&order), &Policy::default(), &str::len).memories.remove(0).title
    };
    assert!(first(None).contains("cache"), "by weight alone");
    assert!(first(Some(&vectors)).contains("region"));
}

/// The figures of the gateway's page come from a release build. The bound is that of a build without optimisation, on a
/// machine that does something else, too.
#[test]
fn ordering_fifty_memories_takes_little_time() {
    let sentence =
        "When `deploy_service` answers “ERROR 1054 missing region”, pass --region as in src/app.rs. ";
    let candidate = |nth: usize| {
        let mut candidate = to_candidate((
            nth,
            &Drawn { words: vec!["deploy"], weight: 300, presentations: 0, fate: Fate::Eligible },
        ));
        let other = ["checkout", "billing", "search", "mail", "audit"][nth % 5];
        candidate.memory.lesson.title = format!("{sentence}Number {nth} of {other}.");
        candidate.memory.lesson.content = format!("{} {other} {nth}", sentence.repeat(6));
        candidate.memory.weight = Weight::from_thousandths(300);
        candidate
    };
    let prepared = index(&(0..50).map(candidate).collect::<Vec<_>>());
    for (name, repeated) in [("a sentence", 1), ("a paragraph", 8), ("4 KiB", 60)] {
        let text =
            "Deploy the billing service to the region in src/app.rs, after its migration. ".repeat(repeated);
        let measure = |_| {
            let began = Instant::now();
            let task = RecallTask::new(&text).unwrap();
            let prepared_in = began.elapsed();
            assert!(!prepared.order_for_task(&prepared.index, &task, None).is_empty());
            (began.elapsed(), prepared_in)
        };
        let (took, of_task) = (0..50).map(measure).min().unwrap();
        println!("{name}: {} µs, of which {} for the task", took.as_micros(), of_task.as_micros());
        assert!(took < Duration::from_millis(30), "{name}: {took:?}");
    }
}
