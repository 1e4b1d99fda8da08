//! Runs a plan on a fleet.

use std::path::Path;
use std::time::{Duration, Instant};

use retro_checker::{CheckReport, Operation, ProgressFloor};
use retro_fault::{Label, Side};
use serde_json::Value;
use tokio::task::JoinSet;

use super::plan::{Fault, Plan, Step};
use crate::world::{
    DropKind, Fleet, FreezableProxy, LossyProxy, NatsConnection, Observer, TestDisk, build_correcting_runs,
};

/// Longer than the lease and the acknowledgement wait, both two seconds here.
const LONGER_THAN_A_LEASE: Duration = Duration::from_millis(2500);
/// A process still alive after this time did not reach its crash point: other processes did the work.
const CRASH_WITHIN: Duration = Duration::from_secs(5);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A fleet that executes a plan.
pub(super) struct Driver {
    fleet: Fleet,
    witness: Observer,
    /// One proxy to the broker for each place, so a single process can be cut off.
    lines: Vec<FreezableProxy>,
    /// One proxy behind each of these, which can drop acknowledgements.
    lossy_lines: Vec<LossyProxy>,
    /// File system of the SQLite file, if the plan fills it.
    disk: Option<TestDisk>,
    /// Index of the current process at each place.
    places: Vec<usize>,
    roles: &'static [&'static str],
    emitting: JoinSet<()>,
    floor: ProgressFloor,
    /// Number of emitted runs of each workflow.
    runs: [u64; 3],
}

impl Driver {
    pub(super) async fn start_process(plan: &Plan, history: &Path) -> Self {
        let mut fleet = Fleet::unstarted(plan.kind).await;
        let disk = (plan.fills_disk() && nix::unistd::Uid::effective().is_root())
            .then(|| TestDisk::mount(&fleet.data_dir()));
        fleet.start_servers_with_short_timeouts().await;
        let witness = Observer::start(&fleet, history).await;
        let roles = plan.shape.process_roles();
        let mut driver = Self {
            fleet,
            witness,
            lines: Vec::new(),
            lossy_lines: Vec::new(),
            disk,
            places: Vec::new(),
            roles,
            emitting: JoinSet::new(),
            floor: ProgressFloor::default(),
            runs: [0; 3],
        };
        for place in 0..roles.len() {
            let lossy = LossyProxy::start(driver.fleet.nats_url(), DropKind::Acks).await;
            driver.lines.push(FreezableProxy::start(lossy.url()).await);
            driver.lossy_lines.push(lossy);
            let process = driver.start(place, &[]);
            driver.places.push(process);
            driver.wait_until_ready(place).await;
        }
        driver
    }

    /// Emits the step's runs and injects its fault at the same time.
    pub(super) async fn play_step(&mut self, number: usize, step: &Step) {
        self.emit_runs(number, step);
        let happened = self.inject_fault(number, &step.fault).await;
        if happened {
            *self.floor.faults.entry(step.fault.kind().to_owned()).or_default() += 1;
        }
        self.witness.capture_database_state().await;
    }

    /// Waits until nothing is left to do and runs the checker.
    pub(super) async fn finish(mut self) -> (CheckReport, Vec<u64>) {
        while let Some(emitted) = self.emitting.join_next().await {
            emitted.expect("every event is accepted in the end");
        }
        self.floor.counted = self.runs.iter().sum();
        // A window takes all waiting runs: ten, or all that arrived while another retrospective was open.
        self.floor.closed = self.runs.iter().filter(|runs| **runs >= 10).count() as u64;
        let checked = self.witness.check_when_idle(&self.fleet, &self.floor).await;
        checked.assert_sound();
        self.fleet.verify_store().await;
        let history = self.witness.read_history();
        let starts = history.operations.iter().filter(|done| {
            matches!(done.operation, Operation::Start { .. } | Operation::Heal { .. })
                && done.ended_ms.is_some()
        });
        let recoveries = starts.map(|done| done.ended_ms.unwrap_or_default() - done.begun_ms).collect();
        self.fleet.stop_all().await;
        (checked, recoveries)
    }

