//! An embedded database with a rollback journal, as SQLite has one unless told otherwise: each transaction inserts a row. What the
//! pages that it changes held before goes to a journal, a file that is made for it, and is made durable; then the pages go to the
//! table and are made durable; and with the removal of the journal the transaction is committed.
//!
//! A row goes to the last page of the table while there is room. The first page, which holds the counter of changes, goes with each
//! transaction, and the second, which stands for the tree above the rows, with each that needs a new page.
//!
//! Source: SQLite's documents "Atomic Commit In SQLite" and "Database File Format", and the system calls of version 3.40, in our own
//! words. Not modelled: locks, and looking whether somebody left a journal.

use machine::kernel::{Descriptor, Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// Bytes of the journal's header, a sector.
const HEADER: u64 = 512;
/// Bytes around a page in the journal: its number before, its sum behind.
const AROUND: u64 = 8;
/// Bytes at the header's beginning that say how many pages follow; written when the pages are durable.
const COUNT: u64 = 12;
/// Bytes that a row takes beside its own: its length, its number, where it lies.
const OF_A_ROW: u64 = 7;
/// The page with the counter of changes, and the one above the rows.
const FIRST: u64 = 0;
const ABOVE: u64 = 1;

/// Transactions that insert a row each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rollback {
    /// The table; made if it is not there. Its journal lies beside it.
    pub table: Name,
    /// For how long transactions are begun; shrinks with the scale.
    pub lasts: Delay,
    /// Bytes of a row.
    #[serde(default = "row")]
    pub row: Bytes,
    /// Bytes of a page.
    #[serde(default = "page")]
    pub page: Bytes,
    /// Computing between two transactions.
    #[serde(default)]
    pub think: Delay,
}

fn row() -> Bytes {
    Bytes(100)
}

fn page() -> Bytes {
    Bytes(4 << 10)
}

/// The table as it grows.
struct Table {
    file: Descriptor,
    page: u64,
    /// The page that rows go to,
    last: u64,
    /// and how many more it takes.
    room: u64,
}

/// What a transaction changes: pages that there were, and one behind the end.
struct Changed {
    old: [u64; 2],
    new: Option<u64>,
}

impl Rollback {
    /// Runs it.
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

    /// The table, with a page above the rows if it is new.
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
    /// One row more.
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

    /// Writes to the journal what those pages held that there were.
    async fn keep(&self, os: &Os, journal: Descriptor, changed: &Changed) {
        os.write_at(journal, 0, HEADER).await;
        let kept = self.page + AROUND;
        for (page, nth) in changed.old.into_iter().zip(0..) {
            os.read_at(self.file, page * self.page, self.page).await;
            os.write_at(journal, HEADER + nth * kept, kept).await;
        }
    }
}

/// The directory that a file is in.
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
    fn a_row_goes_to_the_last_page_until_that_is_full() {
        let mut table = Table { file: Descriptor(0), page: 4096, last: ABOVE, room: 0 };
        let changed: Vec<_> = (0..4).map(|_| table.insert(3)).map(|it| (it.old, it.new)).collect();
        assert_eq!(
            changed,
            [([0, 1], Some(2)), ([0, 2], None), ([0, 2], None), ([0, 1], Some(3))],
            "the first page with each, the one above with a new one"
        );
    }

    #[test]
    fn a_journal_s_name_is_made_durable_in_its_directory() {
        assert_eq!(
            [above("/rows"), above("/a/b/rows"), above("rows")].map(|it| it.to_string()),
            ["/", "/a/b", "/"]
        );
    }
}
