-- A run whose agent opened a memory, and in which a retrospective found it applied.
INSERT INTO presentations (tenant, workflow, run_id, memory, presented_ms, read_ms) VALUES
    ('default', 'airline-support', 'task-7-trial-2', 'ae2d45fe-801b-8b93-82c0-c2bc204af9ee', 1795173196440, 1795173196450);
INSERT INTO run_memory_applications (tenant, workflow, run_id, memory, retrospective) VALUES
    ('default', 'airline-support', 'task-7-trial-2', 'ae2d45fe-801b-8b93-82c0-c2bc204af9ee', '089e226c-a20d-8b97-b03f-97e2292cd87b');
