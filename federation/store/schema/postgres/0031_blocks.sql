CREATE TABLE block (
    what    text COLLATE "C" PRIMARY KEY,
    kind    text COLLATE "C" NOT NULL,
    reason  text COLLATE "C" NOT NULL,
    since   bigint NOT NULL,
    expires bigint NOT NULL
);

CREATE INDEX block_expires ON block (expires) WHERE expires <> 0;
