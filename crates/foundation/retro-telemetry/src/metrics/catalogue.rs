//! Defines all instruments. The doc comment of an instrument becomes its description over OTLP, in `/metrics`
//! and in the manual.

use super::instrument::{Counter, Gauge, Histogram, InstrumentInfo, Kind};

/// Histogram bounds for handling times, in seconds. A healthy batch takes milliseconds, and a handler is
/// stopped after two minutes.
const HANDLING_S: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0];
/// Histogram bounds for the durations of context answers, in seconds. An answer usually takes about a
/// millisecond, and by default at most 0.2 s.
const ANSWER_S: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5];
/// Histogram bounds for the durations of investigations, in seconds. Heuristics take milliseconds, and a model
/// takes minutes.
const INVESTIGATION_S: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 3600.0];
/// Histogram bounds for tokens, as the GenAI conventions of OpenTelemetry advise.
const GEN_AI_TOKEN_BOUNDS: &[f64] =
    &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];
/// Histogram bounds for the durations of model calls, in seconds, as the same conventions advise, up to the waits for an
/// endpoint that is away.
const GEN_AI_S: &[f64] = &[0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 81.92, 163.84, 655.36];
/// Histogram bounds for the time from an event to the memory that it confirms, in seconds. This is the time
/// in which the window fills, from a second to a month.
const LEARNING_S: &[f64] =
    &[1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0, 2_592_000.0];
/// Histogram bounds for the number of messages in a batch, up to the batch size of the counter.
const BATCH_MESSAGES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];

