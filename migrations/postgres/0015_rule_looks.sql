-- What rules did in the runs that they were presented to, so that one that nobody needs is found.

-- A run that a retrospective looked into, and a rule that stood before it. Written by the writer as it credits the rule; kept for ever.
CREATE TABLE rule_looks (
    tenant          TEXT COLLATE "C" NOT NULL,
    memory          TEXT COLLATE "C" NOT NULL,        -- memories.id of the rule
    workflow        TEXT COLLATE "C" NOT NULL,        -- the run's, not the keeper's
    run_id          TEXT COLLATE "C" NOT NULL,
    verdict         TEXT COLLATE "C" NOT NULL CHECK (verdict IN ('harmed', 'helped', 'applied', 'ignored', 'cue_not_met')),
    as_of           TEXT COLLATE "C" NOT NULL,        -- the policy moment of the retrospective that looked first
    PRIMARY KEY (tenant, memory, workflow, run_id)
);
