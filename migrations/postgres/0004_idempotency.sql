-- Requests that their callers gave a key (`Idempotency-Key`), and what was answered: sending one again does not do it
-- again. Forgotten after a day. Without a key nothing is written here.
CREATE TABLE requests (
    tenant       TEXT   COLLATE "C" NOT NULL,
    route        TEXT   COLLATE "C" NOT NULL,           -- method and path
    key          TEXT   COLLATE "C" NOT NULL,           -- the caller's
    fingerprint  TEXT    NOT NULL,           -- SHA-256 of the request's content, hex; another one under the same key is refused
    token        BIGINT  NOT NULL,           -- who is at it: only its holder may store the answer; grows with each
    begun_ms     BIGINT  NOT NULL,           -- when the holder began
    status       BIGINT,                     -- the HTTP status that was answered; NULL: somebody is at it
    content_type TEXT,                       -- of the answer
    body         BYTEA,                      -- the answer, as it was sent
    PRIMARY KEY (tenant, route, key)
);
CREATE INDEX requests_by_age ON requests (begun_ms);
