-- All tables: counting, sampling, investigating, writing, recalling, reviewing, tracking, delivering.
--
-- Conventions: columns `…_ms` are Unix time in milliseconds by this database's clock; columns `…_at` and `until` are
-- policy time, RFC 3339 in UTC with nine decimals, so that text order is time order, unless the comment names another
-- clock. `trace` is a W3C `traceparent`, followed by a space and the `tracestate` if there is one; NULL: not traced. No
-- decision and no id depends on it. Weights are thousandths. Columns named after a type hold its JSON. Every key and
-- every query begins with the tenant, except where a comment gives a reason.

-- Windows of the workflows: one row for each workflow that has stored a run.
CREATE TABLE workflows (
    tenant       TEXT    NOT NULL,           -- owner of the workflow
    workflow     TEXT    NOT NULL,           -- name that the emitter gives it
    -- stored runs, including uncounted ones; the last runs.number that was assigned
    recorded     INTEGER NOT NULL,
    counted      INTEGER NOT NULL,           -- last ordinal that was assigned
    claimed      INTEGER NOT NULL,           -- last ordinal that a retrospective has claimed and not released
    epoch        INTEGER NOT NULL,           -- last epoch that was used
    open         INTEGER NOT NULL CHECK (open IN (0, 1)), -- whether the retrospective of that epoch is open
    failures     INTEGER NOT NULL,           -- consecutive retrospectives that failed
    paused_until TEXT,                       -- no retrospective opens before this policy time
    events       INTEGER NOT NULL DEFAULT 0, -- events that were handled, so that nothing has to count the inbox
    PRIMARY KEY (tenant, workflow),
    CHECK (claimed <= counted AND counted <= recorded)
) STRICT, WITHOUT ROWID;

