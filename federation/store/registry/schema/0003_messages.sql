-- Version 3 adds messages, whose tables are of the core. Agents list about whom they decided.

CREATE INDEX consent_recipient ON consent (recipient, sender);
