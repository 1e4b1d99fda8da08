-- Who may read a repository, as its runs have last said. A request that does not say is answered by it: what several
-- private repositories have shown is handed to runs of repositories that are known to be private. Never purged.
CREATE TABLE repository_visibility (
    tenant     TEXT COLLATE "C" NOT NULL,
    repo       TEXT COLLATE "C" NOT NULL, -- owner/name, with the host before it unless that is github.com
    visibility TEXT   NOT NULL CHECK (visibility IN ('public', 'private')),
    said_ms    BIGINT NOT NULL,           -- end of the run that said it, by the emitter's clock; 0: the run gives no time
    PRIMARY KEY (tenant, repo)
);
