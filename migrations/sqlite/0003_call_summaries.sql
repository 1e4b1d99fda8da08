-- Calls of the runs that a retrospective has claimed, also of those that it did not investigate. They outlive the bodies:
-- the closing of a retrospective deletes the oldest ones by ordinal, and no age does.
CREATE TABLE call_summaries (
    tenant         TEXT    NOT NULL,
    workflow       TEXT    NOT NULL,
    run_id         TEXT    NOT NULL, -- runs.run_id
    attempt        INTEGER NOT NULL, -- attempt of the run that was summarised, as in runs.attempt
    version        INTEGER NOT NULL, -- version of the summary; those of other versions are not counted together with it
    -- number of times that this summary was begun, counted before its body is read. A body that ends the process each
    -- time is given up
    attempts_begun INTEGER NOT NULL,
    problem        TEXT,             -- reason why the body could not be read; NULL: it could, or nothing is stored yet
    summary        BLOB,             -- JSON of CallSummary, compressed with zstd; NULL: begun, or there is a problem
    PRIMARY KEY (tenant, workflow, run_id),
    CHECK (problem IS NULL OR summary IS NULL)
) STRICT;

-- CallCounts: what the runs of the window called and what failed. NULL: a manual retrospective, or one that was settled
-- by a program that did not count calls.
ALTER TABLE mutation_batches ADD COLUMN calls TEXT;
