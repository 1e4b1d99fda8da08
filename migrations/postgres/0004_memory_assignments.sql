-- Decisions by chance whether a run was handed an eligible memory; they show the effect of the memory. A memory that was
-- presented without such a decision, because the policy withheld nothing or before this migration, has no row. The first
-- decision of a run stays. Rows are purged with `presentations`.
CREATE TABLE memory_assignments (
    tenant      TEXT COLLATE "C" NOT NULL,
    workflow    TEXT COLLATE "C" NOT NULL,
    run_id      TEXT COLLATE "C" NOT NULL, -- often stored before the run itself
    memory      TEXT COLLATE "C" NOT NULL,
    withheld    BOOLEAN NOT NULL,          -- true: not handed out; false: handed out
    permille    BIGINT NOT NULL,           -- probability, per mille, with which it was to be withheld
    assigned_ms BIGINT NOT NULL,           -- time of the decision
    PRIMARY KEY (tenant, workflow, run_id, memory)
);
-- For the effect of one memory, oldest decision first.
CREATE INDEX memory_assignments_by_memory ON memory_assignments (tenant, workflow, memory, assigned_ms, run_id);
