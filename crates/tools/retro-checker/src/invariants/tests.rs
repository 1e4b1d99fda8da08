use serde_json::{Value, json};

use super::*;
use crate::event::{Event, sha256_hex};
use crate::history::{BROKER_WIPED, Operation, OperationOutcome, RecordedOperation};
use crate::state::{
    Attempt, AuditEntry, Broker, Change, Consumer, DeadLetter, InboxRow, Investigation, JournalEntry, Memory,
    OutboxRow, Replay, Retrospective, Run, StoredMessage, Stream, Workflow,
};

const RUNS: u64 = 5;
const POISON: &[u8] = b"\xff not JSON";

/// Modification that violates an invariant.
type Break = fn(&mut History, &mut Vec<State>);

#[test]
fn a_small_sound_state_passes() {
    let (history, states) = (history(), vec![begun(), rest()]);
    let checked = check_history(&history, &states, &floor());
    checked.assert_sound();
    assert_eq!((checked.progress.counted, checked.progress.closed, checked.progress.dead_letters), (5, 1, 1));
    assert_eq!(checked.lost_with_broker, [""; 0]);
}

/// Each row breaks its first invariant. The other listed invariants are violated as a consequence, and no
/// others.
#[test]
fn every_violated_invariant_is_named() {
    use Invariant::*;
    let table: &[(&[Invariant], Break)] = &[
        (&[NothingLost], |history, _| emit(history, &event(6), OperationOutcome::Ok)),
        (&[NothingLost, AckAfterCommit, Progress], |_, states| last(states).dead_letters.clear()),
        (&[NothingInvented], |history, _| {
            let Operation::Emit { events, .. } = &mut history.operations[0].operation else { unreachable!() };
            events[0] = Event::from_payload("default", "deploy", &payload(1, "another-run"));
            history.operations[0].end = OperationOutcome::Unknown { reason: "killed".into() };
        }),
        (&[EventOnce], |_, states| last(states).workflows[0].events += 1),
        (&[RunOnce], |_, states| last(states).runs[4].ordinal = Some(4)),
        (&[RunOnce], |_, states| last(states).workflows[0].counted += 1),
        (&[EpochsContiguous], |_, states| last(states).retrospectives[1].epoch = 3),
        (&[EpochsContiguous], |_, states| last(states).workflows[0].open = false),
        (&[WindowsContiguous], |_, states| last(states).retrospectives[1].first_ordinal = 4),
        (&[WindowsContiguous], |_, states| last(states).workflows[0].claimed = 3),
        (&[SampleStands], |_, states| last(states).retrospectives[0].sample = Some("other".into())),
        (&[SampleStands], |_, states| last(states).retrospectives[0].as_of = "later".into()),
        (&[TokensGrow], |_, states| last(states).investigations[0].ended_token = Some(2)),
        (&[TokensGrow], |_, states| last(states).journal[0].token = 4),
        (&[TokensGrow], |_, states| last(states).journal[1].token = 0),
        (&[TokensGrow], |_, states| {
            // A zombie worker's write: valid on its own, but token 3 had already been issued.
            states[0].investigations[0].token = 3;
            states[0].journal.clear();
        }),
        (&[AttemptsBounded], |_, states| last(states).attempts[0].attempts = 6),
        (&[AttemptsBounded, TokensGrow], |_, states| last(states).investigations[0].attempts = 6),
        (&[EffectOnce], |_, states| {
            let again = Change { sequence: 3, id: "other".into(), ..last(states).changes[1].clone() };
            let observed = json!(2 + 1);
            last(states).memories[0].memory["observed_runs"] = observed;
            let evidence = again.change["effect"]["evidence"].clone();
            last(states).memories[0].memory["evidence"].as_array_mut().unwrap().push(evidence);
            last(states).memories[0].memory["tentative_runs"].as_array_mut().unwrap().push(json!("run-2"));
            last(states).changes.push(again);
        }),
        (&[MemoryIsFold], |_, states| {
            last(states).memories[0].memory["observed_runs"] = json!(3);
        }),
        (&[MemoryIsFold], |_, states| last(states).memories[0].weight = 1),
        (&[MemoryIsFold], |_, states| last(states).memories.clear()),
        (&[LogGrows], |_, states| {
            (states[0].changes, states[0].memories) = (changes(), vec![memory()]);
            states[0].changes[1].id = "written over later".into();
        }),
        (&[LogGrows], |_, states| {
            states[0].audit_log.push(AuditEntry {
                sequence: 7,
                subject_kind: "dead_letter".into(),
                subject_id: "letter-1".into(),
                action: "edited".into(),
                ..AuditEntry::default()
            });
        }),
        (&[DeadLetterOnce], |_, states| {
            let again = DeadLetter { id: "twice".into(), ..last(states).dead_letters[0].clone() };
            last(states).dead_letters.push(again);
        }),
        (&[DeadLetterOnce], |_, states| {
            let dropped = Attempt { sequence: 5, attempts: 5, ..last(states).attempts[0].clone() };
            last(states).attempts.push(dropped);
        }),
        (&[DeadLetterExact, NothingLost], |_, states| {
            last(states).dead_letters[0].payload_sha256 = sha256_hex(b"other")
        }),
        (&[DeadLetterExact], |_, states| {
            last(states).dead_letters[0].subject = "retro.run.completed.default.other".into();
        }),
        (&[ReplayOnce], |_, states| {
            let again = AuditEntry {
                sequence: 2,
                opened_retrospective: Some("another".into()),
                ..last(states).audit_log[0].clone()
            };
            last(states).audit_log.push(again);
        }),
        (&[ReplayOnce], |_, states| last(states).replays[0].state = "sent".into()),
        (&[ReplayOnce], |_, states| last(states).replays[0].number = 2),
        (&[ReplayOnce], |history, _| {
            for _ in 0..2 {
                let operation = Operation::Replay { dead_letter: "letter-2".into() };
                let done = RecordedOperation { operation, ..history.operations[0].clone() };
                history.operations.push(done);
            }
        }),
        (&[OutboxDrained], |_, states| last(states).outbox[0].sent = false),
        (&[OutboxDrained], |_, states| last(states).outbox[0].id = "never published".into()),
        (&[BrokerDrained], |_, states| last(states).broker.streams[0].consumers[0].ack_pending = 1),
        (&[AckAfterCommit], |_, states| states[0].broker.streams[0].consumers[0].ack_floor = 6),
        (&[AckAfterCommit], |_, states| last(states).retrospectives[1].state = "due".into()),
        (&[Progress], |history, _| drop(history.operations.pop())),
    ];
    for invariant in Invariant::ALL {
        assert!(table.iter().any(|(one, _)| one[0] == *invariant), "nothing breaks {}", invariant.as_str());
    }
    let mut wrong = Vec::new();
    for (at, (named, broken)) in table.iter().enumerate() {
        let (mut history, mut states) = (history(), vec![begun(), rest()]);
        broken(&mut history, &mut states);
        let checked = check_history(&history, &states, &floor());
        if checked.broken_invariants() != named.iter().copied().collect() {
            wrong.push(format!("row {at}, {named:?}: {:#?}", checked.violations));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lost_events_are_excused_only_when_the_broker_was_wiped() {
    let (mut history, states) = (history(), vec![begun(), rest()]);
    emit(&mut history, &event(6), OperationOutcome::Ok);
    assert_eq!(check_history(&history, &states, &floor()).broken_invariants().len(), 1);
    fault(&mut history, BROKER_WIPED);
    let checked = check_history(&history, &states, &floor());
    checked.assert_sound();
    assert!(checked.lost_with_broker[0].contains("run-6"), "{checked:?}");
    emit(&mut history, &event(7), OperationOutcome::Ok);
    let after = check_history(&history, &states, &floor());
    assert!(
        after.broken_invariants().contains(&Invariant::NothingLost),
        "acknowledged afterwards: {after:?}"
    );
}

#[test]
fn events_with_unknown_outcome_may_be_missing() {
    let (mut history, states) = (history(), vec![begun(), rest()]);
    emit(&mut history, &event(6), OperationOutcome::Unknown { reason: "killed".into() });
    check_history(&history, &states, &floor()).assert_sound();
}

fn floor() -> ProgressFloor {
    ProgressFloor { counted: 5, closed: 1, dead_letters: 1, ..ProgressFloor::default() }
        .with_fault("sigkill", 1)
}

fn last(states: &mut [State]) -> &mut State {
    states.last_mut().unwrap()
}

fn emit(history: &mut History, payload: &[u8], end: OperationOutcome) {
    let events = vec![Event::from_payload("default", "deploy", payload)];
    let operation = Operation::Emit { road: "nats".into(), events };
    history.operations.push(RecordedOperation {
        client: "t".into(),
        operation,
        end,
        begun_ms: 0,
        ended_ms: Some(1),
    });
}

fn fault(history: &mut History, kind: &str) {
    let operation = Operation::Kill { target: "up".into(), fault: kind.into() };
    let operation = if kind == BROKER_WIPED {
        Operation::Fault { fault: kind.into(), detail: "its folder was removed".into() }
    } else {
        operation
    };
    history.operations.push(RecordedOperation {
        client: "t".into(),
        operation,
        end: OperationOutcome::Ok,
        begun_ms: 0,
        ended_ms: Some(1),
    });
}

fn event(number: u64) -> Vec<u8> {
    payload(number, &format!("run-{number}"))
}

fn payload(number: u64, run: &str) -> Vec<u8> {
    let data = json!({"run_id": run, "workflow": "deploy", "outcome": "success"});
    json!({"specversion": "1.0", "id": format!("event-{number}"), "source": "s", "data": data})
        .to_string()
        .into_bytes()
}

fn history() -> History {
    let mut history = History::default();
    for number in 1..=RUNS {
        emit(&mut history, &event(number), OperationOutcome::Ok);
    }
    emit(&mut history, POISON, OperationOutcome::Ok);
    fault(&mut history, "sigkill");
    history
}

/// Returns a state in which three runs are counted and the first two are being investigated.
fn begun() -> State {
    let mut state = rest();
    state.workflows[0] =
        Workflow { recorded: 3, counted: 3, claimed: 2, epoch: 1, events: 3, ..state.workflows[0].clone() };
    state.runs.truncate(3);
    state.inbox.truncate(3);
    state.retrospectives.truncate(1);
    state.retrospectives[0].state = "investigating".into();
    state.investigations[0] = Investigation {
        token: 1,
        attempts: 1,
        ended: false,
        ended_token: None,
        result: None,
        ..state.investigations[0].clone()
    };
    state.journal.truncate(1);
    state.changes.clear();
    state.memories.clear();
    state.dead_letters.clear();
    state.audit_log.clear();
    state.broker.streams[0].consumers[0] =
        Consumer { name: "counter".into(), ack_floor: 2, ack_pending: 4, pending: 0 };
    state
}

/// Returns a state in which five runs are counted: the first two created a memory, the next two are being
/// investigated, and one message is a dead letter.
fn rest() -> State {
    let text = str::to_owned;
    let of = |number: u64| format!("run-{number}");
    State {
        workflows: vec![Workflow {
            tenant: text("default"),
            workflow: text("deploy"),
            recorded: 5,
            counted: 5,
            claimed: 4,
            epoch: 2,
            open: true,
            events: 5,
            paused: false,
        }],
        inbox: (1..=RUNS).map(known).collect(),
        runs: (1..=RUNS)
            .map(|number| Run {
                tenant: text("default"),
                workflow: text("deploy"),
                run_id: of(number),
                number,
                ordinal: Some(number),
            })
            .collect(),
        retrospectives: vec![retrospective(1, "closed"), retrospective(2, "investigating")],
        investigations: vec![Investigation {
            tenant: text("default"),
            retrospective: text("retrospective-1"),
            number: 1,
            run_id: of(1),
            token: 3,
            ended_token: Some(3),
            attempts: 2,
            ended: true,
            result: Some(text("found")),
        }],
        journal: vec![journalled("briefed", 1), journalled("answered", 3)],
        changes: changes(),
        memories: vec![memory()],
        outbox: vec![OutboxRow {
            id: text("message-1"),
            kind: text("retrospective.due"),
            workflow: text("deploy"),
            sent: true,
        }],
        attempts: vec![Attempt {
            consumer: text("counter"),
            stream: text("RETRO_INTAKE"),
            sequence: 6,
            attempts: 2,
        }],
        dead_letters: vec![DeadLetter {
            id: text("letter-1"),
            consumer: text("counter"),
            stream: text("RETRO_INTAKE"),
            sequence: 6,
            subject: text("retro.run.completed.default.deploy"),
            payload_hex: POISON.iter().map(|byte| format!("{byte:02x}")).collect(),
            payload_sha256: sha256_hex(POISON),
            code: text("not_utf8"),
            attempts: 1,
            status: text("open"),
        }],
        audit_log: vec![AuditEntry {
            sequence: 1,
            tenant: text("default"),
            subject_kind: text("dead_letter"),
            subject_id: text("letter-1"),
            action: text("replayed"),
            opened_retrospective: Some(text("retrospective-2")),
            ..AuditEntry::default()
        }],
        replays: vec![Replay {
            id: text("replay-1"),
            dead_letter: text("letter-2"),
            number: 1,
            state: text("handled"),
        }],
        broker: broker(),
        ..State::default()
    }
}

fn known(number: u64) -> InboxRow {
    let content_hash =
        Event::from_payload("default", "deploy", &event(number)).parsed.unwrap().content_sha256;
    InboxRow {
        consumer: "counter".into(),
        tenant: "default".into(),
        source: "s".into(),
        event_id: format!("event-{number}"),
        content_hash,
    }
}

fn retrospective(epoch: i64, state: &str) -> Retrospective {
    let last_ordinal = epoch.unsigned_abs() * 2;
    Retrospective {
        tenant: "default".into(),
        id: format!("retrospective-{epoch}"),
        workflow: "deploy".into(),
        epoch,
        first_ordinal: last_ordinal - 1,
        last_ordinal,
        as_of: "2026-11-20T10:00:00Z".into(),
        state: state.into(),
        sample: Some("drawn".into()),
        manual: false,
    }
}

fn journalled(stage: &str, token: u64) -> JournalEntry {
    let (tenant, retrospective) = ("default".to_owned(), "retrospective-1".to_owned());
    JournalEntry { tenant, retrospective, number: 1, stage: stage.into(), token }
}

fn changes() -> Vec<Change> {
    let evidence = |run: &str| json!({"run": run, "epoch": 1, "quote": {"text": "refused"}});
    let created = json!({"change": "created", "scope": {"scope": "step"}, "lesson": {"title": "Name the region"},
        "status": "tentative", "weight": 0, "evidence": evidence("run-1")});
    let observed = json!({"change": "observed", "evidence": evidence("run-2")});
    let change = |sequence: u64, effect: &Value, run: &str| Change {
        sequence,
        tenant: "default".into(),
        id: format!("change-{sequence}"),
        workflow: "deploy".into(),
        memory: "memory-1".into(),
        kind: effect["change"].as_str().unwrap().into(),
        cause: "run".into(),
        cause_id: run.into(),
        change: json!({"memory": "memory-1", "effect": effect, "epoch": 1, "at": "t"}),
    };
    vec![change(1, &created, "run-1"), change(2, &observed, "run-2")]
}

fn memory() -> Memory {
    let folded = changes().iter().fold(None, |memory, change| {
        crate::fold::fold_change(memory, &change.change).expect("the changes fit")
    });
    let memory = folded.expect("the changes create a memory");
    Memory { tenant: "default".into(), id: "memory-1".into(), status: "tentative".into(), weight: 0, memory }
}

fn broker() -> Broker {
    let subject = "retro.run.completed.default.deploy";
    let payloads = (1..=RUNS).map(event).chain([POISON.to_vec()]);
    let stored = payloads.zip(1..).map(|(payload, sequence)| StoredMessage {
        sequence,
        subject: subject.into(),
        headers: Vec::new(),
        payload,
    });
    let wake_up = StoredMessage {
        sequence: 1,
        subject: "retro.work.retrospective.due.default.deploy".into(),
        headers: vec![("Nats-Msg-Id".into(), "message-1".into())],
        payload: json!({"notice": {"retrospective": "retrospective-2"}}).to_string().into_bytes(),
    };
    let consumer =
        |name: &str, ack_floor| Consumer { name: name.into(), ack_floor, ack_pending: 0, pending: 0 };
    let intake = Stream {
        name: "RETRO_INTAKE".into(),
        last_sequence: 6,
        messages: stored.collect(),
        consumers: vec![consumer("counter", 6)],
    };
    let work = Stream {
        name: "RETRO_WORK".into(),
        last_sequence: 1,
        messages: vec![wake_up],
        consumers: vec![consumer("sampler", 1)],
    };
    Broker { streams: vec![intake, work] }
}
