-- A commit that a push to the default branch reverted.
INSERT INTO reverted_commits (tenant, repo, commit_id, reverted_ms) VALUES
    ('default', 'acme/shop', 'c9abcadf285659684c0975cead8bf982fa84e123', 1795173196415);