-- Events that were handled, so that handling one again changes nothing. A purged row leaves a digest in seen_events.
CREATE TABLE inbox (
    consumer     TEXT    NOT NULL, -- consumer that handled the event
    tenant       TEXT    NOT NULL,
    source       TEXT    NOT NULL, -- CloudEvents source
    event_id     TEXT    NOT NULL, -- CloudEvents id
    -- SHA-256 of `data` in canonical JSON; a different one under the same id is a conflict
    content_hash TEXT    NOT NULL,
    received_ms  INTEGER NOT NULL,
    PRIMARY KEY (consumer, tenant, source, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_by_age ON inbox (received_ms);

-- Identities of runs. Never purged: details may be deleted, but a run is never counted again.
CREATE TABLE runs (
    tenant          TEXT    NOT NULL,
    workflow        TEXT    NOT NULL,
    run_id          TEXT    NOT NULL, -- id that the emitter gave the run
    number          INTEGER NOT NULL, -- order of arrival within the workflow, from 1; key of the details
    ordinal         INTEGER,          -- order among the counted runs, from 1; NULL: recorded, not counted
    attempt         INTEGER NOT NULL, -- highest attempt that was received
    received_ms     INTEGER NOT NULL, -- time at which it was first stored
    -- sequence in the intake stream when the run was first counted. A claim assigns the ordinals of its window again in
    -- this order, so the window does not depend on which counter was faster
    intake_sequence INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow, run_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX runs_by_number ON runs (tenant, workflow, number);
CREATE UNIQUE INDEX runs_by_ordinal ON runs (tenant, workflow, ordinal) WHERE ordinal IS NOT NULL;
CREATE INDEX runs_by_arrival ON runs (tenant, received_ms);

-- Facts of each run, from its event. Rows are stored in the order of arrival, so that new ones are appended.
CREATE TABLE run_facts (
    tenant       TEXT    NOT NULL,
    workflow     TEXT    NOT NULL,
    number       INTEGER NOT NULL, -- runs.number
    facts        TEXT    NOT NULL, -- RunFacts
    body         TEXT    NOT NULL, -- BodyRef: none, stored (in run_bodies), object (at the broker) or dropped
    -- start of the retention time of an uncounted run, which no retrospective claims; NULL: the run is counted
    uncounted_ms INTEGER,
    trace        TEXT,             -- trace context in which the run was counted
    UNIQUE (tenant, workflow, number)
) STRICT;
CREATE INDEX run_facts_uncounted ON run_facts (uncounted_ms) WHERE uncounted_ms IS NOT NULL;

-- Redacted trajectories of runs. Separate from the facts, because they are large and are deleted earlier.
CREATE TABLE run_bodies (
    tenant     TEXT    NOT NULL,
    workflow   TEXT    NOT NULL,
    number     INTEGER NOT NULL, -- runs.number
    trajectory BLOB    NOT NULL, -- JSON of Trajectory, compressed with zstd
    UNIQUE (tenant, workflow, number)
) STRICT;

-- Retrospectives: claimed windows and their progress.
CREATE TABLE retrospectives (
    tenant          TEXT    NOT NULL,
    id              TEXT    NOT NULL, -- derived from tenant, workflow and epoch
    workflow        TEXT    NOT NULL,
    -- number within the workflow, from 1. A manual one has no epoch: its number counts down from -1 and only keeps the
    -- key unique
    epoch           INTEGER NOT NULL,
    first_ordinal   INTEGER NOT NULL, -- first ordinal of the window; 0 in a manual retrospective, which claims nothing
    last_ordinal    INTEGER NOT NULL, -- last ordinal of the window
    as_of           TEXT    NOT NULL, -- policy time of the retrospective
    policy          TEXT    NOT NULL, -- Policy at the time of opening
    state           TEXT    NOT NULL
        CHECK (state IN ('due', 'investigating', 'settling', 'closed', 'failed', 'cancelled')),
    sample          TEXT,             -- Sample: seed, shuffled order and size; NULL until it is drawn
    opened_ms       INTEGER NOT NULL,
    state_ms        INTEGER NOT NULL, -- time of the last change of state
    -- ManualRequest: who requested it, for which runs and with which question; NULL: automatic
    request         TEXT,
    -- details of the window that retention has deleted: 0 none, 1 the bodies, 2 the facts too
    deleted_details INTEGER NOT NULL DEFAULT 0 CHECK (deleted_details IN (0, 1, 2)),
    trace           TEXT,             -- trace context of the run that filled the window, or of the manual request
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, workflow, epoch),
    CHECK (first_ordinal <= last_ordinal)
) STRICT;
-- At most one automatic retrospective is open in a workflow, whatever the program decides.
CREATE UNIQUE INDEX retrospectives_open ON retrospectives (tenant, workflow)
    WHERE request IS NULL AND state IN ('due', 'investigating', 'settling');
-- For the sweep that finds retrospectives whose message was lost.
CREATE INDEX retrospectives_waiting ON retrospectives (state, state_ms)
    WHERE state IN ('due', 'settling');
-- For retention, oldest first.
CREATE INDEX retrospectives_with_bodies ON retrospectives (state_ms) WHERE state = 'closed' AND deleted_details = 0;
CREATE INDEX retrospectives_with_facts ON retrospectives (state_ms) WHERE state = 'closed' AND deleted_details = 1;

-- Investigations of a retrospective, in sequence: the next row is inserted when the previous one has ended.
CREATE TABLE investigations (
    tenant        TEXT    NOT NULL,
    retrospective TEXT    NOT NULL, -- retrospectives.id
    number        INTEGER NOT NULL, -- position in the sequence, from 1
    ordinal       INTEGER NOT NULL, -- ordinal of the run
    run_id        TEXT    NOT NULL,
    replacement   INTEGER NOT NULL CHECK (replacement IN (0, 1)), -- whether it replaces a failed one
    due_ms        INTEGER NOT NULL, -- time at which it became due; the oldest is claimed first
    not_before_ms INTEGER NOT NULL, -- not claimed before this time, after a failed attempt
    lease_ms      INTEGER,          -- end of the lease; NULL: nobody holds it
    worker        TEXT,             -- last worker that claimed it, for people
    token         INTEGER NOT NULL, -- fencing token: grows with each claim and each release
    attempts      INTEGER NOT NULL, -- attempts that were started and did not succeed
    claimed_ms    INTEGER,          -- time of the last claim
    last_error    TEXT,             -- reason why the last attempt failed
    result        TEXT,             -- InvestigationResult; NULL until it has ended
    ended_ms      INTEGER,
    cost_usd      REAL,             -- cost of model calls
    -- trace context of what made it due: the sampling, or the end of the previous investigation
    trace         TEXT,
    -- fencing token of the claim that stored the result; NULL until then. `token` does not change afterwards, so anyone
    -- can check that no worker ended an investigation whose claim had been taken over
    ended_token   INTEGER,
    PRIMARY KEY (tenant, retrospective, number),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id),
    CHECK ((result IS NULL) = (ended_ms IS NULL))
) STRICT;
-- The queue. It is short, because at most one investigation of a retrospective is due.
CREATE INDEX investigations_waiting ON investigations (due_ms) WHERE result IS NULL;

-- Finished stages of an investigation, so that a takeover resumes and no model call is paid twice.
CREATE TABLE journal (
    tenant        TEXT    NOT NULL,
    retrospective TEXT    NOT NULL,
    number        INTEGER NOT NULL, -- investigations.number
    stage         TEXT    NOT NULL CHECK (stage IN ('briefed', 'answered')),
    body          TEXT    NOT NULL, -- result of the stage
    token         INTEGER NOT NULL, -- fencing token of the claim that wrote it
    written_ms    INTEGER NOT NULL,
    PRIMARY KEY (tenant, retrospective, number, stage),
    FOREIGN KEY (tenant, retrospective, number) REFERENCES investigations (tenant, retrospective, number)
) STRICT;
CREATE INDEX journal_by_age ON journal (written_ms);

-- Mutations that the investigations of a retrospective request; written once, when the last investigation has ended.
CREATE TABLE mutation_batches (
    tenant        TEXT    NOT NULL,
    retrospective TEXT    NOT NULL,
    mutations     TEXT    NOT NULL, -- list of Mutation, in order
    settled_ms    INTEGER NOT NULL,
    PRIMARY KEY (tenant, retrospective),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id)
) STRICT;
CREATE INDEX mutation_batches_by_age ON mutation_batches (settled_ms);

-- What manual retrospectives propose, one row for each pattern. A person accepts or refuses each once.
CREATE TABLE proposals (
    tenant        TEXT    NOT NULL,
    id            TEXT    NOT NULL, -- derived from the retrospective and its first finding
    workflow      TEXT    NOT NULL,
    retrospective TEXT    NOT NULL, -- retrospectives.id
    position      INTEGER NOT NULL, -- position in the report, from 1
    status        TEXT    NOT NULL CHECK (status IN ('open', 'accepted', 'refused')),
    proposal      TEXT    NOT NULL, -- Proposal, complete
    decision      TEXT,             -- ProposalDecision; NULL while it is open
    created_ms    INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, retrospective, position),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id),
    CHECK ((decision IS NULL) = (status = 'open'))
) STRICT;
CREATE INDEX proposals_by_workflow ON proposals (tenant, workflow, created_ms);

