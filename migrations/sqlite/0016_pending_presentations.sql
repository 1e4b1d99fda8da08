-- What runs were handed, one row an answer, until a gateway applies it to `presentations`, `memory_presentation_counts`
-- and `memory_assignments`. An answer touches about twenty rows of these, most of them on pages of their own, so agents
-- would wait for the disk. Who needs to know what a run was handed reads both.
CREATE TABLE pending_presentations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- order in which they were recorded
    tenant       TEXT    NOT NULL,
    workflow     TEXT    NOT NULL,
    run_id       TEXT    NOT NULL, -- often stored before the run itself
    memories     TEXT    NOT NULL, -- memories that the run was handed, and decisions by chance: see PendingMemories
    presented_ms INTEGER NOT NULL  -- time at which it was recorded
) STRICT;
CREATE INDEX pending_presentations_by_run ON pending_presentations (tenant, workflow, run_id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('pending_presentations', 'pending_presentations_by_run', '1000 1000 100 1');
