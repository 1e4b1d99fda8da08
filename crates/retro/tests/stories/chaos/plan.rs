//! Derives a plan from a seed. Everything is drawn before anything runs, so a seed can be repeated.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use retro_fault::{Label, Side};

use crate::world::DatabaseKind;

/// Number of steps in a plan. Each takes seconds.
const STEPS: u64 = 6;
/// Number of workflows, so that retrospectives run concurrently.
const WORKFLOWS: u64 = 3;
/// Prefixes of the fault labels that a role reaches for ordinary runs, each with the role. The other labels
/// need operators, retention or a clock; the tests in `crash::` kill at each of those.
const PIPELINE_LABELS: [(&str, &str); 10] = [
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

/// Distribution of the roles over processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FleetShape {
    /// `retro up`.
    Up,
    /// One process with all roles that process runs.
    One,
    /// Two processes like that.
    Twins,
    /// Several processes, two of them counters and two investigators.
    Spread,
}

/// A fault to inject into a running fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// A process dies at a fault label.
    Crash { process: u64, label: Label, side: Side },
    /// A process is killed, whatever it is doing.
    Kill { process: u64 },
    /// A process is stopped for longer than its lease and then resumed.
    Stop { process: u64 },
    /// A process is replaced by one whose clock is an hour ahead or behind, until the next replacement.
    ClockOff { process: u64, behind: bool },
    /// A process's connection to the broker freezes without an error.
    LineFrozen { process: u64 },
    /// The broker is killed and restarted with its data.
    BrokerKill,
    /// The database is killed and restarted with its data.
    DatabaseRestart,
    /// Every connection to the database is terminated.
    BackendsTerminated,
    /// An unreadable message is published.
    Poison { kind: u64 },
    /// Two operators replay one dead letter at the same time.
    Replayed,
    /// The broker delivers all messages again.
    Redelivery,
    /// Acknowledgements of a process are lost on their way to the broker.
    AcksCut { process: u64 },
    /// The broker loses all its data after every event was counted.
    BrokerWiped,
    /// The disk of the SQLite file is full for a while. Needs root.
    DiskFull,
}

/// One step of a plan: runs are emitted while a fault is injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) workflow: u64,
    pub(super) runs: u64,
    /// `true` if a second publisher sends the same events in reverse order.
    pub(super) twice: bool,
    pub(super) fault: Fault,
}

/// All steps of a seed, with the database and the shape of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) kind: DatabaseKind,
    pub(super) shape: FleetShape,
    pub(super) steps: Vec<Step>,
}

impl FleetShape {
    /// Returns the roles of each process.
    pub(super) const fn process_roles(self) -> &'static [&'static str] {
        const ALL_ROLES: &str = "counter,sampler,investigator,writer,relay";
        match self {
            Self::Up => &["up"],
            Self::One => &[ALL_ROLES],
            Self::Twins => &[ALL_ROLES, ALL_ROLES],
            Self::Spread => {
                &["counter,relay", "counter", "investigator", "investigator", "sampler,writer,relay"]
            }
        }
    }
}

impl Fault {
    /// Returns the name of the fault in the history.
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
            Self::AcksCut { .. } => "acks_cut",
            Self::BrokerWiped => "broker_wiped",
            Self::DiskFull => "disk_full",
        }
    }
}

impl Plan {
    /// Draws the plan of a seed. Odd seeds run on SQLite, even ones on Postgres.
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut dice = Dice(ChaCha20Rng::seed_from_u64(seed));
        let kind = if seed % 2 == 1 { DatabaseKind::Sqlite } else { DatabaseKind::Postgres };
        let shape = dice.draw_one(&[FleetShape::Up, FleetShape::One, FleetShape::Twins, FleetShape::Spread]);
        let steps = (0..STEPS).map(|_| dice.draw_step(kind, shape)).collect();
        Self { seed, kind, shape, steps }
    }

    /// Returns `true` if a step fills the disk of the database.
    pub(super) fn fills_disk(&self) -> bool {
        self.steps.iter().any(|step| step.fault == Fault::DiskFull)
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

/// Random numbers derived from the seed.
struct Dice(ChaCha20Rng);

impl Dice {
    /// Draws a number below a small bound. The modulo bias does not matter here.
    fn draw_below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn draw_one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.draw_below(of.len() as u64)).expect("a small number")]
    }

    fn draw_step(&mut self, kind: DatabaseKind, shape: FleetShape) -> Step {
        Step {
            workflow: self.draw_below(WORKFLOWS),
            runs: 10 + self.draw_below(11),
            twice: self.draw_below(3) == 0,
            fault: self.draw_fault(kind, shape),
        }
    }

    fn draw_fault(&mut self, kind: DatabaseKind, shape: FleetShape) -> Fault {
        let process = self.draw_below(shape.process_roles().len() as u64);
        match self.draw_below(15) {
            0..=2 => self.draw_crash(process, shape),
            3 => Fault::Kill { process },
            4 => Fault::Stop { process },
            5 => Fault::LineFrozen { process },
            6 => Fault::BrokerKill,
            7 => Fault::Redelivery,
            8 => Fault::Replayed,
            9 => Fault::Poison { kind: self.draw_below(3) },
            10 => Fault::ClockOff { process, behind: self.draw_below(2) == 0 },
            11 => Fault::AcksCut { process },
            12 => Fault::BrokerWiped,
            13 if kind == DatabaseKind::Postgres => Fault::DatabaseRestart,
            14 if kind == DatabaseKind::Postgres => Fault::BackendsTerminated,
            _ => Fault::DiskFull,
        }
    }

    /// Draws a crash at a label that the process reaches.
    fn draw_crash(&mut self, process: u64, shape: FleetShape) -> Fault {
        let roles = shape.process_roles()[usize::try_from(process).expect("a small number")];
        let has = |role: &str| roles == "up" || roles.split(',').any(|one| one == role);
        let begins: Vec<_> =
            PIPELINE_LABELS.iter().filter(|(_, role)| has(role)).map(|(begin, _)| *begin).collect();
        let crossed = |label: &Label| begins.contains(&label.as_str().split('.').next().unwrap_or_default());
        let labels: Vec<_> = Label::ALL.iter().copied().filter(crossed).collect();
        Fault::Crash { process, label: self.draw_one(&labels), side: self.draw_one(Side::ALL) }
    }
}

#[test]
fn a_seed_always_gives_the_same_plan_and_different_seeds_differ() {
    let plans: Vec<_> = (1..=30).map(Plan::from_seed).collect();
    assert_eq!(plans, (1..=30).map(Plan::from_seed).collect::<Vec<_>>());
    for (nth, plan) in plans.iter().enumerate() {
        assert!(plans[..nth].iter().all(|other| other.steps != plan.steps), "{plan}");
    }
    let faults = plans.iter().flat_map(|plan| &plan.steps).map(|step| step.fault.kind());
    let kinds: std::collections::BTreeSet<_> = faults.collect();
    assert_eq!(kinds.len(), 14, "thirty seeds bring every kind: {kinds:?}");
}