-- Reports of closed retrospectives.
CREATE TABLE reports (
    tenant        TEXT    NOT NULL,
    retrospective TEXT    NOT NULL,
    report        TEXT    NOT NULL, -- Report, complete
    written_ms    INTEGER NOT NULL,
    PRIMARY KEY (tenant, retrospective),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id)
) STRICT;

-- Memories: the fold of their changes. Only the writer modifies this table.
CREATE TABLE memories (
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    workflow   TEXT    NOT NULL, -- workflow whose lock and log the memory uses
    scope_kind TEXT    NOT NULL CHECK (scope_kind IN ('step', 'workflow', 'repository', 'user', 'account', 'platform')),
    scope_key  TEXT    NOT NULL, -- the scope in canonical JSON
    step       TEXT,             -- step of a memory with step scope
    status     TEXT    NOT NULL
        CHECK (status IN ('tentative', 'active', 'archived', 'deleted', 'superseded', 'graduated')),
    weight     INTEGER NOT NULL CHECK (weight BETWEEN 0 AND 1000),
    memory     TEXT    NOT NULL, -- Memory, complete
    changed_at TEXT    NOT NULL, -- policy time of the last change; a copy of the value in `memory`
    PRIMARY KEY (tenant, id)
) STRICT;
-- Heaviest memories of a step. The predicate has only the status: a bound parameter would not match the index.
CREATE INDEX memories_active ON memories (tenant, workflow, step, weight DESC) WHERE status = 'active';
CREATE INDEX memories_by_workflow ON memories (tenant, workflow, status);
-- For the metric of the oldest tentative memory.
CREATE INDEX memories_tentative ON memories (changed_at) WHERE status = 'tentative';

-- Changes made by the writer, append-only. The id is derived from the effect key (memory, cause, kind), so each effect
-- happens once.
CREATE TABLE changes (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT, -- order of all changes
    tenant        TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    memory        TEXT    NOT NULL,                  -- memories.id; for a refused memory, the id that it would have had
    kind          TEXT    NOT NULL,                  -- created, promoted, … refused
    cause         TEXT    NOT NULL,                  -- run, retrospective or operator
    -- id of the run, of the retrospective, or of the operator's request
    cause_id      TEXT    NOT NULL,
    retrospective TEXT,                              -- retrospective in which it happened
    change        TEXT    NOT NULL,                  -- Change, complete
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX changes_by_memory ON changes (tenant, memory, sequence);
CREATE INDEX changes_by_workflow ON changes (tenant, workflow, sequence);
CREATE INDEX changes_by_cause ON changes (tenant, workflow, cause, cause_id);
CREATE INDEX changes_by_retrospective ON changes (tenant, retrospective) WHERE retrospective IS NOT NULL;

-- Deleted memories that must not be learned again for a time. Expired rows are deleted; the change remains.
CREATE TABLE tombstones (
    tenant    TEXT    NOT NULL,
    memory    TEXT    NOT NULL, -- memories.id of the deleted memory
    workflow  TEXT    NOT NULL,
    until     TEXT    NOT NULL, -- policy time at which it expires
    tombstone TEXT    NOT NULL, -- Tombstone, complete
    PRIMARY KEY (tenant, memory)
) STRICT;
CREATE INDEX tombstones_by_workflow ON tombstones (tenant, workflow);

-- Memories that were presented to runs.
CREATE TABLE presentations (
    tenant       TEXT    NOT NULL,
    workflow     TEXT    NOT NULL,
    run_id       TEXT    NOT NULL, -- often stored before the run itself
    memory       TEXT    NOT NULL,
    presented_ms INTEGER,          -- time at which the memory was first in the prompt; NULL: the agent only read it
    read_ms      INTEGER,          -- time at which the agent first read it; NULL: never
    PRIMARY KEY (tenant, workflow, run_id, memory)
) STRICT, WITHOUT ROWID;

-- Number of runs to which each memory was presented. Updated with `presentations`, so that no answer has to count rows.
CREATE TABLE memory_presentation_counts (
    tenant        TEXT    NOT NULL,
    memory        TEXT    NOT NULL,
    presentations INTEGER NOT NULL,
    PRIMARY KEY (tenant, memory)
) STRICT, WITHOUT ROWID;

-- Memories that a closed retrospective found applied in a run. Written when the writer closes it; never purged.
CREATE TABLE run_memory_applications (
    tenant        TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    run_id        TEXT    NOT NULL,
    memory        TEXT    NOT NULL, -- memories.id
    retrospective TEXT    NOT NULL, -- first retrospective that found it applied
    PRIMARY KEY (tenant, workflow, run_id, memory)
) STRICT, WITHOUT ROWID;

-- Verdicts on rules that were presented to investigated runs. Written when the writer credits the rule; never purged.
-- They show which rules are ignored repeatedly.
CREATE TABLE rule_evaluations (
    tenant   TEXT    NOT NULL,
    memory   TEXT    NOT NULL, -- memories.id of the rule
    workflow TEXT    NOT NULL, -- workflow of the run, not the rule scope
    run_id   TEXT    NOT NULL,
    verdict  TEXT    NOT NULL CHECK (verdict IN ('harmed', 'helped', 'applied', 'ignored', 'cue_not_met')),
    as_of    TEXT    NOT NULL, -- policy time of the first retrospective that evaluated it
    PRIMARY KEY (tenant, memory, workflow, run_id)
) STRICT, WITHOUT ROWID;

-- Embeddings of memories by embedders that are not built in. They are computed in the background, so that no decision
-- waits for a model, and deleted some time after another embedder is configured. Lost rows are computed again; until
-- then the built-in embedder is used.
CREATE TABLE embeddings (
    tenant      TEXT    NOT NULL,
    memory      TEXT    NOT NULL, -- memories.id
    embedder    TEXT    NOT NULL, -- name and version
    text_sha256 TEXT    NOT NULL, -- SHA-256 of the embedded text
    vector      BLOB    NOT NULL, -- components of four bytes each, little-endian
    stored_ms   INTEGER NOT NULL,
    PRIMARY KEY (tenant, memory, embedder)
) STRICT, WITHOUT ROWID;
CREATE INDEX embeddings_by_text ON embeddings (tenant, embedder, text_sha256);

-- Messages of the program, written in the transaction that makes them true. Sent rows are kept for a time, so that they
-- can be published again to a broker that lost its data.
CREATE TABLE outbox (
    sequence   INTEGER PRIMARY KEY AUTOINCREMENT,
    -- derived from tenant, workflow and content, so the same cause yields one message
    id         TEXT    NOT NULL UNIQUE,
    tenant     TEXT    NOT NULL,
    workflow   TEXT    NOT NULL,
    kind       TEXT    NOT NULL,                  -- kind as in the subject
    notice     TEXT    NOT NULL,                  -- Notice
    created_ms INTEGER NOT NULL,
    -- NULL: not sent. The relay selects by this column and never by the last sequence
    sent_ms    INTEGER,
    -- trace context of the writing transaction; sent as a header, not in the payload
    trace      TEXT
) STRICT;
CREATE INDEX outbox_unsent ON outbox (sequence) WHERE sent_ms IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_ms) WHERE sent_ms IS NOT NULL;

