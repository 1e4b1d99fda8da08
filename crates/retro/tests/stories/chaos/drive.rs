//! Playing a plan on a fleet.

use std::path::Path;
use std::time::{Duration, Instant};

use retro_checker::{CheckReport, Operation, ProgressFloor};
use retro_fault::{Label, Side};
use serde_json::Value;
use tokio::task::JoinSet;

use super::plan::{Fault, Plan, Step};
use crate::world::{Fleet, Line, Wire, Witness, mending};

/// Longer than the lease and the broker's patience, which are two seconds here.
const LONGER_THAN_A_LEASE: Duration = Duration::from_millis(2500);
/// A process that has not died at its point by then has not come by it: others did the work.
const CRASH_WITHIN: Duration = Duration::from_secs(5);
/// How often is looked whether time is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A fleet under a plan.
pub(super) struct Driver {
    fleet: Fleet,
    witness: Witness,
    /// A line to the broker for each place, so that one process alone can be cut off.
    lines: Vec<Line>,
    /// The number of the process at each place.
    places: Vec<usize>,
    roles: &'static [&'static str],
    emitting: JoinSet<()>,
    floor: ProgressFloor,
    /// Runs emitted of each workflow.
    runs: [u64; 3],
}

impl Driver {
    pub(super) async fn begin(plan: &Plan, history: &Path) -> Self {
        let fleet = Fleet::impatient(plan.kind).await;
        let witness = Witness::of(&fleet, history).await;
        let roles = plan.shape.processes();
        let mut driver = Self {
            fleet,
            witness,
            lines: Vec::new(),
            places: Vec::new(),
            roles,
            emitting: JoinSet::new(),
            floor: ProgressFloor::default(),
            runs: [0; 3],
        };
        for place in 0..roles.len() {
            driver.lines.push(Line::to(driver.fleet.nats_url()).await);
            let process = driver.start(place, &[]);
            driver.places.push(process);
            driver.ready(place).await;
        }
        driver
    }

    /// Emits the step's runs, and meanwhile does what the step says.
    pub(super) async fn play(&mut self, number: usize, step: &Step) {
        self.emit(number, step);
        let happened = self.fault(number, &step.fault).await;
        if happened {
            *self.floor.faults.entry(step.fault.kind().to_owned()).or_default() += 1;
        }
        self.witness.moment_without_broker().await;
    }

    /// Waits until nothing is left to do, and judges.
    pub(super) async fn end(mut self) -> (CheckReport, Vec<u64>) {
        while let Some(emitted) = self.emitting.join_next().await {
            emitted.expect("every event is taken in the end");
        }
        self.floor.counted = self.runs.iter().sum();
        // A window takes what waits for it: ten runs, or all that came while another was open.
        self.floor.closed = self.runs.iter().filter(|runs| **runs >= 10).count() as u64;
        let checked = self.witness.judge(&self.fleet, &self.floor).await;
        checked.assert_sound();
        self.fleet.sound().await;
        let history = self.witness.history();
        let starts = history.operations.iter().filter(|done| {
            matches!(done.operation, Operation::Start { .. } | Operation::Mend { .. })
                && done.ended_ms.is_some()
        });
        let recoveries = starts.map(|done| done.ended_ms.unwrap_or_default() - done.begun_ms).collect();
        self.fleet.stop_all().await;
        (checked, recoveries)
    }

    fn emit(&mut self, number: usize, step: &Step) {
        let nth = usize::try_from(step.workflow).expect("a small number");
        let (workflow, first) = (format!("flow-{nth}"), self.runs[nth]);
        self.runs[nth] += step.runs;
        let events = mending(&workflow, "deploy_service", first..self.runs[nth]);
        let payloads: Vec<_> = events.iter().map(|event| event.to_string().into_bytes()).collect();
        let mut orders = vec![payloads.clone()];
        if step.twice {
            orders.push(payloads.into_iter().rev().collect());
        }
        for (payloads, who) in orders.into_iter().zip(["an engine", "another engine"]) {
            let emitter = self.witness.emitter(format!("{who}, step {number}"));
            let workflow = workflow.clone();
            self.emitting.spawn(async move { emitter.emit(&workflow, &payloads).await });
        }
    }

