-- Version 3 of the record in an SQLite file: private text. A message is a row of event without
-- a version, whose state is 'said'; its handoff is the conversation that orders it.

CREATE INDEX event_said ON event (filed, seq) WHERE state = 'said';

-- The handoffs that messages name. A row is deleted with its message.
CREATE TABLE mention (
    handoff TEXT    NOT NULL,
    event   INTEGER NOT NULL, -- event.seq of the message
    PRIMARY KEY (handoff, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX mention_event ON mention (event);

-- What a person decided about a sender of messages.
CREATE TABLE contact (
    person TEXT    NOT NULL,
    sender TEXT    NOT NULL,
    state  TEXT    NOT NULL, -- introduced, allowed or blocked
    since  INTEGER NOT NULL,
    PRIMARY KEY (person, sender)
) STRICT, WITHOUT ROWID;