-- Attempts at messages that are not handled yet, counted before the handler runs. The key has no tenant, because a
-- message may name none that can be read.
CREATE TABLE attempts (
    consumer        TEXT    NOT NULL,
    stream          TEXT    NOT NULL,
    sequence        INTEGER NOT NULL, -- sequence in the stream
    attempts        INTEGER NOT NULL,
    last_attempt_ms INTEGER NOT NULL,
    PRIMARY KEY (consumer, stream, sequence)
) STRICT, WITHOUT ROWID;

-- Messages that could not be handled, complete and unredacted. Redaction happens when they are shown.
CREATE TABLE dead_letters (
    id              TEXT    NOT NULL PRIMARY KEY, -- derived from consumer, stream, sequence and payload
    tenant          TEXT,                         -- tenant of the subject; NULL: it names none that can be read
    workflow        TEXT,
    consumer        TEXT    NOT NULL,             -- consumer that gave up
    stream          TEXT    NOT NULL,
    sequence        INTEGER NOT NULL,
    subject         TEXT    NOT NULL,
    headers         TEXT    NOT NULL,             -- list of [name, value], in order
    payload         BLOB    NOT NULL,             -- original bytes
    payload_sha256  TEXT    NOT NULL,
    code            TEXT    NOT NULL,             -- each code has a page in deploy/runbooks
    rejection       TEXT    NOT NULL,             -- Rejection: code, path of the field, sentence
    retryable       INTEGER NOT NULL CHECK (retryable IN (0, 1)), -- whether the same message may succeed later
    attempts        INTEGER NOT NULL,             -- attempts that were made
    stored_at       TEXT    NOT NULL,             -- time at which the broker stored the message, RFC 3339
    -- open (no person has acted on it), replaying, handled, discarded or replayed. The last one is of a failed
    -- retrospective, whose replay opened the next one
    status          TEXT    NOT NULL,
    created_ms      INTEGER NOT NULL,
    program_version TEXT    NOT NULL,             -- version of the program that gave up
    replays         INTEGER NOT NULL DEFAULT 0    -- number of replays
) STRICT;
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant, created_ms);
CREATE INDEX dead_letters_open ON dead_letters (status) WHERE status = 'open';
CREATE INDEX dead_letters_open_by_age ON dead_letters (created_ms) WHERE status = 'open';
-- Whether a message has a dead letter.
CREATE INDEX dead_letters_by_position ON dead_letters (stream, sequence);

-- Attempts at messages, one row each. The rows of a message in progress belong to its position in the stream, and
-- become the dead letter's when the message is given up. Those of a handled message are deleted with its row of
-- `attempts`.
CREATE TABLE attempt_history (
    number          INTEGER PRIMARY KEY,               -- order in which the rows were written
    consumer        TEXT    NOT NULL,
    stream          TEXT    NOT NULL,
    sequence        INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,                  -- number of the attempt, from 1 for the first delivery
    dead_letter     TEXT REFERENCES dead_letters (id), -- NULL: in progress, or handled
    -- time at which it was counted; NULL: the first delivery, which is not counted
    started_ms      INTEGER,
    failed_ms       INTEGER,                           -- NULL: it did not report, for example because the process died
    -- reason why the message was given up; NULL: it was to be retried
    code            TEXT,
    path            TEXT,                              -- field that caused the failure
    detail          TEXT,                              -- the failure in one sentence; NULL until it is reported
    program_version TEXT    NOT NULL                   -- version of the program that tried
) STRICT;
CREATE UNIQUE INDEX attempt_history_under_way ON attempt_history (consumer, stream, sequence, attempt)
    WHERE dead_letter IS NULL;
