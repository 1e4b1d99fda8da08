-- One run that was handed a memory, one that chance withheld it from, and one of them that has not ended yet.
INSERT INTO memory_assignments (tenant, workflow, run_id, memory, withheld, permille, assigned_ms) VALUES
    ('default', 'airline-support', 'task-3-trial-0', 'ae2d45fe-801b-8b93-82c0-c2bc204af9ee', FALSE, 100, 1795173196415),
    ('default', 'airline-support', 'task-4-trial-0', 'ae2d45fe-801b-8b93-82c0-c2bc204af9ee', TRUE, 100, 1795173196420),
    ('default', 'airline-support', 'task-9-trial-0', 'ae2d45fe-801b-8b93-82c0-c2bc204af9ee', TRUE, 100, 1795173196430);
