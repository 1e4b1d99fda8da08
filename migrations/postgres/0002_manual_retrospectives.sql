-- Retrospectives that a person asked for, and what they propose.

-- Asked: who asked, for which runs and with which question; NULL for an automatic one. One that was asked for claims
-- nothing: its window is 0 to 0, and no run has ordinal 0. Its `epoch` is no epoch, but a number that counts down from
-- -1 within the workflow and only keeps the key unique.
ALTER TABLE retrospectives ADD COLUMN asked TEXT;

-- At most one automatic one is open in a workflow, whatever a program believes; of manual ones any number.
DROP INDEX retrospectives_open;
CREATE UNIQUE INDEX retrospectives_open ON retrospectives (tenant, workflow)
    WHERE asked IS NULL AND state IN ('due', 'investigating', 'settling');

-- What manual retrospectives propose, one row a pattern; a person accepts or refuses each, once.
CREATE TABLE proposals (
    tenant          TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,        -- derived from the retrospective and the first finding
    workflow        TEXT COLLATE "C" NOT NULL,
    retrospective   TEXT COLLATE "C" NOT NULL,        -- retrospectives.id
    place           BIGINT NOT NULL,                  -- its place in the report, from 1
    status          TEXT NOT NULL CHECK (status IN ('open', 'accepted', 'refused')),
    proposal        TEXT NOT NULL,                    -- Proposal, whole
    decision        TEXT,                             -- Decision; NULL while it is open
    made_ms         BIGINT NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, retrospective, place),
    FOREIGN KEY (tenant, retrospective) REFERENCES retrospectives (tenant, id),
    CHECK ((decision IS NULL) = (status = 'open'))
);
CREATE INDEX proposals_by_workflow ON proposals (tenant, workflow, made_ms);
