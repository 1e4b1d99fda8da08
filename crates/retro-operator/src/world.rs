//! A small world in memory for the tests of this crate. What stands in it came out of the core's own decisions: runs
//! are counted, sampled, investigated in sequence, settled and closed; only the answers of the investigators are
//! made up.

mod books;
mod shelf;

use jiff::{SignedDuration, Timestamp};
use retro_core::canonical::content_hash;
use retro_core::count::{self, Arrival, Facts};
use retro_core::finding::{Checked, Cue, Finding, FindingKind, MemoryVerdict, Quote, Verdict};
use retro_core::id::{EventKey, MemoryId, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::investigate::{Next, next};
use retro_core::learn::{ClosingFacts, Timing, WriterFacts, close, delete_by_operator, settle};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::policy::Policy;
use retro_core::report::{Report, WindowRun};
use retro_core::retrospective::{
    Investigation, InvestigationResult, Opening, Presented, Retrospective, State,
};
use retro_core::run::{BodyRef, Outcome, RunFacts};
use retro_core::sample::{Sample, draw};
use retro_core::similar::NgramEmbedder;
use retro_core::trajectory::Place;
use retro_store::track::RunLink;
use retro_store::{Attempt, DeadLetter, ProposalRow, RunRow, WorkflowRow};

/// Everything that is stored. Tests damage it by hand.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) workflows: Vec<WorkflowRow>,
    pub(crate) runs: Vec<RunRow>,
    pub(crate) memories: Vec<(Tenant, Memory)>,
    pub(crate) changes: Vec<(WorkflowKey, Change)>,
    pub(crate) tombstones: Vec<(WorkflowKey, Tombstone)>,
    pub(crate) retrospectives: Vec<Retrospective>,
    pub(crate) details: Vec<(Sample, Vec<Investigation>)>,
    pub(crate) reports: Vec<Report>,
    pub(crate) letters: Vec<DeadLetter>,
    /// What became of the attempts at each of them.
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) proposals: Vec<(Tenant, ProposalRow)>,
    /// Runs behind pull requests, by run, workflow and pull request.
    pub(crate) links: Vec<RunLink>,
    /// Set by a test to have a port see something halfway, once.
    pub(crate) glimpse: std::sync::Mutex<Option<Memory>>,
    /// How many pages were asked for.
    pub(crate) pages: std::sync::atomic::AtomicU64,
}

pub(crate) fn key(tenant: &str, workflow: &str) -> WorkflowKey {
    WorkflowKey { tenant: Tenant::new(tenant).unwrap(), workflow: Workflow::new(workflow).unwrap() }
}

/// Midnight of 2026-11-20, and an hour for each epoch.
pub(crate) fn hour(n: i64) -> Timestamp {
    Timestamp::from_second(1_795_132_800).unwrap() + SignedDuration::from_hours(n)
}

impl World {
    /// Counts ten more runs, which opens the next retrospective, and carries it through: `answer` says what the
    /// investigator of that place in the sequence brings back.
    pub(crate) fn season(
        &mut self,
        key: &WorkflowKey,
        answer: &dyn Fn(&Self, u32) -> InvestigationResult,
    ) -> Report {
        let opening = self.count_ten(key);
        let retrospective = opening.retrospective;
        let window: Vec<_> = (retrospective.first..=retrospective.last).collect();
        let sample = draw(retrospective.id, window, &retrospective.policy);
        let investigations = self.investigate(&retrospective, &sample, answer);
        self.retrospectives.push(Retrospective { state: State::Settling, ..retrospective });
        self.details.push((sample, investigations));
        self.close()
    }

    fn count_ten(&mut self, key: &WorkflowKey) -> Opening {
        let at = self.workflows.iter().position(|row| row.key == *key).unwrap_or_else(|| {
            let state = Default::default();
            self.workflows.push(WorkflowRow { key: key.clone(), state, recorded: 0 });
            self.workflows.len() - 1
        });
        let state = self.workflows[at].state.clone();
        let counted = state.counted;
        let arrivals: Vec<_> = (counted + 1..=counted + 10).map(|n| arrival(key, n)).collect();
        let facts = Facts { workflows: [(key.clone(), state)].into(), ..Facts::default() };
        let now = hour(i64::try_from(counted / 10).unwrap());
        let mut effects = count::decide(facts, &arrivals, &Policy::default(), now);
        self.workflows[at].state = effects.workflows.remove(key).unwrap();
        self.workflows[at].recorded += 10;
        for (arrival, counted) in arrivals.into_iter().zip(effects.counted) {
            let (facts, body) = (arrival.run, BodyRef::Stored);
            let key = key.clone();
            self.runs.push(RunRow { key, ordinal: counted.ordinal, facts, body, received_at: now });
        }
        effects.opened.remove(0)
    }