    /// Returns whether it has really happened.
    async fn fault(&mut self, number: usize, fault: &Fault) -> bool {
        match fault {
            Fault::Crash { process, label, side } => {
                return self.crash(number, place(*process), *label, *side).await;
            }
            Fault::Kill { process } => self.kill(place(*process)).await,
            Fault::Stop { process } => self.stop(place(*process)).await,
            Fault::ClockOff { process, behind } => self.clock_off(place(*process), *behind).await,
            Fault::LineFrozen { process } => self.freeze_line(place(*process)).await,
            Fault::BrokerKill => self.kill_broker().await,
            Fault::DatabaseRestart => self.restart_database().await,
            Fault::BackendsTerminated => self.terminate_backends().await,
            Fault::Poison { kind } => self.poison(number, *kind).await,
            Fault::Replayed => self.replay(number).await,
            Fault::Redelivery => self.redeliver().await,
        }
        true
    }

    fn start(&mut self, place: usize, environment: &[(&str, &str)]) -> usize {
        let broker = self.lines[place].url().to_owned();
        let environment = [&[("NATS_URL", broker.as_str())], environment].concat();
        self.fleet.serve_impatient(self.roles[place], &environment)
    }

    async fn ready(&self, place: usize) {
        let begun = self.witness.begin(Operation::Start { target: self.target(place) });
        self.fleet.ready(self.places[place]).await;
        begun.finish_ok();
    }

    fn target(&self, place: usize) -> String {
        format!("{} at place {place}", self.roles[place])
    }

    /// Its successor dies at the point, and is succeeded in turn.
    async fn crash(&mut self, number: usize, place: usize, label: Label, side: Side) -> bool {
        self.fleet.kill(self.places[place]).await;
        self.witness.death("sigkill", self.target(place));
        let point = format!("{}:{}", label.as_str(), side.as_str());
        self.places[place] = self.start(place, &[("FAULT_CRASH", &point)]);
        if label.as_str().starts_with("bury") {
            self.poison(number, 0).await;
        }
        let died = self.fleet.dies_within(self.places[place], CRASH_WITHIN).await;
        if !died {
            self.fleet.kill(self.places[place]).await;
        }
        self.witness
            .death(if died { "crash" } else { "sigkill" }, format!("{} at {point}", self.target(place)));
        self.places[place] = self.start(place, &[]);
        self.ready(place).await;
        died
    }

    async fn kill(&mut self, place: usize) {
        self.fleet.kill(self.places[place]).await;
        self.witness.death("sigkill", self.target(place));
        self.places[place] = self.start(place, &[]);
        self.ready(place).await;
    }

    async fn clock_off(&mut self, place: usize, behind: bool) {
        self.fleet.kill(self.places[place]).await;
        self.witness.death("sigkill", self.target(place));
        let off_s = if behind { "-3600" } else { "3600" };
        self.places[place] = self.start(place, &[("FAULT_CLOCK", off_s)]);
        self.witness.fault("clock_off", format!("{} by {off_s} s", self.target(place)));
        self.ready(place).await;
    }

    async fn stop(&mut self, place: usize) {
        self.fleet.freeze(self.places[place]);
        self.witness.fault("sigstop", self.target(place));
        self.longer_than_a_lease().await;
        self.fleet.wake(self.places[place]);
        self.mended("sigstop", place).await;
    }

    async fn freeze_line(&mut self, place: usize) {
        self.lines[place].freeze();
        self.witness.fault("line_frozen", self.target(place));
        self.longer_than_a_lease().await;
        self.lines[place].thaw();
        self.mended("line_frozen", place).await;
    }

    async fn mended(&self, fault: &str, place: usize) {
        let begun = self.witness.begin(Operation::Mend { fault: fault.to_owned() });
        self.fleet.ready(self.places[place]).await;
        begun.finish_ok();
    }

    async fn all_mended(&self, fault: &str) {
        let begun = self.witness.begin(Operation::Mend { fault: fault.to_owned() });
        for process in &self.places {
            self.fleet.ready(*process).await;
        }
        begun.finish_ok();
    }

