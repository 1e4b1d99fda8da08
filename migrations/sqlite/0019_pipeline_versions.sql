-- Versions of the pipeline, by what they say: an append-only log. A row is written by the transaction that opens the first
-- retrospective of a tenant under the version, so whoever investigates finds its prompts, whatever the folder says by then.
CREATE TABLE pipeline_versions (
    tenant        TEXT    NOT NULL,
    hash          TEXT    NOT NULL, -- SHA-256 of policy, prompts and schemas
    prompts       TEXT    NOT NULL, -- SHA-256 of the prompts alone
    contents      TEXT    NOT NULL, -- PipelineContents
    loaded_from   TEXT    NOT NULL, -- folder from which the process had read it; empty: the built-in pipeline
    retrospective TEXT    NOT NULL, -- retrospectives.id of the first one under it
    workflow      TEXT    NOT NULL, -- workflow of that retrospective
    first_seen_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash)
) STRICT, WITHOUT ROWID;

-- Versions that people took back into the folder, append-only.
CREATE TABLE pipeline_reverts (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT, -- order of all rows
    tenant       TEXT    NOT NULL,
    hash         TEXT    NOT NULL, -- pipeline_versions.hash
    requested_by TEXT    NOT NULL, -- person, as far as the interface could tell
    reason       TEXT    NOT NULL, -- reason that the person gave
    requested_at TEXT    NOT NULL, -- policy time
    detail       TEXT    NOT NULL, -- folder that was written
    recorded_ms  INTEGER NOT NULL
) STRICT;
CREATE INDEX pipeline_reverts_by_tenant ON pipeline_reverts (tenant, sequence);

-- Version under which the retrospective was opened, and its prompts; NULL: by a program that stored none.
ALTER TABLE retrospectives ADD COLUMN pipeline TEXT;
ALTER TABLE retrospectives ADD COLUMN prompts TEXT;
CREATE INDEX retrospectives_by_pipeline ON retrospectives (tenant, pipeline) WHERE pipeline IS NOT NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('pipeline_versions', 'pipeline_versions', '100 50 1'),
    ('pipeline_reverts', 'pipeline_reverts_by_tenant', '100 50 1'),
    ('retrospectives', 'retrospectives_by_pipeline', '10000 5000 100');
