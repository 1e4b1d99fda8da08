-- What a gateway needs to hand out memories without reading them again for each agent.

-- Workflows (rules: rule scopes) of which something that agents are handed has changed. Written by triggers, so that
-- no writer can forget it, neither an earlier version of the program nor a person at a SQL prompt.
CREATE TABLE context_changes (
    tenant TEXT NOT NULL,
    workflow TEXT NOT NULL,
    -- Grows from change to change.
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow)
) STRICT, WITHOUT ROWID;
CREATE INDEX context_changes_by_number ON context_changes (number);

-- Gateways that may hand out what they have cached.
CREATE TABLE context_leases (
    -- Name of the process, new at each start.
    gateway TEXT NOT NULL PRIMARY KEY,
    -- Number of times that the lease was renewed. After each of them the gateway reads the changes.
    renewals INTEGER NOT NULL,
    -- Time after which the gateway hands out nothing from its cache, in Unix milliseconds.
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER memories_inserted AFTER INSERT ON memories BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    VALUES (new.tenant, new.workflow, (SELECT coalesce(max(number), 0) + 1 FROM context_changes))
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
END;
CREATE TRIGGER memories_updated AFTER UPDATE ON memories BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    VALUES (new.tenant, new.workflow, (SELECT coalesce(max(number), 0) + 1 FROM context_changes))
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
END;
CREATE TRIGGER memories_deleted AFTER DELETE ON memories BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    VALUES (old.tenant, old.workflow, (SELECT coalesce(max(number), 0) + 1 FROM context_changes))
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
END;

-- Who may read a repository decides what its runs are handed. `repo:` begins the name of its rule scope.
CREATE TRIGGER repository_visibility_inserted AFTER INSERT ON repository_visibility BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    VALUES (new.tenant, 'repo:' || new.repo, (SELECT coalesce(max(number), 0) + 1 FROM context_changes))
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
END;
CREATE TRIGGER repository_visibility_updated AFTER UPDATE ON repository_visibility
    WHEN new.visibility <> old.visibility
BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    VALUES (new.tenant, 'repo:' || new.repo, (SELECT coalesce(max(number), 0) + 1 FROM context_changes))
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
END;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('context_changes', 'context_changes_by_number', '1000 1'),
    ('context_changes', 'context_changes', '1000 1000 1'),
    ('context_leases', 'context_leases', '10 1');
