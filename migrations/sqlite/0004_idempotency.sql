-- Requests that their callers gave a key (`Idempotency-Key`), and what was answered: sending one again does not do it
-- again. Forgotten after a day. Without a key nothing is written here.
CREATE TABLE requests (
    tenant       TEXT    NOT NULL,
    route        TEXT    NOT NULL,           -- method and path
    key          TEXT    NOT NULL,           -- the caller's
    fingerprint  TEXT    NOT NULL,           -- SHA-256 of the request's content, hex; another one under the same key is refused
    token        INTEGER NOT NULL,           -- who is at it: only its holder may store the answer; grows with each
    begun_ms     INTEGER NOT NULL,           -- when the holder began
    status       INTEGER,                    -- the HTTP status that was answered; NULL: somebody is at it
    content_type TEXT,                       -- of the answer
    body         BLOB,                       -- the answer, as it was sent
    PRIMARY KEY (tenant, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_age ON requests (begun_ms);
