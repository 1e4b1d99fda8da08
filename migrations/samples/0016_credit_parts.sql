-- Behind another pull request of the first tenant more memories were applied than one transaction credits.

INSERT INTO pull_requests (tenant, repo, number, ended, facts) VALUES
    ('default', 'acme/shop', 8, TRUE, '{"closed_at":["2026-11-06T09:00:00Z"],"heard":["2026-11-06T09:00:00Z",false]}');

INSERT INTO credits_due (tenant, workflow, repo, number, due_ms, after_run, after_memory) VALUES
    ('default', 'airline-support', 'acme/shop', 8, 1795173196500, 'task-1-trial-0', '52b7e296-f624-803b-825d-9268a924b7dd');
