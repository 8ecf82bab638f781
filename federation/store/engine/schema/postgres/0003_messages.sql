-- Version 3 of the record in PostgreSQL. The version in the folder above says what the tables
-- are for.

CREATE INDEX event_said ON event (filed, seq) WHERE state = 'said';

CREATE TABLE mention (
    handoff text COLLATE "C" NOT NULL,
    event   bigint NOT NULL,
    PRIMARY KEY (handoff, event)
);

CREATE INDEX mention_event ON mention (event);

CREATE TABLE contact (
    person text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    state  text COLLATE "C" NOT NULL,
    since  bigint NOT NULL,
    PRIMARY KEY (person, sender)
);
