-- One run's pull request was approved and merged after its retrospective had closed, and the writer has not credited what
-- was applied in it yet; another one was named by a commit's trailer. The second tenant has neither.

INSERT INTO tracked_tenants (tenant) VALUES ('default');

INSERT INTO pull_requests (tenant, repo, number, ended, facts) VALUES
    ('default', 'acme/shop', 7, TRUE, '{"opened_at":"2026-11-03T09:00:00Z","merged_at":"2026-11-05T09:00:00Z","heard":["2026-11-05T09:00:00Z",false],"reviews":{"11":{"verdict":"approved","dismissed":false}}}');

INSERT INTO pull_request_commits (tenant, commit_id, repo, number) VALUES
    ('default', '6dcb09b5b57875f334f61aebed695e2e4193db5e', 'acme/shop', 7);

INSERT INTO commit_trailers (tenant, commit_id, named, workflow, run_id) VALUES
    ('default', '6dcb09b5b57875f334f61aebed695e2e4193db5e', 'airline-support/task-2-trial-0', '', 'airline-support/task-2-trial-0'),
    ('default', '6dcb09b5b57875f334f61aebed695e2e4193db5e', 'airline-support/task-2-trial-0', 'airline-support', 'task-2-trial-0');

INSERT INTO following (tenant, workflow, number) VALUES ('default', 'airline-support', 2);

INSERT INTO followed_runs (tenant, run_id, workflow, repo, number, commit_id) VALUES
    ('default', 'task-1-trial-0', 'airline-support', 'acme/shop', 7, NULL),
    ('default', 'task-2-trial-0', 'airline-support', NULL, NULL, NULL);

INSERT INTO memory_uses (tenant, workflow, run_id, memory, retrospective) VALUES
    ('default', 'airline-support', 'task-1-trial-0', '52b7e296-f624-803b-825d-9268a924b7dd', '5a070d20-98f6-809d-9c53-bf2513930bca');

INSERT INTO credits_due (tenant, workflow, repo, number, due_ms) VALUES
    ('default', 'airline-support', 'acme/shop', 7, 1795173196500);
