//! Writes the rows of a sweep as Parquet, page by page. It is behind the feature `parquet`, because its library
//! takes a tenth of the build time.

use super::results::{Cells, Page, Results};
use super::write::WriteError;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => Self::Host(*error),
                Err(error) => Self::Host(io::Error::other(error)),
            },
            other => Self::Host(io::Error::other(other)),
        }
    }
}

impl Results {
    pub(super) fn write_parquet(&self, out: &mut (impl Write + Send)) -> Result<(), WriteError> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("floatgate ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "floatgate".to_owned(),
                self.facts().to_string(),
            )]))
            .build();
        let mut file = SerializedFileWriter::new(out, schema(&self.columns())?, Arc::new(properties))?;
        self.each_page(|page| {
            let mut group = file.next_row_group()?;
            for (_, cells) in &page {
                write_column(&mut group, cells)?;
            }
            group.close()?;
            Ok::<(), WriteError>(())
        })?;
        file.close()?;
        Ok(())
    }
}

fn schema(columns: &Page) -> Result<Arc<Type>, ParquetError> {
    let field = |(name, cells): &(String, Cells)| {
        let (physical, logical) = match cells {
            Cells::Bool(_) => (PhysicalType::BOOLEAN, None),
            Cells::Integer(_) => (PhysicalType::INT64, None),
            Cells::Number(_) => (PhysicalType::DOUBLE, None),
            Cells::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("designs").with_fields(fields).build().map(Arc::new)
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &Cells,
) -> Result<(), ParquetError> {
    match cells {
        Cells::Bool(all) => write_typed::<BoolType, _, _>(group, all, |value| *value),
        Cells::Integer(all) => write_typed::<Int64Type, _, _>(group, all, |value| *value),
        Cells::Number(all) => write_typed::<DoubleType, _, _>(group, all, |value| *value),
        Cells::Text(all) => {
            write_typed::<ByteArrayType, _, _>(group, all, |text| ByteArray::from(text.as_str()))
        }
    }
}

/// Writes values with their definition levels: 1 for a present value, 0 for a missing one.
fn write_typed<T: DataType, C, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[Option<C>],
    value: impl Fn(&C) -> T::T,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let values: Vec<T::T> = cells.iter().flatten().map(value).collect();
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    column.close()
}
