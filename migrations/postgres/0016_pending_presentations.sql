-- What runs were handed, one row an answer, until a gateway applies it to `presentations`, `memory_presentation_counts`
-- and `memory_assignments`. An answer touches about twenty rows of these, most of them on pages of their own, so agents
-- would wait for the disk. Who needs to know what a run was handed reads both.
CREATE TABLE pending_presentations (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant       TEXT COLLATE "C" NOT NULL,
    workflow     TEXT COLLATE "C" NOT NULL,
    run_id       TEXT COLLATE "C" NOT NULL,
    memories     TEXT COLLATE "C" NOT NULL,
    presented_ms BIGINT NOT NULL
);
CREATE INDEX pending_presentations_by_run ON pending_presentations (tenant, workflow, run_id);
