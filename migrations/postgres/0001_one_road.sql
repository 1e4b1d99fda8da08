-- Everything that one road needs: counting, sampling, investigating, writing, recalling, delivering.
--
-- The same tables as the migration of this name for SQLite. Conventions: columns `…_ms` are Unix time in milliseconds by
-- this database's clock; columns `…_at` and `until` are policy time, RFC 3339 in UTC with nine decimals, so that text
-- order is time order. Weights are thousandths. Columns named after a type hold its JSON, as text: JSONB would lose the
-- bytes, and cannot hold a NUL. Every key and every query begins with the tenant. Keys are compared byte by byte
-- (COLLATE "C"), as the program compares them, whatever language the database speaks. What an emitter names without our
-- rules for names is BYTEA, since TEXT cannot hold a NUL; `convert_from(event_id, 'UTF8')` shows it.

-- Where the window of each workflow stands. One row a workflow that ever had a run, and one without a run (recorded = 0)
-- for each whose first event was refused: the row is also THE LOCK of everything that is decided about its workflow.
CREATE TABLE workflows (
    tenant          TEXT COLLATE "C" NOT NULL,        -- the owner
    workflow        TEXT COLLATE "C" NOT NULL,        -- the emitter's name for it
    recorded        BIGINT NOT NULL,                  -- runs stored, uncounted ones too; the last runs.number given
    counted         BIGINT NOT NULL,                  -- the last ordinal given
    claimed         BIGINT NOT NULL,                  -- the last ordinal claimed by a retrospective and not released
    epoch           BIGINT NOT NULL,                  -- the last epoch used
    open            BOOLEAN NOT NULL,                 -- whether that epoch's retrospective is still open
    failures        BIGINT NOT NULL,                  -- retrospectives in a row without a success
    paused_until    TEXT COLLATE "C",                 -- none opens before this policy moment
    PRIMARY KEY (tenant, workflow),
    CHECK (claimed <= counted AND counted <= recorded)
) WITH (fillfactor = 50); -- updated with every batch: room for the new version beside the old one

-- Every event that was ever handled: what makes handling it again harmless. Kept for ever.
CREATE TABLE inbox (
    consumer        TEXT COLLATE "C" NOT NULL,        -- who handled it
    tenant          TEXT COLLATE "C" NOT NULL,
    source          BYTEA NOT NULL,                   -- CloudEvents source
    event_id        BYTEA NOT NULL,                   -- CloudEvents id
    content_hash    TEXT NOT NULL,                    -- SHA-256 of canonical `data`; another one is a conflict
    received_ms     BIGINT NOT NULL,
    PRIMARY KEY (consumer, tenant, source, event_id)
);

-- The identity of every run. Narrow, and kept for ever: details may be purged, a run is never counted again.
CREATE TABLE runs (
    tenant          TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,        -- the emitter's id
    number          BIGINT NOT NULL,                  -- its place of arrival in the workflow, from 1
    ordinal         BIGINT,                           -- its place among the counted ones; NULL: not counted
    attempt         BIGINT NOT NULL,                  -- the highest attempt seen
    received_ms     BIGINT NOT NULL,                  -- when it was first stored
    PRIMARY KEY (tenant, workflow, run_id)
);
-- Not by tenant first, as all else: beside the primary key it would be as good a way to a run while the table is small,
-- and a plan that was made then would read the whole workflow for every run later.
CREATE UNIQUE INDEX runs_by_number ON runs (number, workflow, tenant);
CREATE UNIQUE INDEX runs_by_ordinal ON runs (tenant, workflow, ordinal) WHERE ordinal IS NOT NULL;
CREATE INDEX runs_by_arrival ON runs (tenant, received_ms);

-- What each run's event said. Rows lie in the order of arrival, so new ones go to the end.
CREATE TABLE run_facts (
    tenant          TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,
    number          BIGINT NOT NULL,                  -- runs.number
    facts           TEXT NOT NULL,                    -- RunFacts
    body            TEXT NOT NULL,                    -- BodyRef: where the trajectory is, if it is
    UNIQUE (tenant, workflow, number)
);

