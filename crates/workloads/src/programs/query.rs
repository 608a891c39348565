//! A query of a decision support database: a table scan with look-ups in other tables.

use elevator::Random;
use machine::kernel::Open;
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name};

/// A scan with look-ups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Query {
    /// The scanned table.
    pub scans: Name,
    /// Look-ups.
    #[serde(default)]
    pub looks_up: Vec<LookUp>,
    /// Pages scanned between look-ups.
    #[serde(default = "every")]
    pub every: u64,
    #[serde(default = "page")]
    pub page: Bytes,
    /// Processor time for each scanned page.
    #[serde(default)]
    pub think: Delay,
    /// Seed; each copy of the process adds its number.
    #[serde(default)]
    pub seed: u64,
}

/// Look-ups in a table, at random pages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LookUp {
    pub table: Name,
    /// Rows looked up each time.
    pub rows: u64,
}

fn every() -> u64 {
    8
}

fn page() -> Bytes {
    Bytes(16 << 10)
}

impl Query {
    /// Executes the step.
    pub async fn run(&self, os: &Os) {
        let mut random = Random::new((self.seed ^ 0x005e_1ec7) + u64::from(os.copy()));
        let page = self.page.0.max(1);
        let mut others = Vec::new();
        for other in &self.looks_up {
            let table = other.table.of(os);
            let pages = (os.stat(&table).await / page).max(1);
            others.push((os.open(&table, Open::default()).await, pages, other.rows));
        }
        let table = os.open(&self.scans.of(os), Open::default()).await;
        let mut scanned = 0;
        while os.read(table, page).await == page {
            os.think(self.think.0).await;
            scanned += 1;
            if scanned % self.every.max(1) == 0 {
                for &(other, pages, rows) in &others {
                    for _ in 0..rows {
                        os.read_at(other, random.below(pages) * page, page).await;
                    }
                }
            }
        }
        os.close(table).await;
        for (other, ..) in others {
            os.close(other).await;
        }
    }
}
