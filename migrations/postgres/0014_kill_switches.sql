-- Kill switches, by which a person stops that memories are handed out. A row is never deleted, so it says for ever who
-- stopped what.
CREATE TABLE kill_switches (
    id                BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant            TEXT COLLATE "C" NOT NULL,
    workflow          TEXT COLLATE "C" NOT NULL,
    step              TEXT COLLATE "C" NOT NULL,
    engaged_by        TEXT COLLATE "C" NOT NULL,
    engaged_reason    TEXT COLLATE "C" NOT NULL,
    engaged_at        TEXT COLLATE "C" NOT NULL,
    disengaged_by     TEXT COLLATE "C",
    disengaged_reason TEXT COLLATE "C",
    disengaged_at     TEXT COLLATE "C"
);
CREATE UNIQUE INDEX kill_switches_engaged ON kill_switches (tenant, workflow, step) WHERE disengaged_at IS NULL;
CREATE INDEX kill_switches_by_tenant ON kill_switches (tenant, id);
