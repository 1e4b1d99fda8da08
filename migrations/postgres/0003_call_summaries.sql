-- Calls of the runs that a retrospective has claimed, also of those that it did not investigate. They outlive the bodies:
-- the closing of a retrospective deletes the oldest ones by ordinal, and no age does.
CREATE TABLE call_summaries (
    tenant         TEXT COLLATE "C" NOT NULL,
    workflow       TEXT COLLATE "C" NOT NULL,
    run_id         TEXT COLLATE "C" NOT NULL, -- runs.run_id
    attempt        BIGINT NOT NULL,           -- attempt of the run that was summarised, as in runs.attempt
    -- version of the summary; those of other versions are not counted together with it
    version        BIGINT NOT NULL,
    -- number of times that this summary was begun, counted before its body is read. A body that ends the process each
    -- time is given up
    attempts_begun BIGINT NOT NULL,
    -- reason why the body could not be read; NULL: it could, or nothing is stored yet
    problem        TEXT,
    -- JSON of CallSummary, compressed with zstd; NULL: begun, or there is a problem
    summary        BYTEA,
    PRIMARY KEY (tenant, workflow, run_id),
    CHECK (problem IS NULL OR summary IS NULL)
);
-- The values are compressed already.
ALTER TABLE call_summaries ALTER COLUMN summary SET STORAGE EXTERNAL;

-- CallCounts: what the runs of the window called and what failed. NULL: a manual retrospective, or one that was settled
-- by a program that did not count calls.
ALTER TABLE mutation_batches ADD COLUMN calls TEXT;