    fn investigate(
        &self,
        retrospective: &Retrospective,
        sample: &Sample,
        answer: &dyn Fn(&Self, u32) -> InvestigationResult,
    ) -> Vec<Investigation> {
        let mut ended: Vec<Investigation> = Vec::new();
        loop {
            let results: Vec<_> = ended.iter().filter_map(|one| one.result.clone()).collect();
            let Next::Investigate { number, at, replacement } = next(sample, &results) else {
                return ended;
            };
            let ordinal = sample.order[at as usize];
            let of = |row: &&RunRow| row.key == retrospective.key && row.ordinal == Some(ordinal);
            let run = self.runs.iter().find(of).unwrap().facts.run_id.clone();
            let result = Some(answer(self, number));
            ended.push(Investigation { number, ordinal, run, replacement, result });
        }
    }

    fn close(&mut self) -> Report {
        let retrospective = self.retrospectives.last().unwrap().clone();
        let (sample, investigations) = self.details.last().unwrap().clone();
        let key = retrospective.key.clone();
        let at = self.workflows.iter().position(|row| row.key == key).unwrap();
        let batch = settle(retrospective.id, &investigations);
        let timing = |one: &Investigation| Timing {
            attempts: if one.result.as_ref().unwrap().success() { 1 } else { 3 },
            duration_ms: 40 + u64::from(one.number),
            cost_usd: 0.0,
        };
        let facts = ClosingFacts {
            history: Default::default(),
            window: self.window(&retrospective),
            timings: investigations.iter().map(timing).collect(),
            writer: self.writer_facts(&retrospective),
            state: self.workflows[at].state.clone(),
            retrospective: retrospective.clone(),
            sample,
            investigations,
            batch,
        };
        let now = retrospective.as_of + SignedDuration::from_mins(5);
        let closing = close(facts, &NgramEmbedder, &Policy::default(), now);
        self.workflows[at].state = closing.state;
        self.retrospectives.last_mut().unwrap().state = closing.retrospective;
        self.changes.extend(closing.applied.changes.into_iter().map(|change| (key.clone(), change)));
        self.tombstones.extend(closing.applied.tombstones.into_iter().map(|stone| (key.clone(), stone)));
        for memory in closing.applied.memories {
            self.put(&key, memory);
        }
        self.reports.push(closing.report.clone());
        closing.report
    }

    fn window(&self, retrospective: &Retrospective) -> Vec<WindowRun> {
        let within = retrospective.first..=retrospective.last;
        let ours = self.runs.iter().filter(|row| row.key == retrospective.key);
        ours.filter_map(|row| {
            let ordinal = row.ordinal.filter(|ordinal| within.contains(ordinal))?;
            Some(WindowRun {
                ordinal,
                run: row.facts.run_id.clone(),
                outcome: row.facts.outcome,
                pull_requests: Vec::new(),
            })
        })
        .collect()
    }

    fn writer_facts(&self, retrospective: &Retrospective) -> WriterFacts {
        let key = &retrospective.key;
        let ours = |owner: &WorkflowKey| owner == key;
        let changes = self.changes.iter().filter(|(owner, _)| ours(owner));
        WriterFacts {
            key: key.clone(),
            retrospective: retrospective.id,
            epoch: retrospective.epoch,
            previous_epoch: retrospective.epoch.checked_sub(1).filter(|epoch| *epoch > 0),
            as_of: retrospective.as_of,
            policy: retrospective.policy.clone(),
            memories: self
                .memories
                .iter()
                .filter(|(tenant, memory)| {
                    *tenant == key.tenant && memory.scope.workflow() == Some(&key.workflow)
                })
                .map(|(_, memory)| memory.clone())
                .collect(),
            tombstones: self
                .tombstones
                .iter()
                .filter(|(owner, _)| ours(owner))
                .map(|(_, stone)| stone.clone())
                .collect(),
            applied: changes
                .filter(|(_, change)| change.retrospective == Some(retrospective.id))
                .map(|(_, change)| change.id)
                .collect(),
        }
    }

    /// A person deletes a memory.
    pub(crate) fn delete(&mut self, key: &WorkflowKey, id: MemoryId, reason: &str) {
        let memory = self.memory(id).clone();
        let (change, memory, stone) =
            delete_by_operator(key, &memory, "request-1", reason, hour(1), &Policy::default()).unwrap();
        self.changes.push((key.clone(), change));
        self.tombstones.push((key.clone(), stone));
        self.put(key, memory);
    }

    fn put(&mut self, key: &WorkflowKey, memory: Memory) {
        match self.memories.iter_mut().find(|(_, old)| old.id == memory.id) {
            Some((_, old)) => *old = memory,
            None => self.memories.push((key.tenant.clone(), memory)),
        }
    }

    pub(crate) fn memory(&self, id: MemoryId) -> &Memory {
        &self.memories.iter().find(|(_, memory)| memory.id == id).unwrap().1
    }

