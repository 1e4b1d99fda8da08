-- A run that was handed a memory, as the release with this migration records it.
INSERT INTO pending_presentations (tenant, workflow, run_id, memories, presented_ms, bucket) VALUES
    ('default', 'airline-support', 'task-13-trial-0', 'ae2d45fe801b8b9382c0c2bc204af9eep100', 1795173196460, 7);
