//! What happens under a seed: everything is drawn before anything is done, so that a seed can be played again.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use retro_fault::{Label, Side};

use crate::world::Kind;

/// Steps of a short plan: each of them costs seconds.
const STEPS: u64 = 6;
/// Workflows, so that retrospectives run side by side.
const WORKFLOWS: u64 = 3;
/// Labels that runs alone make a role cross, by how they begin. The other labels need people, retention or a clock; each
/// of them has its kill in the stories `crash::`.
const ROAD: [(&str, &str); 10] = [
    ("count", "counter"),
    ("bury", "counter"),
    ("sample", "sampler"),
    ("claim", "investigator"),
    ("journal", "investigator"),
    ("finish", "investigator"),
    ("investigate", "investigator"),
    ("close", "writer"),
    ("write", "writer"),
    ("relay", "relay"),
];

/// How the roles are spread over processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `retro up`.
    Up,
    /// One process with all that a run meets.
    One,
    /// Two such.
    Twins,
    /// A process for each, and two counters and two investigators.
    Spread,
}

/// Something that is done to a running fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process dies at a point.
    Crash { process: u64, label: Label, side: Side },
    /// A process is killed, wherever it is.
    Kill { process: u64 },
    /// A process is stopped for longer than its lease, and goes on.
    Stop { process: u64 },
    /// A process is killed, and its successor's clock is an hour ahead or behind, until somebody succeeds it in turn.
    ClockOff { process: u64, behind: bool },
    /// A process hears nothing of the broker, and nobody tells it.
    LineFrozen { process: u64 },
    /// The broker is killed, and comes back with what it had.
    BrokerKill,
    /// The database is killed, and comes back with what it had.
    DatabaseRestart,
    /// Every connection to the database is cut.
    BackendsTerminated,
    /// A message that nobody can read.
    Poison { kind: u64 },
    /// Two people replay one dead letter at once.
    Replayed,
    /// Somebody has the broker deliver everything again.
    Redelivery,
}

/// A step: runs are emitted, and meanwhile something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) workflow: u64,
    pub(super) runs: u64,
    /// Another publisher sends the same events, in the opposite order.
    pub(super) twice: bool,
    pub(super) fault: Fault,
}

/// Everything that a seed stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    pub(super) steps: Vec<Step>,
}

impl Shape {
    /// The roles of each process.
    pub(super) const fn processes(self) -> &'static [&'static str] {
        const ALL: &str = "counter,sampler,investigator,writer,relay";
        match self {
            Self::Up => &["up"],
            Self::One => &[ALL],
            Self::Twins => &[ALL, ALL],
            Self::Spread => {
                &["counter,relay", "counter", "investigator", "investigator", "sampler,writer,relay"]
            }
        }
    }
}

impl Fault {
    /// Its kind, as it stands in the history.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Crash { .. } => "crash",
            Self::Kill { .. } => "sigkill",
            Self::Stop { .. } => "sigstop",
            Self::ClockOff { .. } => "clock_off",
            Self::LineFrozen { .. } => "line_frozen",
            Self::BrokerKill => "broker_kill",
            Self::DatabaseRestart => "database_restart",
            Self::BackendsTerminated => "backends_terminated",
            Self::Poison { .. } => "poison",
            Self::Replayed => "replay",
            Self::Redelivery => "redelivery",
        }
    }
}

impl Plan {
    /// What a seed stands for. Odd seeds run on SQLite, even ones on Postgres.
    pub(super) fn of(seed: u64) -> Self {
        let mut dice = Dice(ChaCha20Rng::seed_from_u64(seed));
        let kind = if seed % 2 == 1 { Kind::Sqlite } else { Kind::Postgres };
        let shape = dice.one(&[Shape::Up, Shape::One, Shape::Twins, Shape::Spread]);
        let steps = (0..STEPS).map(|_| dice.step(kind, shape)).collect();
        Self { seed, kind, shape, steps }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {:?}, {:?}", self.seed, self.kind, self.shape)?;
        for (step, number) in self.steps.iter().zip(1..) {
            let Step { workflow, runs, twice, fault } = step;
            let twice = if *twice { ", twice and reversed" } else { "" };
            writeln!(f, "  {number}. {runs} runs of workflow {workflow}{twice}; {fault:?}")?;
        }
        Ok(())
    }
}

/// Chance, all of it out of the seed.
struct Dice(ChaCha20Rng);

impl Dice {
    /// A number below a small bound; the bias of the remainder does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("a small number")]
    }

    fn step(&mut self, kind: Kind, shape: Shape) -> Step {
        Step {
            workflow: self.below(WORKFLOWS),
            runs: 10 + self.below(11),
            twice: self.below(3) == 0,
            fault: self.fault(kind, shape),
        }
    }

    fn fault(&mut self, kind: Kind, shape: Shape) -> Fault {
        let process = self.below(shape.processes().len() as u64);
        match self.below(if kind == Kind::Postgres { 13 } else { 11 }) {
            0..=2 => self.crash(process, shape),
            3 => Fault::Kill { process },
            4 => Fault::Stop { process },
            5 => Fault::LineFrozen { process },
            6 => Fault::BrokerKill,
            7 => Fault::Redelivery,
            8 => Fault::Replayed,
            9 => Fault::Poison { kind: self.below(3) },
            10 => Fault::ClockOff { process, behind: self.below(2) == 0 },
            11 => Fault::DatabaseRestart,
            _ => Fault::BackendsTerminated,
        }
    }

    /// At a point that the process comes by.
    fn crash(&mut self, process: u64, shape: Shape) -> Fault {
        let roles = shape.processes()[usize::try_from(process).expect("a small number")];
        let has = |role: &str| roles == "up" || roles.split(',').any(|one| one == role);
        let begins: Vec<_> = ROAD.iter().filter(|(_, role)| has(role)).map(|(begin, _)| *begin).collect();
        let crossed = |label: &Label| begins.contains(&label.as_str().split('.').next().unwrap_or_default());
        let labels: Vec<_> = Label::ALL.iter().copied().filter(crossed).collect();
        Fault::Crash { process, label: self.one(&labels), side: self.one(Side::ALL) }
    }
}

#[test]
fn a_seed_always_stands_for_the_same_plan_and_seeds_for_different_ones() {
    let plans: Vec<_> = (1..=20).map(Plan::of).collect();
    assert_eq!(plans, (1..=20).map(Plan::of).collect::<Vec<_>>());
    for (nth, plan) in plans.iter().enumerate() {
        assert!(plans[..nth].iter().all(|other| other.steps != plan.steps), "{plan}");
    }
    let faults = plans.iter().flat_map(|plan| &plan.steps).map(|step| step.fault.kind());
    let kinds: std::collections::BTreeSet<_> = faults.collect();
    assert_eq!(kinds.len(), 11, "twenty seeds bring every kind: {kinds:?}");
}
