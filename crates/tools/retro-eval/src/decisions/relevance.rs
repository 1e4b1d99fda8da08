//! Measures whether the memory that belongs to a task comes first among those of its step, beside the order of the
//! weights alone.
//!
//! Set 02f has questions, and what an agent wrote to itself after it had failed at one. Set 04a has rules of
//! repositories, and the threads of reviews that they came from: the first comment of a thread is one task, and the file
//! with the lines it is about another. Nobody says how much such a memory weighs, so its weight is drawn by a hash of its
//! text. A task of one set among memories of the other belongs to none of them, and should leave their order as it is.
//!
//! The parameters were chosen on the half *read*; the half *unread* was only counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use retro_core::audience::Audience;
use retro_core::finding::LessonCue;
use retro_core::id::{MemoryId, Step, Workflow, derive_uuid};
use retro_core::memory::{Lesson, Memory, MemoryScope, MemoryStatus};
use retro_core::policy::Policy;
use retro_core::recall::{PreparedMemories, RecallCandidate, RecallTask, TextIndex};
use retro_core::weight::Weight;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::decisions::eval_data::{DataHalf, EvalData, read_rows};

/// Maximum number of memories of a step.
const STEP_MEMORIES_MAX: usize = 50;
/// Number of places for memories by default.
const PLACES: usize = 10;
const TITLE_CHARS: usize = 200;
const CONTENT_CHARS: usize = 1500;

/// Options of `cargo xtask eval relevance`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Maximum number of misplaced memories to show, from the half that may be read.
    #[arg(long, default_value_t = 0)]
    wrong: usize,
}

#[derive(Deserialize)]
struct ReflexionRun {
    task_id: String,
    question: String,
    reflections: Vec<String>,
}

#[derive(Deserialize)]
struct RepositoryRule {
    slug: String,
    title: String,
    description: String,
    repository: String,
    language: String,
}

#[derive(Deserialize)]
struct Discussion {
    slug: String,
    file: String,
    code_tail: String,
    comments: Vec<Comment>,
}

#[derive(Deserialize)]
struct Comment {
    body: String,
}

/// What the memory of a step is about, and its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Text {
    about: String,
    title: String,
    content: String,
}

/// A task with the memories of its step.
struct Case {
    half: DataHalf,
    task: String,
    about: String,
    memories: Vec<Text>,
}

/// Result of one order of the memories.
#[derive(Default)]
struct Ranks {
    cases: u32,
    first: u32,
    placed: u32,
    reciprocal: f64,
}

impl Ranks {
    fn add(&mut self, rank: usize) {
        self.cases += 1;
        self.first += u32::from(rank == 0);
        self.placed += u32::from(rank < PLACES);
        self.reciprocal += 1.0 / (rank + 1) as f64;
    }

    fn describe(&self) -> String {
        let cases = f64::from(self.cases.max(1));
        let percent = |part: u32| f64::from(part) * 100.0 / cases;
        format!(
            "first {:5.1} %  in the first ten {:5.1} %  mean reciprocal rank {:.2}",
            percent(self.first),
            percent(self.placed),
            self.reciprocal / cases
        )
    }
}

/// Orders the memories of every case for its task, and prints where those that belong to it stand.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runs: Vec<ReflexionRun> =
        read_rows(&options.data.set_folder("02f_reflexion")?.join("hotpotqa_runs.jsonl"))?;
    let folder = options.data.set_folder("04a_review_rules")?;
    let rules: Vec<RepositoryRule> = read_rows(&folder.join("rules.jsonl"))?;
    let threads: Vec<Discussion> = read_rows(&folder.join("discussions.jsonl"))?;
    let questions = question_cases(&runs);
    let comment = |thread: &Discussion| thread.comments.first().map(|first| first.body.clone());
    let comments = thread_cases(&rules, &threads, comment);
    let changes =
        thread_cases(&rules, &threads, |thread| Some(format!("{}\n{}", thread.file, thread.code_tail)));
    for (name, cases) in
        [("questions (02f)", &questions), ("comments (04a)", &comments), ("changes (04a)", &changes)]
    {
        print_ranks(name, cases, options.wrong);
    }
    print_foreign("comments among memories of questions", &comments, &questions);
    print_foreign("questions among rules", &questions, &comments);
    Ok(())
}

