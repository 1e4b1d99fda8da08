-- What a gateway needs to hand out memories without reading them again for each agent.

CREATE TABLE context_changes (
    tenant TEXT COLLATE "C" NOT NULL,
    workflow TEXT COLLATE "C" NOT NULL,
    -- Number of the transaction. Those below the oldest one that is under way are complete.
    number BIGINT NOT NULL,
    PRIMARY KEY (tenant, workflow)
);
CREATE INDEX context_changes_by_number ON context_changes (number);

CREATE TABLE context_leases (
    gateway TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    renewals BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE FUNCTION note_changed_memories() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    SELECT DISTINCT tenant, workflow, CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT) FROM changed
    ORDER BY tenant, workflow
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
    RETURN NULL;
END $$;
CREATE TRIGGER memories_inserted AFTER INSERT ON memories
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_changed_memories();
CREATE TRIGGER memories_updated AFTER UPDATE ON memories
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_changed_memories();
CREATE TRIGGER memories_deleted AFTER DELETE ON memories
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_changed_memories();

CREATE FUNCTION note_changed_visibility() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO context_changes (tenant, workflow, number)
    VALUES (new.tenant, 'repo:' || new.repo, CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT))
    ON CONFLICT (tenant, workflow) DO UPDATE SET number = excluded.number;
    RETURN NULL;
END $$;
CREATE TRIGGER repository_visibility_inserted AFTER INSERT ON repository_visibility
    FOR EACH ROW EXECUTE FUNCTION note_changed_visibility();
CREATE TRIGGER repository_visibility_updated AFTER UPDATE ON repository_visibility
    FOR EACH ROW WHEN (new.visibility <> old.visibility) EXECUTE FUNCTION note_changed_visibility();