/// Defines the instruments together with the list of all instruments, so the list is always complete.
macro_rules! instruments {
    ($($(#[doc = $description:literal])+ $name:ident: $kind:ident [$($label:literal),*] = $otlp:literal, $unit:literal $(, $bounds:expr)?;)*) => {
        $(
            $(#[doc = $description])+
            pub static $name: $kind<{ <[&str]>::len(&[$($label),*]) }> = $kind::new(
                InstrumentInfo {
                    name: $otlp,
                    kind: Kind::$kind,
                    unit: $unit,
                    labels: &[$($label),*],
                    description: concat!($($description),+).trim_ascii(),
                }
                $(, $bounds)?
            );
        )*

        /// All instruments, in display order.
        pub const ALL: &[InstrumentInfo] = &[$(InstrumentInfo {
            name: $otlp,
            kind: Kind::$kind,
            unit: $unit,
            labels: &[$($label),*],
            description: concat!($($description),+).trim_ascii(),
        }),*];
    };
}

instruments! {
    /// Messages that a consumer received from the broker, redeliveries included.
    MESSAGES_CONSUMED: Counter["messaging.system", "messaging.operation.name", "messaging.consumer.group.name"] = "messaging.client.consumed.messages", "{message}";
    /// Messages that the program published and the broker confirmed, repetitions included.
    MESSAGES_SENT: Counter["messaging.system", "messaging.operation.name"] = "messaging.client.sent.messages", "{message}";
    /// Time that a consumer's handler took for one batch.
    PROCESS_DURATION: Histogram["messaging.system", "messaging.operation.name", "messaging.consumer.group.name"] = "messaging.process.duration", "s", HANDLING_S;
    /// Messages passed to a handler in one batch.
    BATCH_SIZE: Histogram["messaging.consumer.group.name"] = "retro.handler.batch.messages", "{message}", BATCH_MESSAGES;
    /// Unacknowledged messages of a consumer, whether or not they were delivered to it.
    CONSUMER_LAG: Gauge["messaging.consumer.group.name"] = "retro.consumer.lag.messages", "{message}";
    /// Age of the oldest unacknowledged message of a consumer; 0 if there is none.
    CONSUMER_LAG_AGE: Gauge["messaging.consumer.group.name"] = "retro.consumer.lag.age", "s";
    /// Messages received by a consumer again, after an earlier delivery.
    MESSAGES_REDELIVERED: Counter["messaging.consumer.group.name"] = "retro.messages.redelivered", "{message}";
    /// Handled messages by outcome: done, known (handled before: nothing changed), retry, snooze (deferred
    /// without using up an attempt) or dead_letter.
    HANDLER_OUTCOMES: Counter["messaging.consumer.group.name", "retro.outcome"] = "retro.messages.handled", "{message}";
    /// Attempts at single messages that were counted in the database before the handler ran.
    ATTEMPTS_BEGUN: Counter["messaging.consumer.group.name"] = "retro.attempts.started", "{attempt}";
    /// Batches whose handler failed as a whole: by panic, by timeout, or by returning the wrong number of
    /// outcomes (miscounted).
    HANDLER_FAILURES: Counter["messaging.consumer.group.name", "error.type"] = "retro.handler.failures", "{batch}";
    /// Messages that were rejected and stored as dead letters.
    DEAD_LETTERS_STORED: Counter["messaging.consumer.group.name", "retro.code"] = "retro.dead_letters.created", "{message}";
    /// Replays of dead letters by outcome: handled, known (handled before: nothing changed), failed (rejected
    /// again) or refused (not accepted by the broker).
    REPLAYS_ENDED: Counter["retro.outcome"] = "retro.replays.completed", "{replay}";
    /// Open dead letters, which no operator has acted on.
    DEAD_LETTERS_OPEN: Gauge["retro.code"] = "retro.dead_letters.open", "{message}";
    /// Age of the oldest open dead letter; 0 if there is none.
    DEAD_LETTERS_AGE: Gauge[] = "retro.dead_letters.open.age", "s";

    /// Messages of the outbox that wait to be sent; counted up to 100,000.
    OUTBOX_UNSENT: Gauge[] = "retro.outbox.unsent.messages", "{message}";
    /// Age of the oldest unsent message of the outbox; 0 if there is none.
    OUTBOX_AGE: Gauge[] = "retro.outbox.unsent.age", "s";
    /// Rounds of the relay that failed to read the outbox, to publish, or to mark messages as sent.
    RELAY_FAILURES: Counter[] = "retro.outbox.failures", "{round}";

    /// Runs processed by the counter: counted, updated, recorded (stored and not counted), superseded, duplicate
    /// or conflict.
    RUNS_COUNTED: Counter["retro.disposition"] = "retro.runs.processed", "{run}";
    /// Open automatic retrospectives.
    RETROSPECTIVES_OPEN: Gauge[] = "retro.retrospectives.open", "{retrospective}";
    /// Age of the oldest open automatic retrospective; 0 if there is none.
    RETROSPECTIVES_AGE: Gauge[] = "retro.retrospectives.open.age", "s";
    /// Ended retrospectives by outcome, manual ones included.
    RETROSPECTIVES_CLOSED: Counter["retro.outcome"] = "retro.retrospectives.closed", "{retrospective}";

    /// Investigations that a worker may claim now.
    INVESTIGATIONS_CLAIMABLE: Gauge[] = "retro.investigations.claimable", "{investigation}";
    /// Ended investigations by outcome: found, nothing, invalid, failed or body_gone.
    INVESTIGATIONS_ENDED: Counter["retro.outcome"] = "retro.investigations.ended", "{investigation}";
    /// Duration of one attempt at an investigation, from claim to end.
    INVESTIGATION_DURATION: Histogram[] = "retro.investigation.duration", "s", INVESTIGATION_S;
    /// Failed attempts at investigations that will be retried.
    INVESTIGATION_RETRIES: Counter[] = "retro.investigations.retried", "{attempt}";
    /// Claims that took over an investigation after another worker's lease had expired.
    TAKEOVERS: Counter[] = "retro.lease.takeovers", "{claim}";
    /// Writes refused because the worker's lease had been taken over.
    CLAIMS_FENCED: Counter[] = "retro.lease.fenced", "{claim}";

    /// Investigated runs of closed retrospectives that memories were presented to, by the strongest signal about one of
    /// them: feedback (somebody said what it did), applied (the trace shows it), read (the agent opened it) or none.
    RUN_SIGNALS: Counter["retro.signal"] = "retro.runs.presented", "{run}";
    /// Time from storing the event that confirmed a memory until agents receive the memory.
    EVENT_TO_INJECTABLE: Histogram[] = "retro.memory.event_to_injectable", "s", LEARNING_S;
    /// Changes that the writer made to memories, by kind.
    MEMORY_CHANGES: Counter["retro.change"] = "retro.memory.changes", "{change}";
    /// Age of the tentative memory that has waited longest for a second run; 0 if there is none.
    TENTATIVE_AGE: Gauge[] = "retro.memory.tentative.age", "s";
    /// Decisions of the gate about what is learnt: held (put into quarantine until a person decides) or refused
    /// (never kept).
    GATE_DECISIONS: Counter["retro.decision"] = "retro.gate.decisions", "{decision}";
    /// Memories and rules that are held until a person releases or retires them, by status (tentative, active or
    /// archived); counted up to 100,000. No agent is shown them.
    MEMORIES_HELD: Gauge["retro.status"] = "retro.memories.held", "{memory}";
    /// Engaged kill switches, by what they stop (everybody, tenant, workflow or step). No memory is handed out there.
    KILL_SWITCHES_ENGAGED: Gauge["retro.scope"] = "retro.kill_switches.engaged", "{switch}";

    /// Texts for a configured embedder: embedded, failed, or circuit_open (not sent, because the circuit breaker
    /// is open). Texts without an embedding are compared by the built-in embedder.
    TEXTS_EMBEDDED: Counter["retro.outcome"] = "retro.embedder.texts", "{text}";
    /// Current pause of the circuit breaker in front of the configured embedder; 0 while the embedder
    /// responds.
    EMBEDDER_CIRCUIT_OPEN: Gauge[] = "retro.embedder.circuit_open", "s";
    /// Memories for which no embedding by the configured embedder is stored; counted up to 100,000.
    EMBEDDINGS_MISSING: Gauge[] = "retro.embedder.missing_vectors", "{memory}";
    /// Attempts to decide that stored nothing, because the memories to compare had changed while their vectors
    /// were fetched. The texts are collected again; after three attempts the message is retried later, or the
    /// request of a person is answered with 503.
    SCOPE_CHANGES: Counter[] = "retro.embedder.scope_changes", "{attempt}";

    /// Spans received over HTTP by outcome: read (of a trace that was whole in its request), stored (until the run of their
    /// trace is read), ignored (of a trace without a call of an agent, a model or a tool), late (of a trace that was read or
    /// given up before), refused (too many of one trace, or of a run that is invalid), or invalid (without valid ids).
    SPANS_RECEIVED: Counter["retro.outcome"] = "retro.spans.received", "{span}";
    /// Traces by outcome: read (their run was published), read_again (a newer attempt of it, with spans that came later),
    /// given_up (a dead letter, since their root did not come), refused (a run that is invalid) or ignored (no agent, model
    /// or tool was called).
    TRACES_PROCESSED: Counter["retro.outcome"] = "retro.traces.processed", "{trace}";
    /// Traces of which spans are stored that no run was read from yet; counted up to 100,000.
    TRACES_WAITING: Gauge[] = "retro.traces.waiting", "{trace}";
    /// Time since the last span of the trace that has waited longest without one; 0 if none waits.
    TRACES_WAITING_AGE: Gauge[] = "retro.traces.waiting.age", "s";
    /// Tokens that calls of a language model used, by direction: input (cached ones included) or output. Calls that failed
    /// count too, as far as the endpoint told.
    GEN_AI_TOKENS: Histogram["gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.token.type"] = "gen_ai.client.token.usage", "{token}", GEN_AI_TOKEN_BOUNDS;
    /// Duration of a call of a language model with its retries and waits, by the kind of its failure: unavailable,
    /// misconfigured, rejected or unreadable; empty if it was answered.
    GEN_AI_DURATION: Histogram["gen_ai.operation.name", "gen_ai.provider.name", "error.type"] = "gen_ai.client.operation.duration", "s", GEN_AI_S;
    /// Current pause of the circuit breaker in front of the language model; 0 while it answers.
    MODEL_CIRCUIT_OPEN: Gauge[] = "retro.model.circuit_open", "s";
    /// Investigations for which a language model is configured: with the model, or by the heuristics alone because it was
    /// unavailable or over_budget, because its prompt could not be rendered (prompt_broken), or because it is no_stage of the
    /// pipeline. Where only the model is a stage, the attempt fails instead.
    MODEL_INVESTIGATIONS: Counter["retro.outcome"] = "retro.model.investigations", "{investigation}";
    /// Decisions about reviews for which a language model is configured: with the model for all remarks that it may read, or by
    /// the heuristics at least in part, because the model was unavailable, over_budget, too_slow or gave no answer that can be
    /// used (invalid), because its prompt could not be rendered (prompt_broken), because there were too_many remarks, or because
    /// there was nothing_to_read.
    MODEL_REVIEWS: Counter["retro.outcome"] = "retro.model.reviews", "{review}";

    /// GitHub webhooks by outcome: accepted, ping, ignored (an unused event or action), incomplete (a required
    /// field is missing or has another shape), unmapped (the repository belongs to no tenant), unsigned, refused
    /// (unreadable), busy, or failed (not accepted by the broker). Unused events have the kind other.
    WEBHOOKS: Counter["retro.github.kind", "retro.outcome"] = "retro.github.deliveries", "{delivery}";

    /// Requests refused before they reached a route: missing_token, invalid_token, other_tenant (a token with the
    /// name of another tenant), insufficient_scope, too_many_requests, unavailable (a token that cannot be checked), or
    /// unreadable.
    HTTP_REFUSED: Counter["retro.reason"] = "retro.http.refused", "{request}";

    /// Context answers to agents: answered, nothing_eligible, withheld (by chance, every eligible memory), switched_off
    /// (by a kill switch) or unavailable (the database was unreachable or slow).
    CONTEXT_ANSWERS: Counter["retro.reason"] = "retro.context.answers", "{answer}";
    /// Answers to searches of agents: answered, nothing_found, withheld (by chance, everything about the query) or
    /// unavailable (the database was unreachable or slow, or the query had no word).
    SEARCH_ANSWERS: Counter["retro.reason"] = "retro.search.answers", "{answer}";
    /// Steps and repositories from whose memories and rules answers were chosen: from the cache of the gateway (memory), or
    /// from the database.
    CONTEXT_SCOPES: Counter["retro.source"] = "retro.context.scopes", "{scope}";
    /// Requests of agents over the broker, by operation and outcome: answered (with nothing and the reason included),
    /// refused (unreadable, too large, or about what the agent may not see), busy (answered with nothing, because too many
    /// are in progress) or no_reply (ignored, because it names no subject for the answer).
    AGENT_REQUESTS: Counter["retro.operation", "retro.outcome"] = "retro.agents.requests", "{request}";
    /// Duration of a context answer.
    CONTEXT_DURATION: Histogram[] = "retro.context.duration", "s", ANSWER_S;
    /// Memories presented to runs, previews not included.
    MEMORIES_PRESENTED: Counter[] = "retro.memories.presented", "{memory}";
    /// Memories that chance withheld from runs, to measure their effect; previews not included.
    MEMORIES_WITHHELD: Counter[] = "retro.memories.withheld_by_chance", "{memory}";
    /// Memories blocked from agents until a person has looked at them: held ones, and those to which the gate
    /// objects.
    MEMORIES_BLOCKED: Counter[] = "retro.memories.blocked", "{memory}";
    /// Rules blocked from agents, as memories are.
    RULES_BLOCKED: Counter[] = "retro.rules.blocked", "{rule}";
    /// Memories that runs opened.
    MEMORIES_READ: Counter[] = "retro.memories.read", "{memory}";
    /// Feedback on memories and rules, by who gave it (agent, person or evaluation), by verdict (helped, hurt or wrong)
    /// and by outcome: recorded, already_recorded, or refused because a limit is reached.
    FEEDBACK_RECEIVED: Counter["retro.source", "retro.verdict", "retro.outcome"] = "retro.memories.feedback", "{feedback}";

    /// Rows purged by retention.
    ROWS_PURGED: Counter["retro.stage"] = "retro.retention.purged", "{row}";
    /// Edits of the policy file while the process runs: applied, or refused as invalid.
    POLICY_EDITS: Counter["retro.outcome"] = "retro.policy.edits", "{edit}";
    /// Reads of the database and the broker for the gauges: ok or failed. A gauge whose read failed is absent
    /// until the next one succeeds.
    METRIC_READS: Counter["retro.source", "retro.outcome"] = "retro.metrics.collections", "{collection}";

    /// Version of the program as a label; the value is always 1.
    BUILD_INFO: Gauge["service.version"] = "retro.build.info", "{build}";
    /// Resident memory of the process.
    PROCESS_MEMORY: Gauge[] = "process.memory.usage", "By";
}
