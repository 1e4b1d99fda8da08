-- Versions of the pipeline, by what they say: an append-only log. A row is written by the transaction that opens the first
-- retrospective of a tenant under the version, so whoever investigates finds its prompts, whatever the folder says by then.
CREATE TABLE pipeline_versions (
    tenant        TEXT COLLATE "C" NOT NULL,
    hash          TEXT COLLATE "C" NOT NULL,
    prompts       TEXT COLLATE "C" NOT NULL,
    contents      TEXT NOT NULL,
    loaded_from   TEXT NOT NULL,
    retrospective TEXT COLLATE "C" NOT NULL,
    workflow      TEXT COLLATE "C" NOT NULL,
    first_seen_ms BIGINT NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- Version under which the retrospective was opened, and its prompts; NULL: by a program that stored none.
ALTER TABLE retrospectives ADD COLUMN pipeline TEXT COLLATE "C";
ALTER TABLE retrospectives ADD COLUMN prompts TEXT COLLATE "C";
CREATE INDEX retrospectives_by_pipeline ON retrospectives (tenant, pipeline) WHERE pipeline IS NOT NULL;
