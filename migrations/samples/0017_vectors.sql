-- The active memory of the first tenant, as a small embedder saw it: the components 1, -2 and 300.

INSERT INTO vectors (tenant, memory, embedder, text_sha256, vector, kept_ms) VALUES
    ('default', 'ae2d45fe-801b-8b93-82c0-c2bc204af9ee', 'sample@1', '55d3459f75aa4ae982df7701ae5b2bc8497b298c70d46bad57d56f0e31576648', unhex('01000000feffffff2c010000'), 1795173196600);
