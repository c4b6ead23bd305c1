-- broker.db, format 1. docs/format/store.md explains it.

CREATE TABLE meta (
	key   TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE mailbox (
	id       INTEGER PRIMARY KEY,
	next_seq INTEGER NOT NULL,
	received BLOB NOT NULL -- inbound QoS 2 packet ids, ascending, two bytes each, little endian
);

-- Live entries of each priority, in pages and not counting what the settled table still hides.
CREATE TABLE lane (
	mailbox  INTEGER NOT NULL,
	priority INTEGER NOT NULL,
	count    INTEGER NOT NULL,
	bytes    INTEGER NOT NULL,
	first_seq INTEGER NOT NULL, -- no live entry is below
	last_seq  INTEGER NOT NULL, -- nor above
	PRIMARY KEY (mailbox, priority)
) WITHOUT ROWID;

CREATE TABLE entry_page (
	id        INTEGER PRIMARY KEY,
	mailbox   INTEGER NOT NULL,
	priority  INTEGER NOT NULL,
	first_seq INTEGER NOT NULL,
	last_seq  INTEGER NOT NULL,
	count     INTEGER NOT NULL,
	data      BLOB NOT NULL
);
CREATE UNIQUE INDEX entry_page_lane ON entry_page (mailbox, priority, first_seq);

-- Ranges that are settled though pages still show them: large ranges go in steps.
CREATE TABLE settled (
	mailbox  INTEGER NOT NULL,
	priority INTEGER NOT NULL,
	from_seq INTEGER NOT NULL,
	to_seq   INTEGER NOT NULL,
	PRIMARY KEY (mailbox, priority, from_seq)
) WITHOUT ROWID;

CREATE TABLE message_page (
	first_id INTEGER PRIMARY KEY,
	data     BLOB NOT NULL
);

CREATE TABLE message_live (
	first_id  INTEGER PRIMARY KEY,
	last_id   INTEGER NOT NULL,
	live      INTEGER NOT NULL, -- messages that some entry holds
	live_cost INTEGER NOT NULL, -- topic and payload bytes of those
	cost      INTEGER NOT NULL, -- the same of all on the page
	refs      BLOB NOT NULL
);

CREATE TABLE record (
	kind  TEXT NOT NULL,
	key   TEXT NOT NULL,
	value TEXT NOT NULL, -- JSON
	PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE retained (
	topic       TEXT PRIMARY KEY,
	payload     BLOB NOT NULL,
	qos         INTEGER NOT NULL,
	retain      INTEGER NOT NULL,
	received_at INTEGER NOT NULL, -- Unix ms
	expires_at  INTEGER,          -- Unix ms
	properties  TEXT              -- JSON
);

CREATE VIEW sessions AS
SELECT r.key AS client,
	json_extract(r.value, '$.attached') AS attached,
	json_extract(r.value, '$.expiry') AS expiry_seconds,
	json_extract(r.value, '$.expires_at') AS expires_at,
	json_extract(r.value, '$.mailbox') AS mailbox,
	(SELECT coalesce(sum(l.count), 0) FROM lane l WHERE l.mailbox = json_extract(r.value, '$.mailbox')) AS pending,
	(SELECT coalesce(sum(l.bytes), 0) FROM lane l WHERE l.mailbox = json_extract(r.value, '$.mailbox')) AS pending_bytes
FROM record r WHERE r.kind = 'session';

CREATE VIEW subscriptions AS
SELECT json_extract(value, '$.client') AS client,
	json_extract(value, '$.filter') AS filter,
	json_extract(value, '$.qos') AS qos,
	json_extract(value, '$.no_local') AS no_local,
	json_extract(value, '$.rap') AS retain_as_published,
	json_extract(value, '$.rh') AS retain_handling,
	json_extract(value, '$.id') AS identifier
FROM record WHERE kind = 'sub';

CREATE VIEW wills AS
SELECT key AS client, value FROM record WHERE kind = 'will';

CREATE VIEW mailboxes AS
SELECT m.id, m.next_seq, length(m.received) / 2 AS received,
	coalesce(sum(l.count), 0) AS pending, coalesce(sum(l.bytes), 0) AS pending_bytes
FROM mailbox m LEFT JOIN lane l ON l.mailbox = m.id GROUP BY m.id;

CREATE VIEW counters AS
SELECT (SELECT value FROM meta WHERE key = 'folded') AS folded_lsn,
	(SELECT count(*) FROM record WHERE kind = 'session') AS sessions,
	(SELECT count(*) FROM record WHERE kind = 'sub') AS subscriptions,
	(SELECT count(*) FROM retained) AS retained,
	(SELECT count(*) FROM mailbox) AS mailboxes,
	(SELECT coalesce(sum(count), 0) FROM lane) AS pending,
	(SELECT coalesce(sum(bytes), 0) FROM lane) AS pending_bytes;