CREATE INDEX attempt_history_by_dead_letter ON attempt_history (dead_letter, number) WHERE dead_letter IS NOT NULL;
CREATE INDEX attempt_history_by_age ON attempt_history (coalesce(failed_ms, started_ms)) WHERE dead_letter IS NULL;

-- Edited versions of dead letters. The dead letter itself is version 0. Neither it nor a version is ever modified.
CREATE TABLE dead_letter_versions (
    dead_letter    TEXT    NOT NULL REFERENCES dead_letters (id),
    version        INTEGER NOT NULL CHECK (version > 0),
    based_on       INTEGER NOT NULL,                     -- version from which it was made
    headers        TEXT    NOT NULL,                     -- list of [name, value], in order
    payload        BLOB    NOT NULL,                     -- bytes that a replay of this version sends
    payload_sha256 TEXT    NOT NULL,
    edited_by      TEXT    NOT NULL,                     -- person, as far as the interface could tell
    reason         TEXT    NOT NULL,                     -- reason that the person gave
    edited_at      TEXT    NOT NULL,                     -- policy time
    edited_ms      INTEGER NOT NULL,
    PRIMARY KEY (dead_letter, version)
) STRICT;

-- Replays of dead letters, one row each: the outbox of raw bytes.
CREATE TABLE replays (
    id           TEXT    NOT NULL PRIMARY KEY, -- derived from dead letter and number; the message id at the broker
    tenant       TEXT    NOT NULL,             -- tenant on whose behalf it is replayed
    dead_letter  TEXT    NOT NULL REFERENCES dead_letters (id),
    number       INTEGER NOT NULL,             -- 1-based replay number of this dead letter
    version      INTEGER NOT NULL,             -- version whose bytes are sent; 0: the original
    batch        TEXT,                         -- replay_batches.id; NULL: requested singly
    requested_by TEXT    NOT NULL,             -- person, as far as the interface could tell
    reason       TEXT    NOT NULL,             -- reason that the person gave
    requested_at TEXT    NOT NULL,             -- policy time
    state        TEXT    NOT NULL CHECK (state IN ('waiting', 'sent', 'handled', 'failed')),
    due_ms       INTEGER NOT NULL,             -- not sent before this time, which limits the rate
    publications INTEGER NOT NULL DEFAULT 0,   -- times that it was published; more than one if a publication was lost
    sent_ms      INTEGER,                      -- time of the last publication
    ended_ms     INTEGER,                      -- time at which it was handled or failed
    outcome      TEXT,                         -- ReplayOutcome; NULL until it has ended
    UNIQUE (dead_letter, number),
    CHECK ((outcome IS NULL) = (state IN ('waiting', 'sent')))
) STRICT;
-- At most one replay of a dead letter is in progress, whatever the program decides.
CREATE UNIQUE INDEX replays_under_way ON replays (dead_letter) WHERE state IN ('waiting', 'sent');
CREATE INDEX replays_waiting ON replays (due_ms) WHERE state = 'waiting';
CREATE INDEX replays_sent ON replays (sent_ms) WHERE state = 'sent';
-- For the rate limit: the due time of the last one.
CREATE INDEX replays_by_due ON replays (due_ms);

-- Batches of dead letters that are replayed together: first a few, then the rest as long as enough of them succeed.
CREATE TABLE replay_batches (
    id                  TEXT    NOT NULL PRIMARY KEY,
    tenant              TEXT    NOT NULL,
    filter_text         TEXT    NOT NULL,             -- the requested filter, for people
    requested_by        TEXT    NOT NULL,
    reason              TEXT    NOT NULL,
    requested_at        TEXT    NOT NULL,             -- policy time
    canary              INTEGER NOT NULL,             -- number of replays that go first and must all succeed; 0: none
    rate_milli          INTEGER NOT NULL CHECK (rate_milli > 0), -- dead letters per second, in thousandths
    failed_permille_max INTEGER NOT NULL,             -- the batch stops when a larger share has failed
    state               TEXT    NOT NULL CHECK (state IN ('canary', 'running', 'stopped', 'done')),
    next_ms             INTEGER NOT NULL,             -- no dead letter is scheduled before this time
    created_ms          INTEGER NOT NULL,
    ended_ms            INTEGER,
    end_reason          TEXT                          -- reason why it ended, in one sentence
) STRICT;
CREATE INDEX replay_batches_by_tenant ON replay_batches (tenant, created_ms);
CREATE INDEX replay_batches_open ON replay_batches (created_ms) WHERE state IN ('canary', 'running');

-- Dead letters of a batch, selected once: later dead letters are not added.
CREATE TABLE replay_batch_items (
    batch           TEXT    NOT NULL REFERENCES replay_batches (id),
    position        INTEGER NOT NULL, -- from 1, oldest dead letter first
    dead_letter     TEXT    NOT NULL REFERENCES dead_letters (id),
    selected_status TEXT    NOT NULL, -- dead_letters.status at selection; the item is skipped if it has changed
    state           TEXT    NOT NULL CHECK (state IN ('waiting', 'under_way', 'handled', 'failed', 'skipped')),
    result          TEXT,             -- what came of it, in one sentence, for people
    PRIMARY KEY (batch, position),
    UNIQUE (batch, dead_letter)
) STRICT, WITHOUT ROWID;
CREATE INDEX replay_batch_items_by_state ON replay_batch_items (batch, state, position);

