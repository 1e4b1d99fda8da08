-- A run that was handed a memory, with a decision by chance, and another one that chance withheld it from.
INSERT INTO pending_presentations (tenant, workflow, run_id, memories, presented_ms) VALUES
    ('default', 'airline-support', 'task-11-trial-0', 'ae2d45fe801b8b9382c0c2bc204af9eep100', 1795173196440),
    ('default', 'airline-support', 'task-12-trial-0', 'ae2d45fe801b8b9382c0c2bc204af9eew100', 1795173196450);
