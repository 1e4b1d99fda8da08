-- Access tokens of the HTTP API. A row is never deleted, so it says for ever who created and revoked the token.
CREATE TABLE access_tokens (
    id             TEXT    NOT NULL PRIMARY KEY, -- public part of the token
    tenant         TEXT    NOT NULL, -- tenant that the token speaks for
    name           TEXT    NOT NULL, -- unique among the tenant's tokens that are not revoked
    scopes         TEXT    NOT NULL, -- what the token allows, separated by commas
    digest         TEXT    NOT NULL, -- SHA-256 of the whole token, in hexadecimal digits
    created_by     TEXT    NOT NULL, -- person who created it
    created_reason TEXT    NOT NULL, -- reason that the person gave
    created_at     TEXT    NOT NULL, -- policy time
    recorded_ms    INTEGER NOT NULL, -- time of the creation
    expires_ms     INTEGER, -- time from which it is refused; NULL: never
    last_used_ms   INTEGER, -- last use, exact to about a minute; NULL: never used
    revoked_by     TEXT, -- person who revoked it; NULL, like the next two, while it is not revoked
    revoked_reason TEXT, -- reason that the person gave
    revoked_at     TEXT  -- policy time
) STRICT, WITHOUT ROWID;
CREATE INDEX access_tokens_by_tenant ON access_tokens (tenant, recorded_ms);
CREATE UNIQUE INDEX access_tokens_by_name ON access_tokens (tenant, name) WHERE revoked_at IS NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('access_tokens', 'access_tokens', '1000 1'),
    ('access_tokens', 'access_tokens_by_name', '1000 100 1'),
    ('access_tokens', 'access_tokens_by_tenant', '1000 100 1');
