-- Replay: a dead letter is sent again, once however many ask for it, alone or with others, and what came of it is kept.

-- One row a sending of a letter: the outbox of raw bytes. The bytes are the letter's (version 0) or those of a version
-- that a person made of it.
CREATE TABLE replays (
    id            TEXT    NOT NULL PRIMARY KEY, -- derived from letter and number; the message's id at the broker
    tenant        TEXT    NOT NULL,          -- whose people replay it
    letter        TEXT    NOT NULL REFERENCES dead_letters (id),
    number        INTEGER NOT NULL,          -- the how manieth of the letter, from 1
    version       INTEGER NOT NULL,          -- of the letter's bytes; 0: as they came
    batch         TEXT,                      -- replay_batches.id; NULL: asked for alone
    asked_by      TEXT    NOT NULL,          -- who, as far as the road they came by can tell
    reason        TEXT    NOT NULL,          -- why, in their words
    at            TEXT    NOT NULL,          -- the policy moment
    state         TEXT    NOT NULL CHECK (state IN ('waiting', 'sent', 'handled', 'failed')),
    due_ms        INTEGER NOT NULL,          -- not sent before: the pace is kept here
    sendings      INTEGER NOT NULL DEFAULT 0, -- how often it went to the broker; more than once when one was lost
    sent_ms       INTEGER,                   -- when it went there last
    ended_ms      INTEGER,                   -- when it was handled or failed
    outcome       TEXT,                      -- Outcome; NULL while it is under way
    UNIQUE (letter, number),
    CHECK ((outcome IS NULL) = (state IN ('waiting', 'sent')))
) STRICT;
-- One at a time, whatever a program decides.
CREATE UNIQUE INDEX replays_under_way ON replays (letter) WHERE state IN ('waiting', 'sent');
CREATE INDEX replays_waiting ON replays (due_ms) WHERE state = 'waiting';
CREATE INDEX replays_sent ON replays (sent_ms) WHERE state = 'sent';
-- For the pace: when the last one is due.
CREATE INDEX replays_by_due ON replays (due_ms);

-- Many letters that are replayed together: first a few, then the rest as long as enough of them succeed.
CREATE TABLE replay_batches (
    id            TEXT    NOT NULL PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    asked         TEXT    NOT NULL,          -- the filter as it was asked for, for people
    asked_by      TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    at            TEXT    NOT NULL,          -- the policy moment
    canary        INTEGER NOT NULL,          -- so many go first, and each of them has to succeed; 0: none
    rate_milli    INTEGER NOT NULL CHECK (rate_milli > 0), -- letters a second, in thousandths
    failed_permille_max INTEGER NOT NULL,    -- more failures than this share stop it
    state         TEXT    NOT NULL CHECK (state IN ('canary', 'running', 'stopped', 'done')),
    next_ms       INTEGER NOT NULL,          -- no letter is taken up before
    created_ms    INTEGER NOT NULL,
    ended_ms      INTEGER,
    ended         TEXT                       -- why it ended, in one sentence
) STRICT;
CREATE INDEX replay_batches_by_tenant ON replay_batches (tenant, created_ms);
CREATE INDEX replay_batches_open ON replay_batches (created_ms) WHERE state IN ('canary', 'running');

-- The letters of a batch, chosen once: what becomes a dead letter later is not in it.
CREATE TABLE replay_batch_letters (
    batch         TEXT    NOT NULL REFERENCES replay_batches (id),
    place         INTEGER NOT NULL,          -- from 1, the oldest letter first
    letter        TEXT    NOT NULL REFERENCES dead_letters (id),
    chosen        TEXT    NOT NULL,          -- dead_letters.status when it was chosen: one that stands elsewhere is left alone
    state         TEXT    NOT NULL CHECK (state IN ('waiting', 'under_way', 'handled', 'failed', 'skipped')),
    told          TEXT,                      -- what came of it, for people
    PRIMARY KEY (batch, place),
    UNIQUE (batch, letter)
) STRICT, WITHOUT ROWID;
CREATE INDEX replay_batch_letters_by_state ON replay_batch_letters (batch, state, place);

-- Append-only: what people did about dead letters and batches. Unlike `acts`, one of them may happen any number of times.
CREATE TABLE letter_acts (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT, -- the order in which they happened, over everything
    tenant        TEXT    NOT NULL,
    deed          TEXT    NOT NULL,          -- replayed, discarded, edited, read_raw, exported, cancelled
    subject       TEXT    NOT NULL,          -- dead_letters.id or replay_batches.id
    asked_by      TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    at            TEXT    NOT NULL,          -- the policy moment
    detail        TEXT,                      -- what exactly, in one sentence
    acted_ms      INTEGER NOT NULL
) STRICT;
CREATE INDEX letter_acts_by_subject ON letter_acts (tenant, subject, sequence);

-- How often a letter was replayed. Its status is open, replaying, handled or discarded; replayed: of a failed
-- retrospective, whose replay opened the next one.
ALTER TABLE dead_letters ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