-- Audit log: what people did to retrospectives, dead letters and replay batches. Append-only. The subject has no
-- foreign key, because it may be in one of three tables; the tenant is that of the person.
CREATE TABLE audit_log (
    sequence             INTEGER PRIMARY KEY AUTOINCREMENT, -- order of all rows
    tenant               TEXT    NOT NULL,
    subject_kind         TEXT    NOT NULL CHECK (subject_kind IN ('retrospective', 'dead_letter', 'replay_batch')),
    subject_id           TEXT    NOT NULL, -- retrospectives.id, dead_letters.id or replay_batches.id
    action               TEXT    NOT NULL
        CHECK (action IN ('cancelled', 'replayed', 'discarded', 'edited', 'read_raw', 'exported')),
    requested_by         TEXT    NOT NULL, -- person, as far as the interface could tell
    reason               TEXT    NOT NULL, -- reason that the person gave
    requested_at         TEXT    NOT NULL, -- policy time
    -- retrospectives.id that the replay of a failed retrospective opened; NULL: none
    opened_retrospective TEXT,
    detail               TEXT,             -- details in one sentence
    recorded_ms          INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_log_by_subject ON audit_log (tenant, subject_id, sequence);
-- A retrospective is cancelled at most once, and a failed one is reopened at most once.
CREATE UNIQUE INDEX audit_log_once ON audit_log (tenant, subject_id, action)
    WHERE subject_kind = 'retrospective' OR opened_retrospective IS NOT NULL;

-- Requests that carry an idempotency key, with their responses, so that a repeated request is not executed again.
-- Deleted after a day. Requests without a key are not stored.
CREATE TABLE idempotency_keys (
    tenant       TEXT    NOT NULL,
    route        TEXT    NOT NULL, -- method and path
    key          TEXT    NOT NULL, -- the caller's key
    -- SHA-256 of the request's content, in hex; a different one under the same key is rejected
    fingerprint  TEXT    NOT NULL,
    token        INTEGER NOT NULL, -- fencing token of the current execution: only its holder may store the response
    started_ms   INTEGER NOT NULL, -- time at which that execution started
    status       INTEGER,          -- HTTP status of the response; NULL: in progress
    content_type TEXT,             -- content type of the response
    body         BLOB,             -- body of the response
    PRIMARY KEY (tenant, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (started_ms);

-- Digests that remain of purged inbox rows, so that an event is never handled twice. Never purged.
CREATE TABLE seen_events (
    -- EventDigest, over consumer, tenant, source and id
    digest         BLOB    NOT NULL PRIMARY KEY CHECK (length(digest) = 16),
    content_digest BLOB    NOT NULL CHECK (length(content_digest) = 8) -- ContentDigest; a different one is a conflict
) STRICT, WITHOUT ROWID;

-- Rows that each stage of retention has deleted since the database was created, for people. One row for each stage.
CREATE TABLE retention_totals (
    stage           TEXT    NOT NULL PRIMARY KEY, -- bodies, journals, runs, events, messages or attempts
    deleted_rows    INTEGER NOT NULL,
    last_deleted_ms INTEGER NOT NULL              -- time of the last deletion
) STRICT;

-- The broker's streams as of their last check, so that lost data is noticed, reported and published again. One row for
-- each incarnation: a stream from its creation until another one, or a truncated copy, is found in its place. The keys
-- of this table and the next two have no tenant, because a message may name none that can be read.
CREATE TABLE streams (
    stream               TEXT    NOT NULL,
    incarnation          INTEGER NOT NULL, -- from 1; the last one is at the broker
    created_at           TEXT    NOT NULL, -- time at which the broker created it, as the broker reports it
    last_sequence        INTEGER NOT NULL, -- last sequence that was seen
    ack_floor            INTEGER NOT NULL, -- sequence up to which every message was acknowledged
    reconciled_to        INTEGER NOT NULL, -- sequence up to which messages were compared with the inbox
    first_seen_ms        INTEGER NOT NULL,
    last_seen_ms         INTEGER NOT NULL,
    ended_ms             INTEGER,          -- time at which another one was found in its place; NULL: it exists
    reconciled_ms        INTEGER NOT NULL, -- time at which the last comparison started
    republished_messages INTEGER NOT NULL, -- messages of the outbox that were due again when it was found
    -- first sequence that held a message at the last check. Pending messages below it are removed at the next one
    first_sequence       INTEGER NOT NULL,
    -- time at which the broker stored the message at `last_sequence`, as the broker reports it; a different one there
    -- belongs to another stream. NULL: not read
    last_stored_at       TEXT,
    -- time at which a check found another stream in its place that no second check has confirmed or cleared
    suspected_ms         INTEGER,
    PRIMARY KEY (stream, incarnation)
) WITHOUT ROWID;

-- Messages that were pending in a stream at a check, so that they can be named if they are lost.
CREATE TABLE stream_pending (
    stream      TEXT    NOT NULL,
    incarnation INTEGER NOT NULL, -- streams.incarnation
    sequence    INTEGER NOT NULL, -- sequence in the stream
    message     TEXT    NOT NULL, -- WaitingMessage: its subject, and its event where it can be read
    PRIMARY KEY (stream, incarnation, sequence)
) WITHOUT ROWID;

-- Sequences that were lost with a stream and are not known to be handled. Never purged. A false or accepted loss is
-- closed by a person, once.
CREATE TABLE stream_losses (
    stream         TEXT    NOT NULL,
    incarnation    INTEGER NOT NULL, -- streams.incarnation
    first_sequence INTEGER NOT NULL,
    last_sequence  INTEGER NOT NULL,
    message        TEXT,             -- WaitingMessage of a single known message; NULL: unknown
    closed_by      TEXT,             -- person who closed it; NULL, like the next two, while it is open
    closed_reason  TEXT,             -- reason that the person gave
    closed_at      TEXT,             -- policy time
    PRIMARY KEY (stream, incarnation, first_sequence)
) WITHOUT ROWID;

-- Pull requests with review events. New content makes one due; then all of its remarks are decided again.
CREATE TABLE reviews (
    tenant   TEXT    NOT NULL,
    repo     TEXT    NOT NULL, -- owner/name in lower case, after its host unless that is github.com
    number   INTEGER NOT NULL, -- number of the pull request
    author   TEXT,             -- author of the pull request; NULL: no event has named one
    revision INTEGER NOT NULL, -- grows with each event; a decision on an older revision is not stored
    rounds   INTEGER NOT NULL, -- decisions that were made; the last rule_batches.round
    due_ms   INTEGER,          -- time of the next decision; NULL: nothing is new
    PRIMARY KEY (tenant, repo, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX reviews_due ON reviews (due_ms) WHERE due_ms IS NOT NULL;

-- Remarks in their latest version, with secrets removed.
CREATE TABLE remarks (
    tenant     TEXT    NOT NULL,
    repo       TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    -- each kind has its own ids
    kind       TEXT    NOT NULL CHECK (kind IN ('review_body', 'line_comment', 'conversation_comment')),
    remark_id  TEXT    NOT NULL, -- id at GitHub
    changed_at TEXT    NOT NULL, -- time of the last change, by GitHub's clock
    remark     TEXT    NOT NULL, -- Remark; without its text if it was deleted at GitHub
    deleted    INTEGER NOT NULL CHECK (deleted IN (0, 1)), -- a deleted remark stays deleted
    rule_title TEXT,             -- title that the reader made of it at the last decision; NULL: none
    thumbs_up  INTEGER NOT NULL, -- number of 👍 reactions at that time
    stored_ms  INTEGER NOT NULL, -- time of the last write
    PRIMARY KEY (tenant, repo, number, kind, remark_id),
    FOREIGN KEY (tenant, repo, number) REFERENCES reviews (tenant, repo, number)
) STRICT, WITHOUT ROWID;
-- Rules requested elsewhere in the repository, newest first.
CREATE INDEX remarks_with_rule ON remarks (tenant, repo, changed_at) WHERE rule_title IS NOT NULL;

-- Threads of line comments and whether they are resolved. Events about a thread may arrive before or long after its
-- comments.
CREATE TABLE review_threads (
    tenant     TEXT    NOT NULL,
    repo       TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    first_id   TEXT    NOT NULL, -- remarks.remark_id of the first comment
    resolved   INTEGER NOT NULL CHECK (resolved IN (0, 1)),
    changed_at TEXT    NOT NULL, -- time of the last change, by GitHub's clock
    PRIMARY KEY (tenant, repo, number, first_id),
    FOREIGN KEY (tenant, repo, number) REFERENCES reviews (tenant, repo, number)
) STRICT, WITHOUT ROWID;

-- Mutations of a repository's rules: from the reviews of a pull request, from a run to which rules were presented, or
-- from the scheduled sweep.
CREATE TABLE rule_batches (
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL, -- derived from the origin of the batch
    workflow   TEXT    NOT NULL, -- rule scope
    repo       TEXT    NOT NULL,
    number     INTEGER,          -- number of the pull request, for reviews
    round      INTEGER,          -- number of the decision about it, from 1, for reviews
    as_of      TEXT    NOT NULL, -- policy time of the batch
    policy     TEXT    NOT NULL, -- Policy at that time
    review     TEXT,             -- DecidedReview, for reviews: every remark with its decision
    mutations  TEXT    NOT NULL, -- list of RuleMutation, in order
    state      TEXT    NOT NULL CHECK (state IN ('settling', 'closed')),
    settled_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, repo, number, round)
) STRICT;
-- For the sweep that finds batches whose message was lost.
CREATE INDEX rule_batches_waiting ON rule_batches (settled_ms) WHERE state = 'settling';

-- Reports of the writer on each batch of reviews.
CREATE TABLE review_reports (
    tenant     TEXT    NOT NULL,
    batch      TEXT    NOT NULL, -- rule_batches.id
    workflow   TEXT    NOT NULL, -- workflow of the batch
    report     TEXT    NOT NULL, -- ReviewReport, complete
    written_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, batch),
    FOREIGN KEY (tenant, batch) REFERENCES rule_batches (tenant, id)
) STRICT;
CREATE INDEX review_reports_by_workflow ON review_reports (tenant, workflow, written_ms);

-- Tenants with events from GitHub. The row is the lock of whoever tracks their pull requests; runs of other tenants are
-- not tracked.
CREATE TABLE tracked_tenants (
    tenant TEXT    NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Known facts about pull requests. Never purged.
CREATE TABLE pull_requests (
    tenant TEXT    NOT NULL,
    repo   TEXT    NOT NULL, -- owner/name in lower case
    number INTEGER NOT NULL,
    -- whether it was ever merged or closed; a copy of the value in `facts`
    ended  INTEGER NOT NULL CHECK (ended IN (0, 1)),
    facts  TEXT    NOT NULL, -- PullRequestFacts
    PRIMARY KEY (tenant, repo, number)
) STRICT, WITHOUT ROWID;

-- Commits that are or were at the head of a pull request, and those that merged one.
CREATE TABLE pull_request_commits (
    tenant    TEXT    NOT NULL,
    commit_id TEXT    NOT NULL, -- hash in lower case
    repo      TEXT    NOT NULL,
    number    INTEGER NOT NULL,
    PRIMARY KEY (tenant, commit_id, repo, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX pull_request_commits_by_pull_request ON pull_request_commits (tenant, repo, number);

-- Runs that commits name in a trailer: one row for each way to read it.
CREATE TABLE commit_trailers (
    tenant    TEXT    NOT NULL,
    commit_id TEXT    NOT NULL,
    trailer   TEXT    NOT NULL, -- text of the trailer
    workflow  TEXT    NOT NULL, -- empty: any, because the trailer names none
    run_id    TEXT    NOT NULL,
    PRIMARY KEY (tenant, commit_id, trailer, workflow, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX commit_trailers_by_run ON commit_trailers (tenant, run_id);

-- Progress of run tracking in each workflow.
CREATE TABLE tracking_cursor (
    tenant   TEXT    NOT NULL,
    workflow TEXT    NOT NULL,
    number   INTEGER NOT NULL, -- last runs.number that was tracked
    PRIMARY KEY (tenant, workflow)
) STRICT, WITHOUT ROWID;

-- Runs of tracked tenants, with the references from their events. Never purged.
CREATE TABLE tracked_runs (
    tenant    TEXT    NOT NULL,
    run_id    TEXT    NOT NULL,
    workflow  TEXT    NOT NULL,
    repo      TEXT,             -- owner/name in lower case
    number    INTEGER,          -- number of the pull request
    commit_id TEXT,
    PRIMARY KEY (tenant, run_id, workflow)
) STRICT, WITHOUT ROWID;
CREATE INDEX tracked_runs_by_pull_request ON tracked_runs (tenant, repo, number) WHERE number IS NOT NULL;
CREATE INDEX tracked_runs_by_commit ON tracked_runs (tenant, commit_id) WHERE commit_id IS NOT NULL;

-- Pull requests of runs, computed when they are queried, so that the order of arrival does not matter. A run is linked
-- by the pull request in its event, by its commit, or by a trailer that matches exactly one run of the tenant.
CREATE VIEW run_links AS
SELECT tenant, workflow, run_id, repo, number FROM tracked_runs WHERE repo IS NOT NULL AND number IS NOT NULL
UNION
SELECT run.tenant, run.workflow, run.run_id, head.repo, head.number
FROM tracked_runs AS run
JOIN pull_request_commits AS head ON head.tenant = run.tenant AND head.commit_id = run.commit_id
WHERE (run.repo IS NULL OR run.number IS NULL) AND (run.repo IS NULL OR run.repo = head.repo)
UNION
SELECT run.tenant, run.workflow, run.run_id, head.repo, head.number
FROM commit_trailers AS named
JOIN pull_request_commits AS head ON head.tenant = named.tenant AND head.commit_id = named.commit_id
JOIN tracked_runs AS run ON run.tenant = named.tenant AND run.run_id = named.run_id
    AND (named.workflow = '' OR named.workflow = run.workflow)
WHERE (run.repo IS NULL OR run.number IS NULL) AND (run.repo IS NULL OR run.repo = head.repo)
    AND NOT EXISTS (
        SELECT 1 FROM commit_trailers AS other
        JOIN tracked_runs AS another ON another.tenant = other.tenant AND another.run_id = other.run_id
            AND (other.workflow = '' OR other.workflow = another.workflow)
        WHERE other.tenant = named.tenant AND other.commit_id = named.commit_id AND other.trailer = named.trailer
            AND NOT (another.workflow = run.workflow AND another.run_id = run.run_id));

-- Ended pull requests with runs in which memories were applied. The writer credits a bounded part at a time, in byte
-- order.
CREATE TABLE due_credits (
    tenant       TEXT    NOT NULL,
    workflow     TEXT    NOT NULL,
    repo         TEXT    NOT NULL,
    number       INTEGER NOT NULL,
    due_ms       INTEGER NOT NULL,
    -- run of the last credited row of run_memory_applications; empty: none yet
    after_run    TEXT    NOT NULL DEFAULT '',
    after_memory TEXT    NOT NULL DEFAULT '', -- memory of that row; empty: none yet
    PRIMARY KEY (tenant, workflow, repo, number)
) STRICT, WITHOUT ROWID;

-- Identity of this database, so that events of a broker are not counted into another database by mistake. One row,
-- created with the table and never changed: a copy or a restored backup is the same database.
CREATE TABLE database_identity (
    single   INTEGER NOT NULL PRIMARY KEY CHECK (single = 1),
    identity TEXT    NOT NULL -- 32 hexadecimal digits, also stored at the broker's streams and consumers
) STRICT;
INSERT INTO database_identity (single, identity) VALUES (1, lower(hex(randomblob(16))));
