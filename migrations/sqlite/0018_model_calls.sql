-- Calls of language models, each with what was paid for it. An answer is stored before anybody uses it, so a takeover
-- finds it by the hash of its prompt and never pays for it again. Purged with the journals.
CREATE TABLE model_calls (
    tenant         TEXT    NOT NULL,
    retrospective  TEXT    NOT NULL,
    number         INTEGER NOT NULL, -- investigations.number
    position       INTEGER NOT NULL, -- 1-based number of the call in its investigation
    prompt         TEXT    NOT NULL, -- SHA-256 of the name of the model and everything that it was asked
    model          TEXT    NOT NULL, -- name of the model
    outcome        TEXT    NOT NULL CHECK (outcome IN ('answered', 'unavailable', 'misconfigured', 'rejected', 'unreadable')),
    answer         TEXT,             -- ModelResponse; NULL unless answered
    problem        TEXT,             -- what went wrong; NULL if answered
    input_tokens   INTEGER NOT NULL, -- tokens of the prompt, cached ones included
    cached_tokens  INTEGER NOT NULL, -- those of them that the provider read from its cache
    output_tokens  INTEGER NOT NULL, -- tokens of the answer
    cost_micro_usd INTEGER,          -- millionths of a US dollar; NULL: the price is not known
    duration_ms    INTEGER NOT NULL, -- with retries and waits
    token          INTEGER NOT NULL, -- fencing token of the claim that made the call
    written_ms     INTEGER NOT NULL,
    PRIMARY KEY (tenant, retrospective, number, position),
    FOREIGN KEY (tenant, retrospective, number) REFERENCES investigations (tenant, retrospective, number),
    CHECK ((outcome = 'answered') = (answer IS NOT NULL))
) STRICT;
CREATE INDEX model_calls_by_age ON model_calls (written_ms);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('model_calls', 'sqlite_autoindex_model_calls_1', '100000 50000 40 8 1'),
    ('model_calls', 'model_calls_by_age', '100000 1');
