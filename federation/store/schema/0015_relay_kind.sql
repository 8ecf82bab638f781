-- What a row tells another registry: a message, or what an agent here decided about one
-- there.
ALTER TABLE relay ADD COLUMN kind TEXT NOT NULL DEFAULT 'message';

-- Registries that did not answer, and when each is asked again. One that answers is not
-- here.
CREATE TABLE relay_pause (
    peer     TEXT    NOT NULL PRIMARY KEY, -- domain
    failures INTEGER NOT NULL,             -- visits in a row without an answer
    next     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX relay_all ON relay (peer, dead);
