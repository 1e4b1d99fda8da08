//! Measures how long a writer takes to compare findings with many memories: `comparing [MEMORIES]`. Ten findings are
//! compared with that number of memories and of tombstones of their step. Each time is also printed relative to embedding
//! the same texts once in the same run, so that results of different machines are comparable.
#![expect(clippy::print_stdout, reason = "the example prints its results to a terminal")]

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use retro_core::finding::{EvidenceOrigin, Finding, FindingKind, LessonCue, Quote};
use retro_core::id::{MemoryId, MutationId, RetrospectiveId, RunId, Step, WorkflowKey};
use retro_core::id::{Tenant, Workflow};
use retro_core::learn::{Mutation, MutationKind, WriterFacts, apply_mutations};
use retro_core::memory::{Memory, Tombstone};
use retro_core::policy::Policy;
use retro_core::similarity::{Embedder, KnownVectors, NgramEmbedder, SimilarityScale};
use retro_core::trajectory::QuotePlace;

/// Findings of one retrospective.
const FINDINGS: u32 = 10;
/// Dimensions of the vectors of a small embedding model.
const COMPONENTS: usize = 384;
/// Repetitions of each measurement; the shortest time is printed.
const TIMES: usize = 5;
const WORDS: &[&str] = &[
    "retry",
    "list",
    "tables",
    "query",
    "schema",
    "deploy",
    "region",
    "payment",
    "cancel",
    "booking",
    "confirm",
    "passenger",
    "refund",
    "before",
    "after",
    "columns",
    "join",
    "index",
    "timeout",
    "branch",
    "merge",
    "review",
    "logging",
    "metric",
    "container",
    "credentials",
    "rotate",
    "policy",
    "invoice",
    "seat",
];

fn main() {
    let many = std::env::args().nth(1).and_then(|many| many.parse().ok()).unwrap_or(10_000);
    let facts = build_facts(many);
    let batch: Vec<_> = (0..FINDINGS)
        .map(|number| observe_mutation(number, random_title(u64::from(number) + 7_000_000)))
        .collect();
    let texts: Vec<String> = facts.memories.iter().map(|memory| memory.lesson.title.clone()).collect();
    let stones = facts.tombstones.iter().map(|stone| stone.lesson.title.clone());
    let texts: Vec<String> = texts
        .into_iter()
        .chain(stones)
        .chain((0..FINDINGS).map(|number| random_title(u64::from(number) + 7_000_000)))
        .collect();
    let once = shortest_time(|| {
        texts.iter().filter_map(|text| NgramEmbedder.embed(text)).map(|vector| vector.len()).sum::<usize>()
    });
    println!("{many} memories and tombstones, {FINDINGS} findings");
    println!("embedding {} texts once: {:.0} ms", texts.len(), once * 1000.0);
    let vectors: BTreeMap<_, _> =
        texts.iter().enumerate().map(|(nth, text)| (text.clone(), Some(random_vector(nth as u64)))).collect();
    let scale = SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 };
    let known = KnownVectors { name: "drawn@384".into(), scale, vectors };
    let print_time = |name: &str, embedder: &dyn Embedder| {
        let took = shortest_time(|| apply_mutations(facts.clone(), &batch, embedder).changes.len());
        println!("applying by {name}: {:.0} ms, {:.2} of that", took * 1000.0, took / once);
    };
    print_time("ngram-2", &NgramEmbedder);
    print_time("a model of 384", &known);
}

fn shortest_time<T>(mut act: impl FnMut() -> T) -> f64 {
    let times = (0..TIMES).map(|_| {
        let began = Instant::now();
        std::hint::black_box(act());
        began.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Returns a pseudo-random number that is the same on every machine.
fn random_number(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn random_title(seed: u64) -> String {
    let word = |nth: u64| WORDS[(random_number(seed * 16 + nth) % WORDS.len() as u64) as usize];
    (0..8).map(word).collect::<Vec<_>>().join(" ")
}

fn random_vector(seed: u64) -> Vec<i32> {
    (0..COMPONENTS as u64).map(|nth| (random_number(seed * 1000 + nth) % 1000) as i32 - 500).collect()
}

fn observe_mutation(number: u32, title: String) -> Mutation {
    let retrospective = RetrospectiveId::of_epoch(&key(), 1);
    let finding = Finding {
        kind: FindingKind::SelfFeedback,
        step: Step::main(),
        subject: "sh".into(),
        title,
        content: String::new(),
        cue: LessonCue::default(),
        quote: Quote { place: QuotePlace::Message { turn: 0 }, text: "words".into() },
        contradicts: None,
        origin: EvidenceOrigin::default(),
    };
    let memory = MemoryId::of_finding(retrospective, number, 0);
    let run = RunId::new(format!("run-{number}")).expect("a name");
    Mutation {
        id: MutationId::of_investigation(retrospective, "observe", number, 0),
        request: MutationKind::Observe { memory, run, finding, no_lesson: None, support: None },
    }
}

fn key() -> WorkflowKey {
    WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("speed").expect("a name") }
}

fn build_facts(many: u32) -> WriterFacts {
    let key = key();
    let as_of = "2026-01-01T00:00:00Z".parse().expect("a moment");
    let mut facts = WriterFacts {
        retrospective: RetrospectiveId::of_epoch(&key, 1),
        key,
        epoch: 1,
        previous_epoch: None,
        as_of,
        policy: Policy::default(),
        pipeline: None,
        memories: Vec::new(),
        tombstones: Vec::new(),
        applied: HashSet::new(),
        feedback: Vec::new(),
    };
    let first =
        apply_mutations(facts.clone(), &[observe_mutation(1_000_000, random_title(0))], &NgramEmbedder)
            .memories
            .remove(0);
    let other = |number: u32| {
        let mut memory = Memory { id: MemoryId::of_finding(facts.retrospective, number, 1), ..first.clone() };
        memory.lesson.title = random_title(u64::from(number));
        memory
    };
    let stone = |number: u32| {
        let Memory { id, scope, lesson, .. } = other(number);
        Tombstone {
            memory: id,
            scope,
            lesson,
            until: "2027-01-01T00:00:00Z".parse().expect("a moment"),
            reason: "wrong".into(),
        }
    };
    let (memories, tombstones) = ((0..many).map(other).collect(), (many..2 * many).map(stone).collect());
    facts.memories = memories;
    facts.tombstones = tombstones;
    facts
}