    /// The memory of workflow `key` about this error.
    pub(crate) fn about(&self, error: &str) -> MemoryId {
        let found =
            self.memories.iter().find(|(_, memory)| memory.lesson.cue.error.as_deref() == Some(error));
        found.unwrap_or_else(|| panic!("no memory about {error}")).1.id
    }
}

fn arrival(key: &WorkflowKey, n: u64) -> Arrival {
    let run_id = RunId::new(format!("run-{n:02}")).unwrap();
    let outcome = if n.is_multiple_of(3) { Outcome::Failure } else { Outcome::Success };
    let run: RunFacts =
        serde_json::from_value(serde_json::json!({"run_id": run_id, "outcome": outcome})).unwrap();
    let event = EventKey { tenant: key.tenant.clone(), source: "test".to_owned(), id: run_id.to_string() };
    let content_hash = content_hash(&serde_json::to_value(&run).unwrap());
    Arrival { event, key: key.clone(), content_hash, run }
}

/// A repair of calls of `mysql` that fail with `error`.
pub(crate) fn finding(error: &str) -> Finding {
    Finding {
        kind: FindingKind::Repair,
        step: Step::main(),
        subject: "mysql".to_owned(),
        title: format!("When `mysql` answers “{error}”, list the columns before selecting"),
        content: format!("A call failed with “{error}”; the same call after DESCRIBE succeeded."),
        cue: Cue {
            tool: Some("mysql".to_owned()),
            error: Some(error.to_owned()),
            avoid: None,
            prefer: Some("DESCRIBE".to_owned()),
        },
        quote: quote(&format!("ERROR 1054 (42S22): {error}")),
        contradicts: None,
    }
}

pub(crate) fn quote(text: &str) -> Quote {
    Quote { place: Place::Answer { turn: 3, call: 0 }, text: text.to_owned() }
}

pub(crate) fn contradicting(error: &str, memory: MemoryId) -> Finding {
    Finding { contradicts: Some(memory), ..finding(error) }
}

/// A verdict on a memory, with a quote unless its cue never came up.
pub(crate) fn verdict(memory: MemoryId, verdict: Verdict, reason: &str) -> MemoryVerdict {
    let quote = (verdict != Verdict::CueNotMet).then(|| quote("DESCRIBE orders"));
    MemoryVerdict { memory, verdict, reason: reason.to_owned(), quote }
}

/// An investigation that found these, with verdicts on memories that were all presented.
pub(crate) fn looked(findings: Vec<Finding>, verdicts: Vec<MemoryVerdict>) -> InvestigationResult {
    let presented = verdicts.iter().map(|said| Presented::own(said.memory, false)).collect();
    let nothing = findings.is_empty();
    let checked = Checked { findings, verdicts, dropped: u32::from(nothing), ..Checked::default() };
    if nothing {
        InvestigationResult::Nothing { checked, presented }
    } else {
        InvestigationResult::Found { checked, presented }
    }
}

/// A world in which everything that a report tells has happened by its third retrospective.
pub(crate) fn rich() -> World {
    let mut world = World::default();
    let shop = key("default", "shop");
    let errors = ["unknown column", "no table", "syntax", "lock", "timeout"];
    world.season(&shop, &|_, number| match number {
        1 | 2 => looked(errors.map(finding).into(), vec![]),
        3 => looked(vec![finding("once only")], vec![]),
        _ => looked(vec![], vec![]),
    });
    world.delete(&shop, world.about("timeout"), "it is about a server that is gone");
    world.season(&shop, &|world, number| match number {
        1 => looked(
            vec![],
            vec![verdict(world.about("syntax"), Verdict::Harmed, "followed, and the run failed")],
        ),
        _ => looked(vec![], vec![]),
    });
    world.season(&shop, &third);
    world
}

fn third(world: &World, number: u32) -> InvestigationResult {
    let [column, table, syntax, lock] =
        ["unknown column", "no table", "syntax", "lock"].map(|error| world.about(error));
    match number {
        1 => looked(
            vec![
                finding("once only"),
                finding("timeout"),
                finding("a|b <img src=x> [l](http://x) \u{1b}[2J"),
            ],
            vec![
                verdict(column, Verdict::Helped, "the columns were listed and the failure did not come"),
                verdict(syntax, Verdict::Harmed, "followed again, and the run failed"),
            ],
        ),
        2 => InvestigationResult::Failed { reason: "the trace could not be read".to_owned() },
        3 => looked(
            vec![contradicting("the tables | are there", table), finding("unknown column")],
            vec![verdict(lock, Verdict::CueNotMet, "nothing was locked")],
        ),
        4 => looked(
            vec![contradicting("the tables | are there", table)],
            vec![verdict(column, Verdict::Helped, "the columns were listed first")],
        ),
        _ => looked(vec![], vec![verdict(world.about("timeout"), Verdict::Ignored, "it was not followed")]),
    }
}
