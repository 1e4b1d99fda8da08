//! Every instrument. The sentence above each is what is told about it everywhere.

use crate::instrument::{Count, Described, Kind, Level, Spread};

/// Handling: a healthy batch takes milliseconds, the bound of a handler is two minutes.
const HANDLING_S: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];
/// Answers to agents: about a millisecond, and a fifth of a second is the bound.
const ANSWER_S: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5];
/// An investigation: milliseconds by heuristics, minutes by a model.
const INVESTIGATION_S: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 3600.0];
/// From an event to what came of it: as long as it takes until the window is full, a second or a month.
const LEARNING_S: &[f64] =
    &[1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0, 2_592_000.0];
/// Messages handed over at once: at most the batch of the counter.
const BATCH: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];

/// Makes the instruments, and the list of them that none can be left out of.
macro_rules! instruments {
    ($($(#[doc = $says:literal])+ $name:ident: $kind:ident [$($label:literal),*] = $otlp:literal, $unit:literal $(, $bounds:expr)?;)*) => {
        $(
            $(#[doc = $says])+
            pub static $name: $kind<{ <[&str]>::len(&[$($label),*]) }> = $kind::new(
                Described {
                    name: $otlp,
                    kind: Kind::$kind,
                    unit: $unit,
                    labels: &[$($label),*],
                    says: concat!($($says),+).trim_ascii(),
                }
                $(, $bounds)?
            );
        )*

        /// Every instrument, in the order in which people read them.
        pub const ALL: &[Described] = &[$(Described {
            name: $otlp,
            kind: Kind::$kind,
            unit: $unit,
            labels: &[$($label),*],
            says: concat!($($says),+).trim_ascii(),
        }),*];
    };
}

instruments! {
    /// Messages that a consumer took from the broker, redeliveries included.
    CONSUMED: Count["messaging.system", "messaging.operation.name", "messaging.consumer.group.name"] = "messaging.client.consumed.messages", "{message}";
    /// Messages of our own that the broker confirmed, repetitions included.
    SENT: Count["messaging.system", "messaging.operation.name"] = "messaging.client.sent.messages", "{message}";
    /// How long a consumer's handler took for what it was handed at once.
    PROCESS_DURATION: Spread["messaging.system", "messaging.operation.name", "messaging.consumer.group.name"] = "messaging.process.duration", "s", HANDLING_S;
    /// Messages handed to a handler at once.
    BATCH_SIZE: Spread["messaging.consumer.group.name"] = "retro.handler.batch.messages", "{message}", BATCH;
    /// Messages that a consumer has not answered for: not yet sent to it, and in its hands.
    LAG: Level["messaging.consumer.group.name"] = "retro.consumer.lag.messages", "{message}";
    /// How long the oldest message that a consumer has not answered for has lain in its stream; 0 when there is none.
    LAG_AGE: Level["messaging.consumer.group.name"] = "retro.consumer.lag.age", "s";
    /// Messages that were delivered before.
    REDELIVERED: Count["messaging.consumer.group.name"] = "retro.messages.redelivered", "{message}";
    /// What consumers answered: done, known (handled before: nothing changed), retry, snooze (put off without spending an attempt) or dead_letter.
    ANSWERED: Count["messaging.consumer.group.name", "retro.verdict"] = "retro.messages.answered", "{message}";
    /// Attempts at single messages that were counted in the database before the handler ran.
    ATTEMPTS: Count["messaging.consumer.group.name"] = "retro.attempts.begun", "{attempt}";
    /// Handlers that broke: panic, timeout, or answers for another number of messages (miscounted).
    BROKE: Count["messaging.consumer.group.name", "error.type"] = "retro.handler.broke", "{batch}";
    /// Messages that were given up and stored as dead letters.
    BURIED: Count["messaging.consumer.group.name", "retro.code"] = "retro.dead_letters.buried", "{message}";
    /// Replays of dead letters that something came of: handled, known (handled before: nothing changed), failed (given up again) or refused (the broker does not take it).
    REPLAYED: Count["retro.outcome"] = "retro.replays.ended", "{replay}";
    /// Dead letters that nobody has acted on.
    LETTERS_OPEN: Level["retro.code"] = "retro.dead_letters.open", "{message}";
    /// How long the oldest dead letter that nobody has acted on has been there; 0 when there is none.
    LETTERS_AGE: Level[] = "retro.dead_letters.open.age", "s";

    /// Messages of the outbox that wait to be sent; counted up to 100,000.
    OUTBOX_UNSENT: Level[] = "retro.outbox.unsent.messages", "{message}";
    /// How long the oldest message of the outbox has waited to be sent; 0 when there is none.
    OUTBOX_AGE: Level[] = "retro.outbox.unsent.age", "s";
    /// Rounds of the relay in which reading the outbox, publishing or marking as sent failed.
    RELAY_FAILED: Count[] = "retro.outbox.failures", "{round}";

    /// Runs that were looked at for counting: counted, updated, recorded (kept and not counted), superseded, duplicate or conflict.
    RUNS_COUNTED: Count["retro.disposition"] = "retro.runs.taken", "{run}";
    /// Retrospectives that are open, automatic ones.
    RETROSPECTIVES_OPEN: Level[] = "retro.retrospectives.open", "{retrospective}";
    /// How long the oldest open retrospective has been open, automatic ones; 0 when there is none.
    RETROSPECTIVES_AGE: Level[] = "retro.retrospectives.open.age", "s";
    /// Retrospectives that ended, manual ones included.
    RETROSPECTIVES_CLOSED: Count["retro.outcome"] = "retro.retrospectives.closed", "{retrospective}";

    /// Investigations that a worker may claim now.
    CLAIMABLE: Level[] = "retro.investigations.claimable", "{investigation}";
    /// Investigations that ended: found, nothing, invalid, failed or body_gone.
    INVESTIGATED: Count["retro.outcome"] = "retro.investigations.ended", "{investigation}";
    /// How long an attempt at an investigation took, from claim to end.
    INVESTIGATION_DURATION: Spread[] = "retro.investigation.duration", "s", INVESTIGATION_S;
    /// Attempts at investigations that failed and are made again.
    INVESTIGATION_RETRIES: Count[] = "retro.investigations.retried", "{attempt}";
    /// Claims whose lease another worker had let run out.
    TAKEOVERS: Count[] = "retro.lease.takeovers", "{claim}";
    /// Workers that were told that their lease was taken over: they wrote nothing.
    FENCED: Count[] = "retro.lease.fenced", "{claim}";

    /// Investigated runs that memories were presented to, by whether the agent opened one of them (read) or none (none).
    READ_SIGNAL: Count["retro.read_signal"] = "retro.runs.presented", "{run}";
    /// From the storing of the event that confirmed a memory to the moment from which agents are handed it.
    INJECTABLE: Spread[] = "retro.memory.event_to_injectable", "s", LEARNING_S;
    /// What the writer did to memory, by kind of change.
    CHANGES: Count["retro.change"] = "retro.memory.changes", "{change}";
    /// How long the tentative memory that has waited longest has waited for a second run; 0 when there is none.
    TENTATIVE_AGE: Level[] = "retro.memory.tentative.age", "s";

    /// Texts that an embedder which is not built in was wanted for: made, failed, or left_alone (not asked, since it fails again and again); what was not made is compared by the built-in one.
    EMBEDDED: Count["retro.outcome"] = "retro.embedder.texts", "{text}";
    /// For how long the embedder behind an address is left alone at a time because it fails; 0 while it answers.
    EMBEDDER_LEFT_ALONE: Level[] = "retro.embedder.left_alone", "s";
    /// Memories that lack a vector of the embedder in use and are compared by the built-in one; counted up to 100,000.
    VECTORS_LACKING: Level[] = "retro.embedder.lacking", "{memory}";

    /// Webhooks of GitHub by what became of them: taken, ping, not_taken (an event or action that is not used), incomplete (without what it would have to say, or in another shape), unmapped (of no tenant), unsigned, refused (not to be read), busy or failed (the broker did not take it). Events that are not used are other.
    WEBHOOKS: Count["retro.github.kind", "retro.outcome"] = "retro.github.deliveries", "{delivery}";

    /// Answers to agents who asked for context: given, nothing_eligible or unavailable (the database was away or slow).
    CONTEXT: Count["retro.reason"] = "retro.context.answers", "{answer}";
    /// How long an answer to an agent who asked for context took.
    CONTEXT_DURATION: Spread[] = "retro.context.duration", "s", ANSWER_S;
    /// Memories that were handed to runs, previews left out.
    PRESENTED: Count[] = "retro.memories.presented", "{memory}";
    /// Rules that were kept back from agents because their words are taken for hostile.
    RULES_WITHHELD: Count[] = "retro.rules.withheld", "{rule}";
    /// Memories that runs opened.
    READ: Count[] = "retro.memories.read", "{memory}";

    /// Rows that retention purged.
    PURGED: Count["retro.stage"] = "retro.retention.purged", "{row}";
    /// Edits of the policy while the process ran: taken up, or refused because they cannot be used.
    POLICY_EDITS: Count["retro.outcome"] = "retro.policy.edits", "{edit}";
    /// Looks at the database for the levels here, and at the broker for lag: ok or failed. What failed is absent until it is known again.
    LOOKS: Count["retro.source", "retro.outcome"] = "retro.levels.looks", "{look}";

    /// The program's version, as a label of what is always 1.
    BUILD: Level["service.version"] = "retro.build.info", "{build}";
    /// Memory of the process that is resident.
    MEMORY: Level[] = "process.memory.usage", "By";
}
