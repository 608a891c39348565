//! An embedded database with a rollback journal, SQLite's default. Each transaction inserts a row: it copies the old content
//! of the pages that it changes to a new journal file and syncs it, writes the pages to the table and syncs it, and commits
//! by removing the journal.
//!
//! A row goes to the last page of the table while there is room. The first page, with the change counter, is written by each
//! transaction; the second, which represents the tree above the rows, by each that needs a new page.
//!
//! Source: SQLite's documents "Atomic Commit In SQLite" and "Database File Format", and the system calls of version 3.40. Not
//! modelled: locks, and the check for a hot journal.

use machine::kernel::{Descriptor, Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// Bytes of the journal's header: a sector.
const HEADER: u64 = 512;
/// Journal bytes around a page: its number and its checksum.
const AROUND: u64 = 8;
/// Bytes of the header with the number of pages, written when the pages are durable.
const COUNT: u64 = 12;
/// Bytes of a row beyond its content: length, number, cell pointer.
const OF_A_ROW: u64 = 7;
/// The page with the change counter, and the one above the rows.
const FIRST: u64 = 0;
const ABOVE: u64 = 1;

/// Transactions that insert a row each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rollback {
    /// The table; created if absent. Its journal is in the same directory.
    pub table: Name,
    /// Time in which transactions begin; reduced by the scale.
    pub lasts: Delay,
    #[serde(default = "row")]
    pub row: Bytes,
    #[serde(default = "page")]
    pub page: Bytes,
    /// Processor time between two transactions.
    #[serde(default)]
    pub think: Delay,
}

fn row() -> Bytes {
    Bytes(100)
}

fn page() -> Bytes {
    Bytes(4 << 10)
}

/// The state of the table.
struct Table {
    file: Descriptor,
    page: u64,
    /// The last page.
    last: u64,
    /// Rows that fit in it.
    room: u64,
}

/// Pages that a transaction changes, and whether it appends one.
struct Changed {
    old: [u64; 2],
    new: Option<u64>,
}

impl Rollback {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let path = self.table.of(os);
        let end = os.now() + self.lasts.at(os.scale());
        let mut table = self.open(os, &path).await;
        let rows = (table.page / self.row.0.saturating_add(OF_A_ROW)).max(1);
        while os.now() < end {
            let from = os.now();
            let changed = table.insert(rows);
            table.commit(os, &path, &changed).await;
            os.committed(from);
            os.think(self.think.0).await;
        }
        os.close(table.file).await;
    }

    /// Opens the table; a new table gets the page above the rows.
    async fn open(&self, os: &Os, path: &Path) -> Table {
        let page = self.page.0.max(1);
        let file = os.open(path, Open { create: true, ..Open::default() }).await;
        let pages = os.stat(path).await / page;
        if pages <= ABOVE {
            os.write_at(file, 0, (ABOVE + 1) * page).await;
            os.fdatasync(file).await;
        }
        Table { file, page, last: pages.max(ABOVE + 1) - 1, room: 0 }
    }
}

impl Table {
    fn insert(&mut self, rows: u64) -> Changed {
        if self.room > 0 {
            self.room -= 1;
            return Changed { old: [FIRST, self.last], new: None };
        }
        (self.last, self.room) = (self.last + 1, rows - 1);
        Changed { old: [FIRST, ABOVE], new: Some(self.last) }
    }

    async fn commit(&self, os: &Os, path: &str, changed: &Changed) {
        let name = Path::from(format!("{path}-journal"));
        let journal = os.open(&name, Open { create: true, ..Open::default() }).await;
        self.keep(os, journal, changed).await;
        os.fdatasync(journal).await;
        let directory = os.open(&above(path), Open::default()).await;
        os.fdatasync(directory).await;
        os.close(directory).await;
        os.write_at(journal, 0, COUNT).await;
        os.fdatasync(journal).await;
        for at in changed.old.into_iter().chain(changed.new) {
            os.write_at(self.file, at * self.page, self.page).await;
        }
        os.fdatasync(self.file).await;
        os.close(journal).await;
        os.unlink(&name).await;
    }

    /// Writes the old content of changed pages to the journal.
    async fn keep(&self, os: &Os, journal: Descriptor, changed: &Changed) {
        os.write_at(journal, 0, HEADER).await;
        let kept = self.page + AROUND;
        for (page, nth) in changed.old.into_iter().zip(0..) {
            os.read_at(self.file, page * self.page, self.page).await;
            os.write_at(journal, HEADER + nth * kept, kept).await;
        }
    }
}

/// The directory of a file.
fn above(path: &str) -> Path {
    match path.rsplit_once('/') {
        Some((directory, _)) if !directory.is_empty() => directory.into(),
        _ => "/".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fill_the_last_page() {
        let mut table = Table { file: Descriptor(0), page: 4096, last: ABOVE, room: 0 };
        let changed: Vec<_> = (0..4).map(|_| table.insert(3)).map(|it| (it.old, it.new)).collect();
        assert_eq!(
            changed,
            [([0, 1], Some(2)), ([0, 2], None), ([0, 2], None), ([0, 1], Some(3))],
            "the first page with each row, the page above with each new page"
        );
    }

    #[test]
    fn the_journal_directory_is_synced() {
        assert_eq!(
            [above("/rows"), above("/a/b/rows"), above("rows")].map(|it| it.to_string()),
            ["/", "/a/b", "/"]
        );
    }
}
