-- Retention: what is needed to purge details by age in bounded stages, and what is left of an event for ever.

-- What is left of inbox rows: by this an event is known for ever. The digest is over consumer, tenant, source and id.
CREATE TABLE seen_events (
    digest        BLOB    NOT NULL PRIMARY KEY CHECK (length(digest) = 16), -- EventDigest
    content       BLOB    NOT NULL CHECK (length(content) = 8)              -- ContentDigest: other content is a conflict
) STRICT, WITHOUT ROWID;

-- How much each stage has purged since the file was made, for people. One row a stage.
CREATE TABLE purges (
    stage         TEXT    NOT NULL PRIMARY KEY, -- bodies, journals, runs, events, messages, attempts
    purged        INTEGER NOT NULL,          -- rows, all times together
    last_ms       INTEGER NOT NULL           -- when it purged something last
) STRICT;

-- Events handled, so that nobody has to count the inbox. Those from before are counted by their runs.
ALTER TABLE workflows ADD COLUMN events INTEGER NOT NULL DEFAULT 0;
UPDATE workflows SET events = recorded;

-- Which details of its window are purged: 0 none, 1 the bodies, 2 the facts too.
ALTER TABLE retrospectives ADD COLUMN purged INTEGER NOT NULL DEFAULT 0 CHECK (purged IN (0, 1, 2));
CREATE INDEX retrospectives_with_bodies ON retrospectives (state_ms) WHERE state = 'closed' AND purged = 0;
CREATE INDEX retrospectives_with_facts ON retrospectives (state_ms) WHERE state = 'closed' AND purged = 1;

-- No retrospective claims a run that was not counted: since when the details of such a one are kept. NULL: it is counted.
ALTER TABLE run_facts ADD COLUMN uncounted_ms INTEGER;
UPDATE run_facts SET uncounted_ms = (
    SELECT received_ms FROM runs
    WHERE runs.tenant = run_facts.tenant AND runs.workflow = run_facts.workflow AND runs.number = run_facts.number
        AND runs.ordinal IS NULL);
CREATE INDEX run_facts_uncounted ON run_facts (uncounted_ms) WHERE uncounted_ms IS NOT NULL;

-- The oldest first.
CREATE INDEX inbox_by_age ON inbox (received_ms);
CREATE INDEX journal_by_age ON journal (written_ms);
CREATE INDEX mutation_batches_by_age ON mutation_batches (settled_ms);
CREATE INDEX outbox_sent ON outbox (sent_ms) WHERE sent_ms IS NOT NULL;
