//! A small database: transactions read random pages of a table and append to a log durably; a query scans a table.

use elevator::Random;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Count, Delay, Name};

/// Transactions on a table and a log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Database {
    pub table: Name,
    /// The log; created if absent.
    pub log: Name,
    /// Number of transactions.
    pub transactions: Count,
    /// Pages that a transaction reads.
    #[serde(default = "reads")]
    pub reads: u32,
    /// Pages that it changes, of those it read.
    #[serde(default = "writes")]
    pub writes: u32,
    #[serde(default = "page")]
    pub page: Bytes,
    /// Bytes that it appends to the log.
    #[serde(default = "record")]
    pub record: Bytes,
    /// Processor time for each transaction.
    #[serde(default)]
    pub think: Delay,
    /// Seed; each copy of the process adds its number.
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
    /// Executes the step.
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