-- Trajectories of runs, redacted. Apart from the facts, since they are large and are dropped after a time.
CREATE TABLE run_bodies (
    tenant          TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,
    number          BIGINT NOT NULL,                  -- runs.number
    trajectory      BYTEA NOT NULL,                   -- JSON of Trajectory, zstd
    UNIQUE (tenant, workflow, number)
);
-- Compressed already.
ALTER TABLE run_bodies ALTER COLUMN trajectory SET STORAGE EXTERNAL;

-- Retrospectives: claimed windows and how far they are.
CREATE TABLE retrospectives (
    tenant          TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,        -- derived from tenant, workflow and epoch
    workflow        TEXT COLLATE "C" NOT NULL,
    epoch           BIGINT NOT NULL,                  -- its number within the workflow, from 1
    first_ordinal   BIGINT NOT NULL,                  -- the window, both ends included
    last_ordinal    BIGINT NOT NULL,
    as_of           TEXT COLLATE "C" NOT NULL,        -- the policy moment
    policy          TEXT NOT NULL,                    -- Policy, as it was when it opened
    state           TEXT NOT NULL
        CHECK (state IN ('due', 'investigating', 'settling', 'closed', 'failed', 'cancelled')),
    sample          TEXT,                             -- Sample: seed, shuffled order, size; NULL until it is drawn
    opened_ms       BIGINT NOT NULL,
    state_ms        BIGINT NOT NULL,                  -- when the state was entered
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, workflow, epoch),
    CHECK (first_ordinal <= last_ordinal)
);
-- At most one is open in a workflow, whatever a program believes.
CREATE UNIQUE INDEX retrospectives_open ON retrospectives (tenant, workflow)
    WHERE state IN ('due', 'investigating', 'settling');
-- For the sweep that finds what a lost wake-up left.
CREATE INDEX retrospectives_waiting ON retrospectives (state, state_ms)
    WHERE state IN ('due', 'settling');

-- Investigations, in sequence; the next one appears when the one before it has ended.
CREATE TABLE investigations (
    tenant          TEXT COLLATE "C" NOT NULL,
    retrospective   TEXT COLLATE "C" NOT NULL,        -- retrospectives.id
    number          BIGINT NOT NULL,                  -- place in the sequence, from 1
    ordinal         BIGINT NOT NULL,                  -- the run's
    run_id          TEXT COLLATE "C" NOT NULL,
    replacement     BOOLEAN NOT NULL,                 -- takes the place of a failed one
    due_ms          BIGINT NOT NULL,                  -- when it became due; the oldest is claimed first
    not_before_ms   BIGINT NOT NULL,                  -- after a failed attempt: not claimed before
    lease_ms        BIGINT,                           -- until when somebody holds it; NULL: nobody
    worker          TEXT,                             -- who claimed it last, for people
    token           BIGINT NOT NULL,                  -- fencing token: grows with each claim and each giving back
    attempts        BIGINT NOT NULL,                  -- begun, not succeeded
    claimed_ms      BIGINT,                           -- when it was claimed last
    problem         TEXT,                             -- why the last attempt failed
    result          TEXT,                             -- InvestigationResult; NULL while it waits or runs
    ended_ms        BIGINT,
    cost_usd        DOUBLE PRECISION,                 -- paid for models
    PRIMARY KEY (tenant, retrospective, number),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id),
    CHECK ((result IS NULL) = (ended_ms IS NULL))
);
-- The queue: few rows, since at most one a retrospective waits.
CREATE INDEX investigations_waiting ON investigations (due_ms, tenant, retrospective, number)
    WHERE result IS NULL;

