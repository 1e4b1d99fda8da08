-- Kill switches, by which a person stops that memories are handed out. A row is never deleted, so it says for ever who
-- stopped what.
CREATE TABLE kill_switches (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant            TEXT NOT NULL, -- empty: every tenant
    workflow          TEXT NOT NULL, -- empty: every workflow
    step              TEXT NOT NULL, -- empty: every step
    engaged_by        TEXT NOT NULL, -- person who engaged it
    engaged_reason    TEXT NOT NULL, -- reason that the person gave
    engaged_at        TEXT NOT NULL, -- policy time
    disengaged_by     TEXT, -- person who disengaged it; NULL, like the next two, while it is engaged
    disengaged_reason TEXT, -- reason that the person gave
    disengaged_at     TEXT  -- policy time
) STRICT;
CREATE UNIQUE INDEX kill_switches_engaged ON kill_switches (tenant, workflow, step) WHERE disengaged_at IS NULL;
CREATE INDEX kill_switches_by_tenant ON kill_switches (tenant, id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('kill_switches', 'kill_switches_engaged', '10 5 2 1'),
    ('kill_switches', 'kill_switches_by_tenant', '100 10 1');
