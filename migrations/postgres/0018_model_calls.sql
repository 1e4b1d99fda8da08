-- Calls of language models, each with what was paid for it. An answer is stored before anybody uses it, so a takeover
-- finds it by the hash of its prompt and never pays for it again. Purged with the journals.
CREATE TABLE model_calls (
    tenant         TEXT COLLATE "C" NOT NULL,
    retrospective  TEXT COLLATE "C" NOT NULL,
    number         BIGINT NOT NULL,
    position       BIGINT NOT NULL,
    prompt         TEXT COLLATE "C" NOT NULL,
    model          TEXT COLLATE "C" NOT NULL,
    outcome        TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('answered', 'unavailable', 'misconfigured', 'rejected', 'unreadable')),
    answer         TEXT,
    problem        TEXT,
    input_tokens   BIGINT NOT NULL,
    cached_tokens  BIGINT NOT NULL,
    output_tokens  BIGINT NOT NULL,
    cost_micro_usd BIGINT,
    duration_ms    BIGINT NOT NULL,
    token          BIGINT NOT NULL,
    written_ms     BIGINT NOT NULL,
    PRIMARY KEY (tenant, retrospective, number, position),
    FOREIGN KEY (tenant, retrospective, number) REFERENCES investigations (tenant, retrospective, number),
    CHECK ((outcome = 'answered') = (answer IS NOT NULL))
);
CREATE INDEX model_calls_by_age ON model_calls (written_ms);
