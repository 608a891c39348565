//! The page cache: cached pages, their reclaim order, dirty pages, read-ahead.

mod files;
mod lru;
mod pages;
mod readahead;

pub(super) use files::CachedFiles;
pub(super) use lru::{List, Lru};
pub(super) use pages::{FileId, Page, PageId, Pages};
pub(super) use readahead::{Ahead, Demand, MIN_PAGES, ReadAheadState};
