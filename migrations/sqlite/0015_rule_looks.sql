-- What rules did in the runs that they were presented to, so that one that nobody needs is found.

-- A run that a retrospective looked into, and a rule that stood before it. Written by the writer as it credits the rule; kept for ever.
CREATE TABLE rule_looks (
    tenant        TEXT    NOT NULL,
    memory        TEXT    NOT NULL,          -- memories.id of the rule
    workflow      TEXT    NOT NULL,          -- the run's, not the keeper's
    run_id        TEXT    NOT NULL,
    verdict       TEXT    NOT NULL CHECK (verdict IN ('harmed', 'helped', 'applied', 'ignored', 'cue_not_met')),
    as_of         TEXT    NOT NULL,          -- the policy moment of the retrospective that looked first
    PRIMARY KEY (tenant, memory, workflow, run_id)
) STRICT, WITHOUT ROWID;
