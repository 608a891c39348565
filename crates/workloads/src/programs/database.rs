//! A small database: transactions that read pages anywhere in a table and append to a log that must be durable, and a
//! query that scans a table from start to end.

use elevator::Random;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Count, Delay, Name};

/// Transactions against a table and a log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Database {
    /// The table.
    pub table: Name,
    /// The log; made if it is not there.
    pub log: Name,
    /// Transactions.
    pub transactions: Count,
    /// Pages that one reads.
    #[serde(default = "reads")]
    pub reads: u32,
    /// Pages that one changes, of those it read.
    #[serde(default = "writes")]
    pub writes: u32,
    /// Bytes of a page.
    #[serde(default = "page")]
    pub page: Bytes,
    /// Bytes that one appends to the log.
    #[serde(default = "record")]
    pub record: Bytes,
    /// Computing for each transaction.
    #[serde(default)]
    pub think: Delay,
    /// Of what is drawn; each copy of the process adds its number.
    #[serde(default)]
    pub seed: u64,
}

fn reads() -> u32 {
    4
}

fn writes() -> u32 {
    1
}

fn page() -> Bytes {
    Bytes(8 << 10)
}

fn record() -> Bytes {
    Bytes(4 << 10)
}

impl Database {
    /// Runs it.
    pub async fn run(&self, os: &Os) {
        let mut random = Random::new((self.seed ^ 0xdb) + u64::from(os.copy()));
        let page = self.page.0.max(1);
        let table = self.table.of(os);
        let pages = (os.stat(&table).await / page).max(1);
        let table = os.open(&table, Open::default()).await;
        let log = Open { create: true, append: true, ..Open::default() };
        let log = os.open(&self.log.of(os), log).await;
        for _ in 0..self.transactions.at(os.scale()) {
            for n in 0..self.reads {
                let at = random.below(pages) * page;
                os.read_at(table, at, page).await;
                if n < self.writes {
                    os.write_at(table, at, page).await;
                }
            }
            os.think(self.think.0).await;
            os.write(log, self.record.0).await;
            os.fdatasync(log).await;
        }
        os.close(log).await;
        os.close(table).await;
    }
}
