//! The tables of the file, and those of its older version.
//!
//! Files of version 1 had one row a drive, whose state says of which metric it is: whoever writes to one makes it one of version 2,
//! whoever only looks sees it as one.

use rusqlite::{Connection, TransactionBehavior};

/// The version of the tables that this code writes, and the newest that it reads.
pub(super) const VERSION: i64 = 2;
/// "Dwel" in the file's header, so that another program's file is not taken for ours.
pub(super) const APPLICATION: i64 = 0x4477_656c;

const TABLES: &str = "
    CREATE TABLE drive (
        name TEXT NOT NULL,
        metric TEXT NOT NULL,
        state TEXT NOT NULL,
        saved INTEGER NOT NULL,
        PRIMARY KEY (name, metric)
    ) STRICT;
    CREATE TABLE cluster (
        drive TEXT NOT NULL,
        metric TEXT NOT NULL,
        id INTEGER NOT NULL,
        requests INTEGER NOT NULL,
        hits INTEGER NOT NULL,
        used INTEGER NOT NULL,
        points BLOB NOT NULL,
        performance TEXT NOT NULL,
        successors TEXT NOT NULL,
        PRIMARY KEY (drive, metric, id),
        FOREIGN KEY (drive, metric) REFERENCES drive (name, metric) ON DELETE CASCADE
    ) STRICT;
";

/// From version 1 to 2, once the new tables are there beside the old ones.
const FROM_1: &str = "
    INSERT INTO drive SELECT name, state -> '$.metric', state, saved FROM drive_1;
    INSERT INTO cluster
        SELECT drive, metric, id, requests, hits, used, points, performance, successors
        FROM cluster_1 JOIN drive ON drive.name = cluster_1.drive;
    DROP TABLE cluster_1;
    DROP TABLE drive_1;
";

/// Tables of version 1 as those of version 2, for whoever may not change them. Names are looked up among temporary views first.
pub(super) const SEEN_FROM_1: &str = "
    CREATE TEMP VIEW drive AS SELECT name, state -> '$.metric' AS metric, state, saved FROM main.drive;
    CREATE TEMP VIEW cluster AS
        SELECT drive, metric, id, requests, hits, used, points, performance, successors
        FROM main.cluster JOIN temp.drive AS known ON known.name = main.cluster.drive;
";

/// Who made a file, of which version, and how much is in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) application: i64,
    pub(super) version: i64,
    tables: i64,
}

impl Made {
    pub(super) const NOTHING: Self = Self { application: 0, version: 0, tables: 0 };

    pub(super) const fn is_of_version_1(self) -> bool {
        matches!((self.application, self.version), (APPLICATION, 1))
    }

    /// All of it as it is at one time, whoever makes the file meanwhile.
    pub(super) fn at_once(connection: &Connection) -> rusqlite::Result<Self> {
        Self::of(&*connection.unchecked_transaction()?)
    }

    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok(Self { application: number("application_id")?, version: number("user_version")?, tables })
    }
}

/// Makes the tables, or makes them of this version, unless somebody else just does.
pub(super) fn make(connection: &mut Connection) -> rusqlite::Result<()> {
    let alone = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let as_now = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; {TABLES}");
    match Made::of(&alone)? {
        Made::NOTHING => alone.execute_batch(&as_now)?,
        made if made.is_of_version_1() => {
            let aside = "ALTER TABLE drive RENAME TO drive_1; ALTER TABLE cluster RENAME TO cluster_1;";
            alone.execute_batch(&format!("{aside} {as_now} {FROM_1}"))?;
        }
        _ => {}
    }
    alone.commit()
}
