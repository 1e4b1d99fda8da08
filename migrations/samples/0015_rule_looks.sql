-- A rule was presented to two runs that a retrospective looked into: one kept to it, the other did not.

INSERT INTO rule_looks (tenant, memory, workflow, run_id, verdict, as_of) VALUES
    ('default', '7b0c4f1e-5a63-8d20-9b41-2e6f8a0c7d11', 'airline-support', 'task-1-trial-0', 'applied', '2026-11-20T10:00:00.000000000Z'),
    ('default', '7b0c4f1e-5a63-8d20-9b41-2e6f8a0c7d11', 'airline-support', 'task-2-trial-0', 'ignored', '2026-11-20T10:00:00.000000000Z');