    fn emit_runs(&mut self, number: usize, step: &Step) {
        let nth = usize::try_from(step.workflow).expect("a small number");
        let (workflow, first) = (format!("flow-{nth}"), self.runs[nth]);
        self.runs[nth] += step.runs;
        let events = build_correcting_runs(&workflow, "deploy_service", first..self.runs[nth]);
        let payloads: Vec<_> = events.iter().map(|event| event.to_string().into_bytes()).collect();
        let mut orders = vec![payloads.clone()];
        if step.twice {
            orders.push(payloads.into_iter().rev().collect());
        }
        for (payloads, who) in orders.into_iter().zip(["an engine", "another engine"]) {
            let emitter = self.witness.create_emitter(format!("{who}, step {number}"));
            let workflow = workflow.clone();
            self.emitting.spawn(async move { emitter.emit_until_stored(&workflow, &payloads).await });
        }
    }

    /// Injects a fault. Returns `true` if it really happened.
    async fn inject_fault(&mut self, number: usize, fault: &Fault) -> bool {
        match fault {
            Fault::Crash { process, label, side } => {
                return self.crash_process(number, place_index(*process), *label, *side).await;
            }
            Fault::Kill { process } => self.kill_process(place_index(*process)).await,
            Fault::Stop { process } => self.pause_process(place_index(*process)).await,
            Fault::ClockOff { process, behind } => {
                self.restart_with_wrong_clock(place_index(*process), *behind).await
            }
            Fault::LineFrozen { process } => self.freeze_line(place_index(*process)).await,
            Fault::BrokerKill => self.kill_broker().await,
            Fault::DatabaseRestart => self.restart_database().await,
            Fault::BackendsTerminated => self.terminate_backends().await,
            Fault::Poison { kind } => self.publish_poison(number, *kind).await,
            Fault::Replayed => self.replay_by_two_people(number).await,
            Fault::Redelivery => self.redeliver_everything().await,
            Fault::AcksCut { process } => self.cut_acks(place_index(*process)).await,
            Fault::BrokerWiped => self.wipe_broker().await,
            Fault::DiskFull => return self.fill_disk().await,
        }
        true
    }

    fn start(&mut self, place: usize, environment: &[(&str, &str)]) -> usize {
        let broker = self.lines[place].url().to_owned();
        let environment = [&[("NATS_URL", broker.as_str())], environment].concat();
        self.fleet.serve_with_short_timeouts(self.roles[place], &environment)
    }

    async fn wait_until_ready(&self, place: usize) {
        let begun = self.witness.begin_operation(Operation::Start { target: self.describe_target(place) });
        self.fleet.wait_until_ready(self.places[place]).await;
        begun.finish_ok();
    }

    fn describe_target(&self, place: usize) -> String {
        format!("{} at place {place}", self.roles[place])
    }

    /// Replaces a process with one that dies at the crash point, and that one with a normal process.
    async fn crash_process(&mut self, number: usize, place: usize, label: Label, side: Side) -> bool {
        self.fleet.kill(self.places[place]).await;
        self.witness.record_kill("sigkill", self.describe_target(place));
        let point = format!("{}:{}", label.as_str(), side.as_str());
        self.places[place] = self.start(place, &[("FAULT_CRASH", &point)]);
        if label.as_str().starts_with("bury") {
            self.publish_poison(number, 0).await;
        }
        let died = self.fleet.is_killed_within(self.places[place], CRASH_WITHIN).await;
        if !died {
            self.fleet.kill(self.places[place]).await;
        }
        self.witness.record_kill(
            if died { "crash" } else { "sigkill" },
            format!("{} at {point}", self.describe_target(place)),
        );
        self.places[place] = self.start(place, &[]);
        self.wait_until_ready(place).await;
        died
    }

    async fn kill_process(&mut self, place: usize) {
        self.fleet.kill(self.places[place]).await;
        self.witness.record_kill("sigkill", self.describe_target(place));
        self.places[place] = self.start(place, &[]);
        self.wait_until_ready(place).await;
    }

