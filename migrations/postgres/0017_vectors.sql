-- What embedders that are not built in made of memories, so that a decision finds it here and waits for no model.

-- The vector of a memory's text by one embedder. Made in the background; forgotten some time after another embedder took over. Losing
-- all of them loses nothing: what has none is compared by the built-in embedder until it is made again.
CREATE TABLE vectors (
    tenant          TEXT COLLATE "C" NOT NULL,
    memory          TEXT COLLATE "C" NOT NULL,        -- memories.id
    embedder        TEXT COLLATE "C" NOT NULL,        -- name and version
    text_sha256     TEXT COLLATE "C" NOT NULL,        -- of the text that was embedded
    vector          BYTEA NOT NULL,                   -- each component in four bytes, the least first
    kept_ms         BIGINT NOT NULL,
    PRIMARY KEY (tenant, memory, embedder)
);
CREATE INDEX vectors_by_text ON vectors (tenant, embedder, text_sha256);
