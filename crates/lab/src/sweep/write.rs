//! The rows of a sweep as CSV, JSON and Parquet, page by page.

use super::results::{Cells, Page, Results};
use crate::csv;
use crate::error::Error;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Format of a file of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line of comma-separated values for each design.
    Csv,
    /// One object, with a line for each design.
    Json,
    /// Parquet, compressed with Snappy.
    Parquet,
}

impl Format {
    /// The format that the extension of a name says.
    ///
    /// # Errors
    /// No extension of these.
    pub fn of(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::asked(
                format!("{}: neither CSV, JSON nor Parquet", path.display()),
                "name a file that ends in .csv, .json or .parquet",
            )),
        }
    }
}

/// Reason why results cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The results cannot be read back.
    #[error(transparent)]
    Results(#[from] Error),
    /// The file cannot be written.
    #[error(transparent)]
    Host(#[from] io::Error),
}

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
    /// Writes all rows. Equal results give equal bytes.
    ///
    /// # Errors
    /// The file cannot be written, or a checkpoint not be read.
    pub fn write(&self, format: Format, out: &mut (impl Write + Send)) -> Result<(), WriteError> {
        match format {
            Format::Csv => self.write_csv(out),
            Format::Json => self.write_json(out),
            Format::Parquet => self.write_parquet(out),
        }
    }

    fn write_csv(&self, out: &mut impl Write) -> Result<(), WriteError> {
        out.write_all(csv::line(self.columns().iter().map(|(name, _)| csv::quoted(name))).as_bytes())?;
        self.each_page(|page| {
            for row in 0..rows(&page) {
                let fields = page.iter().map(|(_, cells)| csv::field(&cell(cells, row)));
                out.write_all(csv::line(fields).as_bytes())?;
            }
            Ok(())
        })
    }

    fn write_json(&self, out: &mut impl Write) -> Result<(), WriteError> {
        write!(
            out,
            "{{\"setup\": {}, \"measure\": {}, \"designs\": {}, \"refused\": {}, \"screened\": {}, \"feasible\": {}, \"pareto\": {},\n\"objectives\": {},\n\"sensitivity\": {},\n\"rows\": [",
            json!(self.setup()),
            json!(self.measure()),
            self.done(),
            self.refused().0,
            self.screened().0,
            self.feasible(),
            self.pareto(),
            json!(self.objectives()),
            json!(self.sensitivity())
        )?;
        let mut comma = "";
        self.each_page(|page| {
            for at in 0..rows(&page) {
                let row: Map<String, Value> =
                    page.iter().map(|(name, cells)| (name.clone(), cell(cells, at))).collect();
                write!(out, "{comma}\n{}", Value::Object(row))?;
                comma = ",";
            }
            Ok::<(), WriteError>(())
        })?;
        Ok(writeln!(out, "\n]}}")?)
    }

    fn write_parquet(&self, out: &mut (impl Write + Send)) -> Result<(), WriteError> {
        let facts =
            json!({ "setup": self.setup(), "measure": self.measure(), "sensitivity": self.sensitivity() });
        let properties = WriterProperties::builder()
            .set_created_by(concat!("floatgate ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new("floatgate".to_owned(), facts.to_string())]))
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

/// Values with their definition levels: 1 where there is one.
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

fn rows(page: &Page) -> usize {
    page.first().map_or(0, |(_, cells)| match cells {
        Cells::Bool(all) => all.len(),
        Cells::Integer(all) => all.len(),
        Cells::Number(all) => all.len(),
        Cells::Text(all) => all.len(),
    })
}

fn cell(cells: &Cells, row: usize) -> Value {
    match cells {
        Cells::Bool(all) => json!(all.get(row)),
        Cells::Integer(all) => json!(all.get(row)),
        Cells::Number(all) => json!(all.get(row)),
        Cells::Text(all) => json!(all.get(row)),
    }
}
