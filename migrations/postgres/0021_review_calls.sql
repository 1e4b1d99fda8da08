-- A language model reads reviews: who is reading the reviews of a pull request, and the calls of the model.
ALTER TABLE reviews ADD COLUMN claim_token BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reviews ADD COLUMN claimed_until_ms BIGINT;

-- Calls of language models about the reviews of a pull request, as model_calls has those about runs. An answer is found by the
-- hash of its prompt by every later decision. Purged with the journals.
CREATE TABLE review_calls (
    tenant         TEXT COLLATE "C" NOT NULL,
    repo           TEXT COLLATE "C" NOT NULL,
    number         BIGINT NOT NULL,
    position       BIGINT NOT NULL,
    round          BIGINT NOT NULL,
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
    PRIMARY KEY (tenant, repo, number, position),
    FOREIGN KEY (tenant, repo, number) REFERENCES reviews (tenant, repo, number),
    CHECK ((outcome = 'answered') = (answer IS NOT NULL))
);
CREATE INDEX review_calls_by_age ON review_calls (written_ms);

-- Versions of the review pipeline, as pipeline_versions has those of the other one.
CREATE TABLE review_pipeline_versions (
    tenant         TEXT COLLATE "C" NOT NULL,
    hash           TEXT COLLATE "C" NOT NULL,
    prompts        TEXT COLLATE "C" NOT NULL,
    contents       TEXT NOT NULL,
    loaded_from    TEXT NOT NULL,
    batch          TEXT COLLATE "C" NOT NULL,
    workflow       TEXT COLLATE "C" NOT NULL,
    first_seen_ms  BIGINT NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- Version under which the review was read; NULL: no review, or read by a program that stored none.
ALTER TABLE rule_batches ADD COLUMN pipeline TEXT COLLATE "C";
CREATE INDEX rule_batches_by_pipeline ON rule_batches (tenant, pipeline) WHERE pipeline IS NOT NULL;
-- Version of the review pipeline of a change that a review caused; NULL for every other change.
ALTER TABLE changes ADD COLUMN review_pipeline TEXT COLLATE "C";
CREATE INDEX changes_by_review_pipeline ON changes (tenant, review_pipeline) WHERE review_pipeline IS NOT NULL;
