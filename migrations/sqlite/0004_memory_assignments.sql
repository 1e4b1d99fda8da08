-- Decisions by chance whether a run was handed an eligible memory; they show the effect of the memory. A memory that was
-- presented without such a decision, because the policy withheld nothing or before this migration, has no row. The first
-- decision of a run stays. Rows are purged with `presentations`.
CREATE TABLE memory_assignments (
    tenant      TEXT    NOT NULL,
    workflow    TEXT    NOT NULL,
    run_id      TEXT    NOT NULL, -- often stored before the run itself
    memory      TEXT    NOT NULL,
    withheld    INTEGER NOT NULL CHECK (withheld IN (0, 1)), -- 1: not handed out; 0: handed out
    permille    INTEGER NOT NULL, -- probability, per mille, with which it was to be withheld
    assigned_ms INTEGER NOT NULL, -- time of the decision
    PRIMARY KEY (tenant, workflow, run_id, memory)
) STRICT, WITHOUT ROWID;
-- For the effect of one memory, oldest decision first.
CREATE INDEX memory_assignments_by_memory ON memory_assignments (tenant, workflow, memory, assigned_ms, run_id);
