-- Version 3 adds messages, whose tables are of the core. Agents list the senders that they know.

CREATE INDEX consent_recipient ON consent (recipient, sender);