fn question_cases(runs: &[ReflexionRun]) -> Vec<Case> {
    let texts: BTreeSet<Text> = runs
        .iter()
        .flat_map(|run| run.reflections.iter().map(|text| text_of(&run.task_id, first_sentence(text), text)))
        .collect();
    let questions: BTreeMap<&str, &str> =
        runs.iter().map(|run| (run.task_id.as_str(), run.question.as_str())).collect();
    let has_text = |about: &str| texts.iter().any(|text| text.about == about);
    questions
        .into_iter()
        .filter(|(id, _)| has_text(id))
        .map(|(id, question)| build_case(id, id, question, texts.iter()))
        .collect()
}

fn thread_cases(
    rules: &[RepositoryRule],
    threads: &[Discussion],
    task: impl Fn(&Discussion) -> Option<String>,
) -> Vec<Case> {
    let by_slug: BTreeMap<&str, &RepositoryRule> =
        rules.iter().map(|rule| (rule.slug.as_str(), rule)).collect();
    let case = |thread: &Discussion| {
        let rule = by_slug.get(thread.slug.as_str())?;
        // A repository has up to eight rules in the set; those of others in its language fill the step.
        let of_language = rules.iter().filter(|other| other.language == rule.language);
        let texts: Vec<Text> =
            of_language.map(|other| text_of(&other.slug, &other.title, &other.description)).collect();
        (texts.len() > PLACES).then_some(())?;
        Some(build_case(&rule.repository, &rule.slug, &task(thread)?, texts.iter()))
    };
    threads.iter().filter_map(case).collect()
}

fn text_of(about: &str, title: &str, content: &str) -> Text {
    let cut = |text: &str, chars| text.chars().take(chars).collect::<String>();
    Text { about: about.to_owned(), title: cut(title, TITLE_CHARS), content: cut(content, CONTENT_CHARS) }
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Builds a case from the memories that are about it, and from others, drawn by a hash.
fn build_case<'t>(group: &str, about: &str, task: &str, texts: impl Iterator<Item = &'t Text>) -> Case {
    let mut memories: Vec<&Text> = texts.collect();
    memories.sort_by_key(|text| (text.about != about, Sha256::digest(format!("{about}/{}", text.content))));
    memories.truncate(STEP_MEMORIES_MAX);
    let memories = memories.into_iter().cloned().collect();
    Case { half: DataHalf::of_group(group), task: task.to_owned(), about: about.to_owned(), memories }
}

fn memory_id(text: &Text) -> MemoryId {
    MemoryId(derive_uuid("memory", &[&text.about, &text.content]))
}

/// Returns the policy under which every memory gets a place, so that the whole order is seen.
fn whole_order() -> Policy {
    let (inject_memories_max, inject_newcomers) = (STEP_MEMORIES_MAX as u32, 0);
    Policy { inject_memories_max, inject_newcomers, inject_tokens_max: u32::MAX, ..Policy::default() }
}

/// Returns the memories of these texts, and the index of the texts, which are split once and not for each task.
fn prepare(memories: &[Text]) -> (PreparedMemories, TextIndex) {
    let candidates =
        memories.iter().map(|text| RecallCandidate { memory: to_memory(text), presentations: 0 });
    let candidates: Vec<_> = candidates.collect();
    let prepared = PreparedMemories::new(candidates.clone(), &whole_order());
    let index = prepared.index_texts(&candidates);
    (prepared, index)
}

