-- What follows from the state of a handoff depends on its kind, which this file
-- knows nothing of: the view says whether it is over, and what ends it if nobody
-- moves it. Up to here every handoff was of kind handoff.
UPDATE handoff SET view = json_set(view, '$.over', json('true'))
WHERE state IN ('completed', 'failed', 'declined', 'cancelled', 'expired');

-- The offer was the only step that left a handoff in the state it opened in.
UPDATE handoff SET view = json_set(view, '$.answered', 2)
WHERE state NOT IN ('offered', 'open');

UPDATE handoff SET view = json_set(view, '$.clock', 'deadline', '$.since', view ->> 'deadline')
WHERE state IN ('offered', 'open') AND deadline <> 0;
UPDATE handoff SET view = json_set(view, '$.clock', 'unanswered', '$.since', view ->> 'opened')
WHERE state IN ('offered', 'open') AND deadline = 0;
UPDATE handoff SET view = json_set(view, '$.clock', 'abandoned', '$.since', view ->> 'moved')
WHERE state = 'assigned';

-- Members of the view by which handoffs are looked for.
ALTER TABLE handoff ADD COLUMN over  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE handoff ADD COLUMN clock TEXT    NOT NULL DEFAULT '';
ALTER TABLE handoff ADD COLUMN since INTEGER NOT NULL DEFAULT 0;

-- To the millisecond is enough: nothing is due more precisely than to the second.
UPDATE handoff SET
    over  = coalesce(view ->> 'over', 0),
    clock = coalesce(view ->> 'clock', ''),
    since = coalesce(CAST(unixepoch(view ->> 'since', 'subsec') * 1000 AS INTEGER) * 1000000, 0);

DROP INDEX handoff_deadline;
DROP INDEX handoff_opened;
DROP INDEX handoff_unfinished;
ALTER TABLE handoff DROP COLUMN deadline;
ALTER TABLE handoff DROP COLUMN opened;

CREATE INDEX handoff_clock ON handoff (clock, since) WHERE clock <> '';
CREATE INDEX handoff_unfinished ON handoff (offerer) WHERE over = 0;
