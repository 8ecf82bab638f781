ALTER TABLE relay ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'message';

CREATE TABLE relay_pause (
    peer     text COLLATE "C" PRIMARY KEY,
    failures bigint NOT NULL,
    next     bigint NOT NULL
);

CREATE INDEX relay_all ON relay (peer, dead);
