-- What is known of the broker's streams, so that a broker whose data was wiped is noticed, what went with it is told, and
-- the outbox feeds it again. A position belongs to the broker, whose messages may name no tenant that can be read.

-- A stream from when the broker made it to when it was found made anew, or without its end: one row each time.
CREATE TABLE streams (
    stream          TEXT    NOT NULL,
    number          INTEGER NOT NULL,       -- the how manieth it is, from 1; the last one is at the broker
    made            TEXT    NOT NULL,       -- when the broker made it, as it says
    seen_to         INTEGER NOT NULL,       -- the last position that it was seen with
    handled_to      INTEGER NOT NULL,       -- everything up to here was acknowledged by its consumer
    checked_to      INTEGER NOT NULL,       -- everything up to here was compared with what was done
    found_ms        INTEGER NOT NULL,       -- when it was first seen
    seen_ms         INTEGER NOT NULL,       -- when it was last seen
    ended_ms        INTEGER,                -- when another one was found in its place; NULL: it is there
    compared_ms     INTEGER NOT NULL,       -- when somebody last began to compare it
    fed_again       INTEGER NOT NULL,       -- messages of the outbox that it was to get a second time when it was found
    PRIMARY KEY (stream, number)
) WITHOUT ROWID;

-- Messages that waited in a stream from one look to the next: what they are called, should they be lost with it.
CREATE TABLE waiting (
    stream          TEXT    NOT NULL,
    number          INTEGER NOT NULL,       -- streams.number
    sequence        INTEGER NOT NULL,       -- position in the stream
    message         TEXT    NOT NULL,       -- WaitingMessage: its subject, and its event where it can be read
    PRIMARY KEY (stream, number, sequence)
) WITHOUT ROWID;

-- Positions that were lost with a stream and were not known to be handled. Kept for ever.
CREATE TABLE losses (
    stream          TEXT    NOT NULL,
    number          INTEGER NOT NULL,       -- streams.number
    first_sequence  INTEGER NOT NULL,       -- from this position
    last_sequence   INTEGER NOT NULL,       -- to this one
    message         TEXT,                   -- WaitingMessage of a single one that is known by name; NULL: none of them is
    PRIMARY KEY (stream, number, first_sequence)
) WITHOUT ROWID;

-- Whether a message has its dead letter.
CREATE INDEX dead_letters_by_position ON dead_letters (stream, sequence);
