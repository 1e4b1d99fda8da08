-- What people say about pull requests, what was decided about it, and what the writer reported.

-- One row a pull request that somebody spoke about. Who says more makes it due; then everything that was said is decided upon, again.
CREATE TABLE reviews (
    tenant          TEXT COLLATE "C" NOT NULL,        -- the owner
    repo            TEXT COLLATE "C" NOT NULL,        -- owner/name in lower case, after its host unless that is github.com
    number          BIGINT NOT NULL,                  -- the pull request's, in its repository
    author          TEXT COLLATE "C",                 -- who opened it; NULL: no event has told yet
    revision        BIGINT NOT NULL,                  -- grows with whatever is said; a decision upon an older one is not stored
    rounds          BIGINT NOT NULL,                  -- batches made; the last rule_batches.round
    due_ms          BIGINT,                           -- when the next is made; NULL: nothing was said since
    PRIMARY KEY (tenant, repo, number)
);
CREATE INDEX reviews_due ON reviews (due_ms) WHERE due_ms IS NOT NULL;

-- Each thing that somebody said, as it was said last; without secrets.
CREATE TABLE remarks (
    tenant          TEXT COLLATE "C" NOT NULL,
    repo            TEXT COLLATE "C" NOT NULL,
    number          BIGINT NOT NULL,
    kind            TEXT COLLATE "C" NOT NULL CHECK (kind IN ('review_body', 'line_comment', 'conversation_comment')), -- the ids of each kind are their own
    remark_id       TEXT COLLATE "C" NOT NULL,        -- GitHub's
    changed_at      TEXT COLLATE "C" NOT NULL,        -- when it was said or changed last, by GitHub's clock
    remark          TEXT COLLATE "C" NOT NULL,        -- Remark; of one that was deleted there everything but its text
    deleted         BOOLEAN NOT NULL,                 -- it does not come back
    request         TEXT,                             -- the title that its reader made of it; NULL: none
    thumbs_up       BIGINT NOT NULL,                  -- how many 👍 it had then
    stored_ms       BIGINT NOT NULL,                  -- when it was stored last
    PRIMARY KEY (tenant, repo, number, kind, remark_id),
    FOREIGN KEY (tenant, repo, number) REFERENCES reviews (tenant, repo, number)
);
-- What was asked for elsewhere in the repository, the latest first.
CREATE INDEX remarks_requests ON remarks (tenant, repo, changed_at) WHERE request IS NOT NULL;

-- Threads of comments on lines: whether each was resolved. Often told before or long after the comment itself.
CREATE TABLE review_threads (
    tenant          TEXT COLLATE "C" NOT NULL,
    repo            TEXT COLLATE "C" NOT NULL,
    number          BIGINT NOT NULL,
    first_id        TEXT COLLATE "C" NOT NULL,        -- remarks.remark_id of the comment that began it
    resolved        BOOLEAN NOT NULL,
    changed_at      TEXT COLLATE "C" NOT NULL,        -- when, by GitHub's clock
    PRIMARY KEY (tenant, repo, number, first_id),
    FOREIGN KEY (tenant, repo, number) REFERENCES reviews (tenant, repo, number)
);

-- What is asked of a repository's rules: by the reviews of a pull request, by a run that used some, or by the clock.
CREATE TABLE rule_batches (
    tenant          TEXT COLLATE "C" NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,        -- derived from what asks
    workflow        TEXT COLLATE "C" NOT NULL,        -- the name under which the writer keeps the repository's memories
    repo            TEXT COLLATE "C" NOT NULL,
    number          BIGINT,                           -- of reviews: the pull request's
    round           BIGINT,                           -- of reviews: which decision about it this is, from 1
    as_of           TEXT COLLATE "C" NOT NULL,        -- the policy moment
    policy          TEXT NOT NULL,                    -- Policy, as it was then
    review          TEXT,                             -- of reviews: DecidedReview, every remark and what was decided about it
    mutations       TEXT NOT NULL,                    -- a list of RuleMutation, in their order
    state           TEXT COLLATE "C" NOT NULL CHECK (state IN ('settling', 'closed')),
    settled_ms      BIGINT NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, repo, number, round)
);
-- For the sweep that finds what a lost wake-up left.
CREATE INDEX rule_batches_waiting ON rule_batches (settled_ms) WHERE state = 'settling';

-- What the writer made of each batch of reviews.
CREATE TABLE review_reports (
    tenant          TEXT COLLATE "C" NOT NULL,
    review          TEXT COLLATE "C" NOT NULL,        -- rule_batches.id
    workflow        TEXT COLLATE "C" NOT NULL,        -- of the batch
    report          TEXT NOT NULL,                    -- ReviewReport, whole
    written_ms      BIGINT NOT NULL,
    PRIMARY KEY (tenant, review),
    FOREIGN KEY (tenant, review) REFERENCES rule_batches (tenant, id)
);
CREATE INDEX review_reports_by_workflow ON review_reports (tenant, workflow, written_ms);
