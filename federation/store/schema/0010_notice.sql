-- What the signers of steps are told of them later. A row stays after it was told, so
-- that nobody is told twice, until it is swept.
CREATE TABLE notice (
    n      INTEGER PRIMARY KEY, -- order of filing
    link   TEXT    NOT NULL,    -- by which the step came
    signer TEXT    NOT NULL,
    event  TEXT    NOT NULL,    -- id of the step, which may be in no log
    kind   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    next   INTEGER NOT NULL DEFAULT 0, -- not to be told before
    told   INTEGER NOT NULL DEFAULT 0,
    body   TEXT    NOT NULL,    -- the notice as JSON
    UNIQUE (signer, event, kind)
) STRICT;

CREATE INDEX notice_untold ON notice (link, n) WHERE told = 0;
CREATE INDEX notice_at ON notice (at);
