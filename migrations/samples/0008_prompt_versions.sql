-- A commit of a run that says which prompt its agent was given.
INSERT INTO commit_trailers (tenant, commit_id, trailer, workflow, run_id, prompt_version) VALUES
    ('default', 'c9abcadf285659684c0975cead8bf982fa84e123', 'airline-support/task-1-trial-0', 'airline-support', 'task-1-trial-0', '4');
