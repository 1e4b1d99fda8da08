-- What became of runs: the pull requests behind them, how they ended, and late credit for what was applied in them.

-- Tenants of which something was heard from GitHub. The row is the lock of whoever follows their pull requests; runs of
-- other tenants are not followed.
CREATE TABLE tracked_tenants (
    tenant        TEXT    NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- What is known of each pull request. Kept for ever.
CREATE TABLE pull_requests (
    tenant        TEXT    NOT NULL,
    repo          TEXT    NOT NULL,          -- owner/name in lower case
    number        INTEGER NOT NULL,
    ended         INTEGER NOT NULL CHECK (ended IN (0, 1)), -- whether it was ever merged or closed; a copy of what `facts` says
    facts         TEXT    NOT NULL,          -- PullRequestFacts
    PRIMARY KEY (tenant, repo, number)
) STRICT, WITHOUT ROWID;

-- Commits that are or were at the head of a pull request, and those that merged one.
CREATE TABLE pull_request_commits (
    tenant        TEXT    NOT NULL,
    commit_id     TEXT    NOT NULL,          -- the hash in lower case
    repo          TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    PRIMARY KEY (tenant, commit_id, repo, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX pull_request_commits_by_pull_request ON pull_request_commits (tenant, repo, number);

-- Runs that commits name in a trailer, a row for each way to read it.
CREATE TABLE commit_trailers (
    tenant        TEXT    NOT NULL,
    commit_id     TEXT    NOT NULL,
    named         TEXT    NOT NULL,          -- the trailer as it stands there
    workflow      TEXT    NOT NULL,          -- empty: any, the trailer names none
    run_id        TEXT    NOT NULL,
    PRIMARY KEY (tenant, commit_id, named, workflow, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX commit_trailers_by_run ON commit_trailers (tenant, run_id);

-- How far the runs of each workflow are followed.
CREATE TABLE following (
    tenant        TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    number        INTEGER NOT NULL,          -- the last runs.number that was followed
    PRIMARY KEY (tenant, workflow)
) STRICT, WITHOUT ROWID;

-- Runs of those tenants, with what their events say of where they belong. Kept for ever.
CREATE TABLE followed_runs (
    tenant        TEXT    NOT NULL,
    run_id        TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    repo          TEXT,                      -- owner/name in lower case
    number        INTEGER,                   -- of the pull request
    commit_id     TEXT,
    PRIMARY KEY (tenant, run_id, workflow)
) STRICT, WITHOUT ROWID;
CREATE INDEX followed_runs_by_pull_request ON followed_runs (tenant, repo, number) WHERE number IS NOT NULL;
CREATE INDEX followed_runs_by_commit ON followed_runs (tenant, commit_id) WHERE commit_id IS NOT NULL;

-- Which run belongs to which pull request: asked whenever it is needed, so that no order of arrival matters. By what the
-- run's event says, by its commit, and by a trailer that fits exactly one run of the tenant.
CREATE VIEW run_links AS
SELECT tenant, workflow, run_id, repo, number FROM followed_runs WHERE repo IS NOT NULL AND number IS NOT NULL
UNION
SELECT run.tenant, run.workflow, run.run_id, head.repo, head.number
FROM followed_runs AS run
JOIN pull_request_commits AS head ON head.tenant = run.tenant AND head.commit_id = run.commit_id
WHERE (run.repo IS NULL OR run.number IS NULL) AND (run.repo IS NULL OR run.repo = head.repo)
UNION
SELECT run.tenant, run.workflow, run.run_id, head.repo, head.number
FROM commit_trailers AS said
JOIN pull_request_commits AS head ON head.tenant = said.tenant AND head.commit_id = said.commit_id
JOIN followed_runs AS run ON run.tenant = said.tenant AND run.run_id = said.run_id
    AND (said.workflow = '' OR said.workflow = run.workflow)
WHERE (run.repo IS NULL OR run.number IS NULL) AND (run.repo IS NULL OR run.repo = head.repo)
    AND NOT EXISTS (
        SELECT 1 FROM commit_trailers AS other
        JOIN followed_runs AS another ON another.tenant = other.tenant AND another.run_id = other.run_id
            AND (other.workflow = '' OR other.workflow = another.workflow)
        WHERE other.tenant = said.tenant AND other.commit_id = said.commit_id AND other.named = said.named
            AND NOT (another.workflow = run.workflow AND another.run_id = run.run_id));

-- Memories that a closed retrospective found applied in a run. Written by the writer as it closes; kept for ever.
CREATE TABLE memory_uses (
    tenant        TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    run_id        TEXT    NOT NULL,
    memory        TEXT    NOT NULL,          -- memories.id
    retrospective TEXT    NOT NULL,          -- the first one that found it so
    PRIMARY KEY (tenant, workflow, run_id, memory)
) STRICT, WITHOUT ROWID;

-- Pull requests that have ended and behind whose runs memories were applied: the writer looks at each once more.
CREATE TABLE credits_due (
    tenant        TEXT    NOT NULL,
    workflow      TEXT    NOT NULL,
    repo          TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    due_ms        INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow, repo, number)
) STRICT, WITHOUT ROWID;