-- What an investigation has behind it, so that a takeover resumes and no answer is bought twice.
CREATE TABLE journal (
    tenant          TEXT COLLATE "C" NOT NULL,
    retrospective   TEXT COLLATE "C" NOT NULL,
    number          BIGINT NOT NULL,                  -- investigations.number
    stage           TEXT COLLATE "C" NOT NULL CHECK (stage IN ('briefed', 'answered')),
    body            TEXT NOT NULL,                    -- what the stage left
    token           BIGINT NOT NULL,                  -- of the claim that wrote it
    written_ms      BIGINT NOT NULL,
    position        BIGINT GENERATED BY DEFAULT AS IDENTITY, -- the order in which they were written
    PRIMARY KEY (tenant, retrospective, number, stage),
    FOREIGN KEY (tenant, retrospective, number) REFERENCES investigations (tenant, retrospective, number)
);

-- What the investigations of a retrospective ask of memory; written once, when the last one has ended.
CREATE TABLE mutation_batches (
    tenant          TEXT COLLATE "C" NOT NULL,
    retrospective   TEXT COLLATE "C" NOT NULL,
    mutations       TEXT NOT NULL,                    -- a list of Mutation, in their order
    settled_ms      BIGINT NOT NULL,
    PRIMARY KEY (tenant, retrospective),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id)
);

-- Memories: the fold of their changes. Only the writer touches this table.
CREATE TABLE memories (
    tenant          TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,        -- the workflow whose writer keeps it
    scope_kind      TEXT NOT NULL
        CHECK (scope_kind IN ('step', 'workflow', 'repository', 'user', 'account', 'platform')),
    scope_key       TEXT COLLATE "C" NOT NULL,        -- the scope in canonical JSON
    step            TEXT COLLATE "C",                 -- of a step's memory
    status          TEXT NOT NULL
        CHECK (status IN ('tentative', 'active', 'archived', 'deleted', 'superseded', 'graduated')),
    weight          BIGINT NOT NULL CHECK (weight BETWEEN 0 AND 1000),
    memory          TEXT NOT NULL,                    -- Memory, whole
    PRIMARY KEY (tenant, id)
);
-- Top by weight of a step. Only the status in the predicate: a bound threshold would not use the index.
CREATE INDEX memories_active ON memories (tenant, workflow, step, weight DESC) WHERE status = 'active';
CREATE INDEX memories_by_workflow ON memories (tenant, workflow, status);

-- What the writer did, append-only. An effect key (memory, cause, kind) happens once: the id is derived from it.
CREATE TABLE changes (
    sequence        BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, -- the order within a workflow
    tenant          TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,
    memory          TEXT COLLATE "C" NOT NULL,        -- memories.id; of something kept away, the id it would have had
    kind            TEXT COLLATE "C" NOT NULL,        -- created, promoted, … refused
    cause           TEXT COLLATE "C" NOT NULL,        -- run, retrospective or operator
    cause_id        TEXT COLLATE "C" NOT NULL,        -- run id, retrospective id, or the request's id
    retrospective   TEXT COLLATE "C",                 -- in which it happened
    change          TEXT NOT NULL,                    -- Change, whole
    UNIQUE (tenant, id)
);
CREATE INDEX changes_by_memory ON changes (tenant, memory, sequence);
CREATE INDEX changes_by_workflow ON changes (tenant, workflow, sequence);
CREATE INDEX changes_by_cause ON changes (tenant, workflow, cause, cause_id);
CREATE INDEX changes_by_retrospective ON changes (tenant, retrospective) WHERE retrospective IS NOT NULL;

-- What must not come back for a time. Expired ones are purged; the change that left them stays.
CREATE TABLE tombstones (
    tenant          TEXT COLLATE "C" NOT NULL,
    memory          TEXT COLLATE "C" NOT NULL,        -- memories.id of what was deleted
    workflow        TEXT COLLATE "C" NOT NULL,
    until           TEXT COLLATE "C" NOT NULL,        -- policy time
    tombstone       TEXT NOT NULL,                    -- Tombstone, whole
    PRIMARY KEY (tenant, memory)
);
CREATE INDEX tombstones_by_workflow ON tombstones (tenant, workflow);

