-- Commits that were reverted on the default branch of their repository. A pull request that has one of them as its
-- merge commit or head was reverted, whichever becomes known first.
CREATE TABLE reverted_commits (
    tenant      TEXT    NOT NULL,
    repo        TEXT    NOT NULL, -- owner/name in lower case
    commit_id   TEXT    NOT NULL, -- hash in lower case
    reverted_ms INTEGER NOT NULL, -- time of the push or merge that reverted it, by GitHub's clock; the earliest known
    PRIMARY KEY (tenant, repo, commit_id)
) STRICT, WITHOUT ROWID;

-- A pull request may credit memories of several scopes: the workflows of its runs, and rules of repositories. The part
-- that was credited last ends with this workflow of a run, before `after_run`; empty: none yet.
ALTER TABLE due_credits ADD COLUMN after_workflow TEXT NOT NULL DEFAULT '';
