//! Pages that Zstandard compresses. The library needs a C library to decompress them; the reader of compressed texts does not.

use std::io::{Cursor, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::compression::ZstdFrames;

/// Upper bound for a decompressed page. Programs write pages of about a megabyte.
const PAGE_BYTES_MAX: u64 = 256 << 20;

/// The reader of a column of a row group of a Parquet file, which Zstandard may compress.
///
/// # Errors
/// The file is damaged, or compressed in another manner that is not read.
pub fn column_reader<R: ChunkReader + 'static>(
    file: Arc<R>,
    group: &RowGroupMetaData,
    at: usize,
) -> Result<ColumnReader> {
    let column = group.column(at);
    let rows = usize::try_from(group.num_rows()).unwrap_or(0);
    let pages: Box<dyn PageReader> = if let Compression::ZSTD(_) = column.compression() {
        let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        Box::new(Decompressed(SerializedPageReader::new(file, &plain, rows, None)?))
    } else {
        Box::new(SerializedPageReader::new(file, column, rows, None)?)
    };
    Ok(get_column_reader(column.column_descr_ptr(), pages))
}

/// Decompresses the pages of a reader that returns them as they are in the file.
struct Decompressed<P>(P);

impl<P: PageReader> PageReader for Decompressed<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.0.get_next_page()?.map(decompressed).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.0.at_record_boundary()
    }
}

impl<P: PageReader> Iterator for Decompressed<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn decompressed(mut page: Page) -> Result<Page> {
    match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = content(buf, 0)?,
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
            if std::mem::take(is_compressed) {
                // The levels are not compressed.
                *buf = content(buf, *def_levels_byte_len as usize + *rep_levels_byte_len as usize)?;
            }
        }
    }
    Ok(page)
}

/// The bytes before `from`, and the decompressed bytes from there.
fn content(page: &Bytes, from: usize) -> Result<Bytes> {
    let plain = page.get(..from).ok_or_else(|| ParquetError::General("a page is too short".to_owned()))?;
    let mut content = plain.to_vec();
    let frames = ZstdFrames::new(Box::new(Cursor::new(page.slice(from..))));
    frames.take(PAGE_BYTES_MAX).read_to_end(&mut content)?;
    Ok(content.into())
}