    async fn restart_with_wrong_clock(&mut self, place: usize, behind: bool) {
        self.fleet.kill(self.places[place]).await;
        self.witness.record_kill("sigkill", self.describe_target(place));
        let off_s = if behind { "-3600" } else { "3600" };
        self.places[place] = self.start(place, &[("FAULT_CLOCK", off_s)]);
        self.witness.record_fault("clock_off", format!("{} by {off_s} s", self.describe_target(place)));
        self.wait_until_ready(place).await;
    }

    async fn pause_process(&mut self, place: usize) {
        self.fleet.freeze(self.places[place]);
        self.witness.record_fault("sigstop", self.describe_target(place));
        self.wait_longer_than_lease().await;
        self.fleet.resume(self.places[place]);
        self.wait_for_recovery("sigstop", place).await;
    }

    async fn freeze_line(&mut self, place: usize) {
        self.lines[place].freeze();
        self.witness.record_fault("line_frozen", self.describe_target(place));
        self.wait_longer_than_lease().await;
        self.lines[place].thaw();
        self.wait_for_recovery("line_frozen", place).await;
    }

    async fn wait_for_recovery(&self, fault: &str, place: usize) {
        let begun = self.witness.begin_operation(Operation::Heal { fault: fault.to_owned() });
        self.fleet.wait_until_ready(self.places[place]).await;
        begun.finish_ok();
    }

    async fn wait_for_full_recovery(&self, fault: &str) {
        let begun = self.witness.begin_operation(Operation::Heal { fault: fault.to_owned() });
        for process in &self.places {
            self.fleet.wait_until_ready(*process).await;
        }
        begun.finish_ok();
    }

    async fn kill_broker(&self) {
        self.fleet.kill_broker().await;
        self.witness.record_fault("broker_kill", "nats-server");
        self.wait_for_full_recovery("broker_kill").await;
    }

    async fn restart_database(&mut self) {
        self.fleet.stop_database();
        self.witness.record_fault("database_restart", "postgres");
        self.fleet.start_database().await;
        self.wait_for_full_recovery("database_restart").await;
    }

    async fn terminate_backends(&self) {
        const TERMINATE: &str =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'retro'";
        self.fleet.postgres().execute_sql(TERMINATE).await;
        self.witness.record_fault("backends_terminated", "every connection of the program");
        self.wait_for_full_recovery("backends_terminated").await;
    }

