-- What agents, people and evaluations say that a memory did. What was said never changes; the last three columns say
-- what became of it. Never purged: a run is heard once.
CREATE TABLE memory_feedback (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL, -- derived from memory, author, verdict and earlier feedback of the same person
    memory      TEXT    NOT NULL, -- memories.id
    scope       TEXT    NOT NULL, -- memories.workflow: the workflow or rule scope under whose lock it is weighed
    voice       TEXT    NOT NULL, -- derived from author and verdict: the same is heard once, from a person once at a time
    workflow    TEXT,             -- workflow of the run; NULL: a person says it, of no run
    run_id      TEXT,             -- often stored before the run itself
    feedback    TEXT    NOT NULL, -- Feedback
    received_ms INTEGER NOT NULL,
    passes      INTEGER NOT NULL DEFAULT 0, -- closings for which it has waited for a run that had not arrived
    settled_by  TEXT,             -- retrospective or batch of rules that settled it; NULL: it waits
    weighed     INTEGER CHECK (weighed IN (0, 1)), -- whether it was weighed then
    reason      TEXT,             -- what came of it, or why it was not weighed
    PRIMARY KEY (tenant, id),
    CHECK ((settled_by IS NULL) = (weighed IS NULL) AND (settled_by IS NULL) = (reason IS NULL)),
    CHECK ((workflow IS NULL) = (run_id IS NULL))
) STRICT;
CREATE INDEX memory_feedback_by_voice ON memory_feedback (tenant, memory, voice);
CREATE INDEX memory_feedback_by_run ON memory_feedback (tenant, workflow, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX memory_feedback_waiting ON memory_feedback (tenant, scope, memory) WHERE settled_by IS NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('memory_feedback', 'sqlite_autoindex_memory_feedback_1', '100000 50000 1'),
    ('memory_feedback', 'memory_feedback_by_voice', '100000 50000 50 1'),
    ('memory_feedback', 'memory_feedback_by_run', '90000 45000 5000 3'),
    ('memory_feedback', 'memory_feedback_waiting', '1000 500 100 5');