fn to_memory(text: &Text) -> Memory {
    let drawn = Sha256::digest(format!("weight/{}", text.content));
    let weight = 100 + u16::from_be_bytes([drawn[0], drawn[1]]) % 901;
    Memory {
        id: memory_id(text),
        scope: MemoryScope::Step {
            workflow: Workflow::new("eval").expect("a name"),
            step: Step::main(),
            audience: Audience::Everyone,
        },
        lesson: Lesson {
            subject: String::new(),
            title: text.title.clone(),
            content: text.content.clone(),
            cue: LessonCue::default(),
            worded_by: Some("eval".to_owned()),
        },
        status: MemoryStatus::Active,
        weight: Weight::from_thousandths(weight),
        observed_runs: 2,
        tentative_runs: Vec::new(),
        tentative_witnesses: Vec::new(),
        evidence: Vec::new(),
        quote_missing_in: None,
        cue_not_met: 0,
        contradicted_by: Vec::new(),
        quarantine: None,
        released_by: None,
        disabled_by: None,
        pinned_by: None,
        added_by: None,
        authority: None,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        changed_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// Returns the ids of the memories in the order of their places, and the time that ordering took.
fn order_ids(
    (prepared, index): &(PreparedMemories, TextIndex),
    task: Option<&str>,
) -> (Vec<MemoryId>, Duration) {
    let policy = whole_order();
    let choose = |task: Option<&RecallTask>| {
        let order = task.map(|task| prepared.order_for_task(index, task, None));
        prepared.choose(None, order.as_ref(), &policy, &str::len)
    };
    let Some(task) = task else {
        return (choose(None).memories.iter().map(|memory| memory.id).collect(), Duration::ZERO);
    };
    let began = Instant::now();
    let task = RecallTask::new(task);
    let _ = task.as_ref().map(|task| prepared.order_for_task(index, task, None).is_empty());
    let took = began.elapsed();
    (choose(task.as_ref()).memories.iter().map(|memory| memory.id).collect(), took)
}

fn print_ranks(name: &str, cases: &[Case], wrong: usize) {
    println!("{name}: {} tasks", cases.len());
    let mut times = Vec::new();
    let mut shown = 0;
    for half in [DataHalf::Read, DataHalf::Unread] {
        let (mut by_weight, mut for_task) = (Ranks::default(), Ranks::default());
        for case in cases.iter().filter(|case| case.half == half) {
            let prepared = prepare(&case.memories);
            let belonging: BTreeSet<MemoryId> =
                case.memories.iter().filter(|text| text.about == case.about).map(memory_id).collect();
            let rank = |ids: &[MemoryId]| ids.iter().position(|id| belonging.contains(id));
            let (ordered, took) = order_ids(&prepared, Some(&case.task));
            // What the gate blocks is in no order.
            let (Some(alone), Some(task)) = (rank(&order_ids(&prepared, None).0), rank(&ordered)) else {
                continue;
            };
            by_weight.add(alone);
            for_task.add(task);
            times.push(took);
            if task >= PLACES && half == DataHalf::Read && shown < wrong {
                shown += 1;
                println!("    at {task}: {:?}\n      belongs to {:?}", case.about, case.task);
            }
        }
        println!("  {half:?} ({} tasks)", for_task.cases);
        println!("    by weight    {}", by_weight.describe());
        println!("    for the task {}", for_task.describe());
    }
    times.sort_unstable();
    let at = |permille: usize| times.get(times.len() * permille / 1000).map_or(0, Duration::as_micros);
    println!("  time per task: median {} µs, 99 % {} µs", at(500), at(990));
}

/// Prints how many of the first ten by weight keep their places for tasks that none of the memories is about.
fn print_foreign(name: &str, tasks: &[Case], steps: &[Case]) {
    for half in [DataHalf::Read, DataHalf::Unread] {
        let (mut kept, mut all) = (0, 0);
        let tasks = tasks.iter().filter(|case| case.half == half);
        for (task, step) in tasks.zip(steps.iter().filter(|case| case.half == half).cycle()).take(200) {
            let prepared = prepare(&step.memories);
            let (alone, ordered) = (order_ids(&prepared, None).0, order_ids(&prepared, Some(&task.task)).0);
            kept += alone.iter().take(PLACES).filter(|id| ordered[..PLACES].contains(id)).count();
            all += PLACES;
        }
        println!("{name}, {half:?}: {:.1} % of the first ten stay", kept as f64 * 100.0 / all.max(1) as f64);
    }
}