    async fn publish_poison(&mut self, number: usize, kind: u64) {
        let payload = match kind {
            0 => format!("no JSON, in step {number}").into_bytes(),
            1 => {
                [b"\xff no UTF-8, in step ".as_slice(), &[b'0' + u8::try_from(number % 10).expect("a digit")]]
                    .concat()
            }
            _ => format!(r#"{{"specversion":"1.0","id":"none of step {number}"}}"#).into_bytes(),
        };
        self.witness
            .create_emitter(format!("a broken engine, step {number}"))
            .emit_until_stored("flow-0", &[payload])
            .await;
        self.witness.record_fault("poison", format!("kind {kind}"));
        self.floor.dead_letters += 1;
    }

    /// Two operators replay one dead letter whose message is still invalid: no second dead letter appears. A
    /// request after the replay has failed may send the message once more; an earlier request reports the
    /// other operator's replay.
    async fn replay_by_two_people(&mut self, number: usize) {
        self.publish_poison(number, 0).await;
        let open = async || {
            let state = self.witness.read_state().await?;
            state
                .dead_letters
                .iter()
                .find(|dead_letter| dead_letter.status == "open")
                .map(|dead_letter| dead_letter.id.clone())
        };
        let dead_letter = self.fleet.wait_for("there is a dead letter to replay", open).await;
        let before = self.count_replays(&dead_letter).await;
        let one = self.replay_dead_letter("ann", &dead_letter);
        let other = self.replay_dead_letter("bob", &dead_letter);
        let (one, other) = tokio::join!(one, other);
        let times = self.count_replays(&dead_letter).await - before;
        let done_answers = usize::from(one) + usize::from(other);
        assert!(
            done_answers >= 1 && times == done_answers,
            "dead letter {dead_letter}, replayed {times} times: {one} and {other}"
        );
        self.witness.record_fault("replay", format!("dead letter {dead_letter}, by two people"));
    }

    async fn count_replays(&self, dead_letter: &str) -> usize {
        let state =
            self.fleet.wait_for("database and broker answer", async || self.witness.read_state().await).await;
        state.replays.iter().filter(|replay| replay.dead_letter == dead_letter).count()
    }

    /// Returns `true` if this operator's request started the replay, rather than an earlier one.
    async fn replay_dead_letter(&self, by: &str, dead_letter: &str) -> bool {
        let begun = self
            .witness
            .recorder
            .begin_operation(by, Operation::Replay { dead_letter: dead_letter.to_owned() });
        let ask = [
            "dead-letters",
            "replay",
            dead_letter,
            "--by",
            by,
            "--reason",
            "the engine was mended",
            "-o",
            "json",
        ];
        let answer = self.fleet.run_retro(&ask).await;
        let reply: serde_json::Value = serde_json::from_str(&answer.out).unwrap_or_default();
        let done = reply["status"] == "done";
        if done {
            begun.finish_ok();
        } else {
            begun.finish_failed(format!("{} {}", reply["detail"], answer.err));
        }
        done
    }

    /// Recreates the consumer, so every acknowledged message is delivered again.
    async fn redeliver_everything(&self) {
        let mut wire = NatsConnection::connect(self.fleet.nats_url()).await;
        wire.request_api("CONSUMER.DELETE.RETRO_INTAKE.counter", &Value::Null).await;
        self.witness.record_fault("redelivery", "every message of the intake stream");
        self.fleet.migrate_with_short_timeouts().await;
        self.wait_for_full_recovery("redelivery").await;
    }

    /// Drops the acknowledgements of a process for longer than the broker waits for them.
    async fn cut_acks(&mut self, place: usize) {
        self.lossy_lines[place].start_dropping();
        self.witness.record_fault("acks_cut", self.describe_target(place));
        self.wait_longer_than_lease().await;
        self.lossy_lines[place].stop_dropping();
        self.wait_for_recovery("acks_cut", place).await;
    }

    /// Removes the broker's data once every accepted event was counted or dead-lettered, because an event that only
    /// the broker had would be lost.
    async fn wipe_broker(&mut self) {
        while let Some(emitted) = self.emitting.join_next().await {
            emitted.expect("every event is accepted in the end");
        }
        let (runs, dead_letters) = (self.runs.iter().sum::<u64>(), self.floor.dead_letters);
        let handled = async || {
            let state = self.witness.read_state().await?;
            let counted = state.runs.iter().filter(|run| run.ordinal.is_some()).count() as u64;
            (counted >= runs && state.dead_letters.len() as u64 >= dead_letters).then_some(())
        };
        self.fleet.wait_for("every event is handled", handled).await;
        self.fleet.wipe_broker().await;
        self.witness.record_fault("broker_wiped", "nats-server and its data");
        self.fleet.start_broker().await;
        self.fleet.migrate_with_short_timeouts().await;
        self.wait_for_full_recovery("broker_wiped").await;
    }

    /// Leaves hardly any room for the SQLite file for a while. Returns `false` if the test may not mount a file system.
    async fn fill_disk(&mut self) -> bool {
        let Some(disk) = &self.disk else { return false };
        disk.leave_free(16 * 1024);
        self.witness.record_fault("disk_full", "the file system of the database");
        self.wait_longer_than_lease().await;
        disk.make_room();
        self.wait_for_full_recovery("disk_full").await;
        true
    }

    async fn wait_longer_than_lease(&self) {
        let begun = Instant::now();
        let over = async || (begun.elapsed() >= LONGER_THAN_A_LEASE).then_some(());
        self.fleet.wait_for_with_interval(POLL_INTERVAL, "a lease runs out", over).await;
    }
}

fn place_index(process: u64) -> usize {
    usize::try_from(process).expect("a small number")
}
