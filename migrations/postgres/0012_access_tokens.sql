-- Access tokens of the HTTP API. A row is never deleted, so it says for ever who created and revoked the token.
CREATE TABLE access_tokens (
    id             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant         TEXT COLLATE "C" NOT NULL,
    name           TEXT COLLATE "C" NOT NULL,
    scopes         TEXT COLLATE "C" NOT NULL,
    digest         TEXT COLLATE "C" NOT NULL,
    created_by     TEXT COLLATE "C" NOT NULL,
    created_reason TEXT COLLATE "C" NOT NULL,
    created_at     TEXT COLLATE "C" NOT NULL,
    recorded_ms    BIGINT NOT NULL,
    expires_ms     BIGINT,
    last_used_ms   BIGINT,
    revoked_by     TEXT COLLATE "C",
    revoked_reason TEXT COLLATE "C",
    revoked_at     TEXT COLLATE "C"
);
CREATE INDEX access_tokens_by_tenant ON access_tokens (tenant, recorded_ms);
CREATE UNIQUE INDEX access_tokens_by_name ON access_tokens (tenant, name) WHERE revoked_at IS NULL;