-- Which memories a run met.
CREATE TABLE presentations (
    tenant          TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,
    run_id          TEXT COLLATE "C" NOT NULL,        -- often before the run itself is known here
    memory          TEXT COLLATE "C" NOT NULL,
    presented_ms    BIGINT,                           -- when it first stood in the prompt; NULL: it was only opened
    read_ms         BIGINT,                           -- when the agent first opened it; NULL: never
    PRIMARY KEY (tenant, workflow, run_id, memory)
);

-- How many runs each memory was presented to: counted as presentations are written, or every answer would count.
CREATE TABLE memory_use (
    tenant          TEXT COLLATE "C" NOT NULL,
    memory          TEXT COLLATE "C" NOT NULL,
    presentations   BIGINT NOT NULL,
    PRIMARY KEY (tenant, memory)
) WITH (fillfactor = 50);

-- How each retrospective ended.
CREATE TABLE reports (
    tenant          TEXT COLLATE "C" NOT NULL,
    retrospective   TEXT COLLATE "C" NOT NULL,
    report          TEXT NOT NULL,                    -- Report, whole
    written_ms      BIGINT NOT NULL,
    PRIMARY KEY (tenant, retrospective),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id)
);

-- Messages of our own, written with what makes them true. Sent rows stay, so that a lost broker can be fed again.
CREATE TABLE outbox (
    sequence        BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id              TEXT COLLATE "C" NOT NULL UNIQUE, -- derived from content: the same cause, one message
    tenant          TEXT COLLATE "C" NOT NULL,
    workflow        TEXT COLLATE "C" NOT NULL,
    kind            TEXT COLLATE "C" NOT NULL,        -- as it stands in the subject
    notice          TEXT NOT NULL,                    -- Notice
    created_ms      BIGINT NOT NULL,
    sent_ms         BIGINT                            -- NULL: not yet. The relay selects by this
);
CREATE INDEX outbox_unsent ON outbox (sequence) WHERE sent_ms IS NULL;

-- Attempts at messages that have not been handled yet, counted before each. A position belongs to the broker, whose
-- messages may name no tenant that can be read.
CREATE TABLE attempts (
    consumer        TEXT COLLATE "C" NOT NULL,
    stream          TEXT COLLATE "C" NOT NULL,
    sequence        BIGINT NOT NULL,                  -- position in the stream
    attempts        BIGINT NOT NULL,
    last_ms         BIGINT NOT NULL,
    PRIMARY KEY (consumer, stream, sequence)
);
CREATE INDEX attempts_by_age ON attempts (last_ms);

-- Messages that were given up, whole and exact. Redaction is the business of whoever shows them.
CREATE TABLE dead_letters (
    id              TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- derived from consumer, stream, position and payload
    tenant          TEXT COLLATE "C",                 -- of the subject; NULL: it names none that can be read
    workflow        TEXT COLLATE "C",
    consumer        TEXT COLLATE "C" NOT NULL,        -- who gave up
    stream          TEXT COLLATE "C" NOT NULL,
    sequence        BIGINT NOT NULL,
    subject         BYTEA NOT NULL,
    headers         TEXT NOT NULL,                    -- a list of [name, value], in order
    payload         BYTEA NOT NULL,                   -- the bytes as they came
    payload_sha256  TEXT NOT NULL,
    code            TEXT COLLATE "C" NOT NULL,        -- each has a page in deploy/runbooks
    rejection       TEXT NOT NULL,                    -- Rejection: code, path of the field, sentence
    retryable       BOOLEAN NOT NULL,                 -- whether the same message may succeed later
    attempts        BIGINT NOT NULL,                  -- spent
    stored_at       TEXT COLLATE "C" NOT NULL,        -- when the broker stored it, RFC 3339
    status          TEXT NOT NULL,                    -- open: nobody has acted on it
    created_ms      BIGINT NOT NULL,
    program_version TEXT NOT NULL,                    -- of the program that gave up
    position        BIGINT GENERATED BY DEFAULT AS IDENTITY -- the order in which they were stored
);
CREATE INDEX dead_letters_by_tenant ON dead_letters (tenant, created_ms);
CREATE INDEX dead_letters_open ON dead_letters (status) WHERE status = 'open';
