-- What embedders that are not built in made of memories, so that a decision finds it here and waits for no model.

-- The vector of a memory's text by one embedder. Made in the background; forgotten some time after another embedder took over. Losing
-- all of them loses nothing: what has none is compared by the built-in embedder until it is made again.
CREATE TABLE vectors (
    tenant        TEXT    NOT NULL,
    memory        TEXT    NOT NULL,          -- memories.id
    embedder      TEXT    NOT NULL,          -- name and version
    text_sha256   TEXT    NOT NULL,          -- of the text that was embedded
    vector        BLOB    NOT NULL,          -- each component in four bytes, the least first
    kept_ms       INTEGER NOT NULL,
    PRIMARY KEY (tenant, memory, embedder)
) STRICT, WITHOUT ROWID;
CREATE INDEX vectors_by_text ON vectors (tenant, embedder, text_sha256);
