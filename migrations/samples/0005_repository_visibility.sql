-- A private repository, and a public one on a host of its own.
INSERT INTO repository_visibility (tenant, repo, visibility, said_ms) VALUES
    ('default', 'acme/shop', 'private', 1795173196415),
    ('default', 'git.acme.example/team/docs', 'public', 1795173196420);
