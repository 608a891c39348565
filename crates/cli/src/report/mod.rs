//! Results of `compare` and `run`: tables, the HTML report, decision logs.

mod columns;
mod comparison;
mod html;
mod html_table;
mod layout;
mod machine;
mod output;
mod ranking;
pub(crate) mod table;
mod why;

pub(crate) use columns::quoted;
pub(crate) use comparison::Comparison;
pub(crate) use layout::{Style, Table, Tone, table_of_texts, text_style, text_width, wide_table_of_texts};
pub(crate) use machine::processes as machine_processes;
pub(crate) use output::{describe, ended};
pub(crate) use ranking::{Ranking, SortKey, can_rank, has_key, ties};
pub(crate) use table::{fitted, members, processes, wrapped};
