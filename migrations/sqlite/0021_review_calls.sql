-- A language model reads reviews: who is reading the reviews of a pull request, and the calls of the model.
ALTER TABLE reviews ADD COLUMN claim_token INTEGER NOT NULL DEFAULT 0; -- grows with each claim; a write with an old one is refused
ALTER TABLE reviews ADD COLUMN claimed_until_ms INTEGER;               -- end of the claim; NULL: nobody reads them

-- Calls of language models about the reviews of a pull request, as model_calls has those about runs. An answer is found by the
-- hash of its prompt by every later decision. Purged with the journals.
CREATE TABLE review_calls (
    tenant         TEXT    NOT NULL,
    repo           TEXT    NOT NULL,
    number         INTEGER NOT NULL, -- reviews.number
    position       INTEGER NOT NULL, -- 1-based number of the call about this pull request
    round          INTEGER NOT NULL, -- number of the decision for which it was made, from 1
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
    PRIMARY KEY (tenant, repo, number, position),
    FOREIGN KEY (tenant, repo, number) REFERENCES reviews (tenant, repo, number),
    CHECK ((outcome = 'answered') = (answer IS NOT NULL))
) STRICT;
CREATE INDEX review_calls_by_age ON review_calls (written_ms);

-- Versions of the review pipeline, as pipeline_versions has those of the other one.
CREATE TABLE review_pipeline_versions (
    tenant        TEXT    NOT NULL,
    hash          TEXT    NOT NULL, -- SHA-256 of settings, prompts and schemas
    prompts       TEXT    NOT NULL, -- SHA-256 of the prompts alone
    contents      TEXT    NOT NULL, -- PipelineContents
    loaded_from   TEXT    NOT NULL, -- folder from which the process had read it; empty: the built-in pipeline
    batch         TEXT    NOT NULL, -- rule_batches.id of the first review under it
    workflow      TEXT    NOT NULL, -- rule scope of that review
    first_seen_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash)
) STRICT, WITHOUT ROWID;

-- Version under which the review was read; NULL: no review, or read by a program that stored none.
ALTER TABLE rule_batches ADD COLUMN pipeline TEXT;
CREATE INDEX rule_batches_by_pipeline ON rule_batches (tenant, pipeline) WHERE pipeline IS NOT NULL;
-- Version of the review pipeline of a change that a review caused; NULL for every other change.
ALTER TABLE changes ADD COLUMN review_pipeline TEXT;
CREATE INDEX changes_by_review_pipeline ON changes (tenant, review_pipeline) WHERE review_pipeline IS NOT NULL;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('review_calls', 'sqlite_autoindex_review_calls_1', '10000 5000 500 2 1'),
    ('review_calls', 'review_calls_by_age', '10000 1'),
    ('review_pipeline_versions', 'review_pipeline_versions', '100 50 1'),
    ('rule_batches', 'rule_batches_by_pipeline', '10000 5000 100'),
    ('changes', 'changes_by_review_pipeline', '10000 5000 100');
