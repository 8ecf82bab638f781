CREATE TABLE ruling (
    handoff   text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    document  text COLLATE "C" NOT NULL,
    signature text COLLATE "C" NOT NULL,
    PRIMARY KEY (handoff, version)
);

CREATE TABLE fork (
    handoff text COLLATE "C" PRIMARY KEY,
    home    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    first   text COLLATE "C" NOT NULL,
    second  text COLLATE "C" NOT NULL,
    found   bigint NOT NULL
);

CREATE INDEX fork_home ON fork (home, found);

CREATE TABLE residence (
    did    text COLLATE "C" PRIMARY KEY,
    home   text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    since  bigint NOT NULL
);
