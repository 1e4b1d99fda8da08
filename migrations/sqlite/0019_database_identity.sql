-- Which database this is, so that a broker whose events are counted here is not consumed into another one by mistake.

-- One row, drawn when the table is made and never changed: a copy or a restored backup is the same database.
CREATE TABLE database_identity (
    single          INTEGER NOT NULL PRIMARY KEY CHECK (single = 1),
    identity        TEXT    NOT NULL        -- 32 hexadecimal digits; the broker's streams and consumers carry them
) STRICT;
INSERT INTO database_identity (single, identity) VALUES (1, lower(hex(randomblob(16))));
