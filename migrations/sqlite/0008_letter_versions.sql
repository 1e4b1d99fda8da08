-- Understanding and mending dead letters: what became of each attempt, and the versions that people made of a letter.

-- One row an attempt. While a message is under way its rows belong to its place at the broker; when it is given up they
-- become the letter's. Those of a message that went well are purged with the rows of `attempts`.
CREATE TABLE attempt_history (
    number          INTEGER PRIMARY KEY,     -- the order in which they were written
    consumer        TEXT    NOT NULL,
    stream          TEXT    NOT NULL,
    sequence        INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,        -- from 1, the first delivery
    letter          TEXT    REFERENCES dead_letters (id), -- NULL: under way, or it went well
    begun_ms        INTEGER,                 -- when it was counted; NULL: the first delivery, which is not
    failed_ms       INTEGER,                 -- when it failed; NULL: it left no word, as when the process died
    code            TEXT,                    -- why it was given up; NULL: it was to be tried again
    path            TEXT,                    -- the field that is to blame
    detail          TEXT,                    -- in a sentence; NULL while there is no word of it
    program_version TEXT    NOT NULL         -- of the program that tried
) STRICT;
CREATE UNIQUE INDEX attempt_history_under_way ON attempt_history (consumer, stream, sequence, attempt)
    WHERE letter IS NULL;
CREATE INDEX attempt_history_by_letter ON attempt_history (letter, number) WHERE letter IS NOT NULL;
CREATE INDEX attempt_history_by_age ON attempt_history (coalesce(failed_ms, begun_ms)) WHERE letter IS NULL;

-- What people made of a letter so that it can be handled. The letter itself, version 0, is never touched, nor is a version.
CREATE TABLE letter_versions (
    letter          TEXT    NOT NULL REFERENCES dead_letters (id),
    version         INTEGER NOT NULL CHECK (version > 0),
    based_on        INTEGER NOT NULL,        -- the version it was made from
    headers         TEXT    NOT NULL,        -- a list of [name, value], in order
    payload         BLOB    NOT NULL,        -- what a replay of this version sends
    payload_sha256  TEXT    NOT NULL,
    edited_by       TEXT    NOT NULL,        -- who, as far as the road they came by can tell
    reason          TEXT    NOT NULL,        -- why, in their words
    at              TEXT    NOT NULL,        -- the policy moment
    edited_ms       INTEGER NOT NULL,
    PRIMARY KEY (letter, version)
) STRICT;