    async fn kill_broker(&self) {
        self.fleet.kill_broker().await;
        self.witness.fault("broker_kill", "nats-server");
        self.all_mended("broker_kill").await;
    }

    async fn restart_database(&mut self) {
        self.fleet.stop_database();
        self.witness.fault("database_restart", "postgres");
        self.fleet.start_database().await;
        self.all_mended("database_restart").await;
    }

    async fn terminate_backends(&self) {
        const TERMINATE: &str =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retro'";
        self.fleet.postgres().execute_sql(TERMINATE).await;
        self.witness.fault("backends_terminated", "every connection of the program");
        self.all_mended("backends_terminated").await;
    }

    async fn poison(&mut self, number: usize, kind: u64) {
        let payload = match kind {
            0 => format!("no JSON, in step {number}").into_bytes(),
            1 => {
                [b"\xff no UTF-8, in step ".as_slice(), &[b'0' + u8::try_from(number % 10).expect("a digit")]]
                    .concat()
            }
            _ => format!(r#"{{"specversion":"1.0","id":"none of step {number}"}}"#).into_bytes(),
        };
        self.witness.emitter(format!("a broken engine, step {number}")).emit("flow-0", &[payload]).await;
        self.witness.fault("poison", format!("kind {kind}"));
        self.floor.letters += 1;
    }

    /// A letter, whose message is as broken as before: it becomes no second one. Who comes when it has failed again may send
    /// it once more; who comes before that is told of the other's.
    async fn replay(&mut self, number: usize) {
        self.poison(number, 0).await;
        let open = async || {
            let state = self.witness.now().await?;
            state.letters.iter().find(|letter| letter.status == "open").map(|letter| letter.id.clone())
        };
        let letter = self.fleet.until("somebody has a letter to replay", open).await;
        let before = self.times_replayed(&letter).await;
        let one = self.replays("ann", &letter);
        let other = self.replays("bob", &letter);
        let (one, other) = tokio::join!(one, other);
        let times = self.times_replayed(&letter).await - before;
        let told = usize::from(one) + usize::from(other);
        assert!(told >= 1 && times == told, "letter {letter}, replayed {times} times: {one} and {other}");
        self.witness.fault("replay", format!("letter {letter}, by two people"));
    }

    async fn times_replayed(&self, letter: &str) -> usize {
        let state = self.fleet.until("database and broker answer", async || self.witness.now().await).await;
        state.replays.iter().filter(|replay| replay.letter == letter).count()
    }

    /// Whether this person was told that it is their doing, and not somebody's before them.
    async fn replays(&self, by: &str, letter: &str) -> bool {
        let begun =
            self.witness.recorder.begin_operation(by, Operation::Replay { letter: letter.to_owned() });
        let ask =
            ["dead-letters", "replay", letter, "--by", by, "--reason", "the engine was mended", "-o", "json"];
        let answer = self.fleet.retro(&ask).await;
        let told: serde_json::Value = serde_json::from_str(&answer.out).unwrap_or_default();
        let done = told["did"] == "done";
        if done {
            begun.finish_ok();
        } else {
            begun.finish_failed(format!("{} {}", told["detail"], answer.err));
        }
        done
    }

    /// The consumer is made anew: every message that was acknowledged comes again.
    async fn redeliver(&self) {
        let mut wire = Wire::to(self.fleet.nats_url()).await;
        wire.ask("CONSUMER.DELETE.RETRO_INTAKE.counter", &Value::Null).await;
        self.witness.fault("redelivery", "every message of the intake stream");
        self.fleet.migrate_impatient().await;
        self.all_mended("redelivery").await;
    }

    async fn longer_than_a_lease(&self) {
        let begun = Instant::now();
        let over = async || (begun.elapsed() >= LONGER_THAN_A_LEASE).then_some(());
        self.fleet.until_looked_every(LOOK_EVERY, "a lease runs out", over).await;
    }
}

fn place(process: u64) -> usize {
    usize::try_from(process).expect("a small number")
}
