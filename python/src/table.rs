//! Tables that any program that reads Arrow takes without a copy.

use crate::column::Column;
use crate::stream::Stream;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString};

/// A table in Arrow's layout: polars.DataFrame(table), pandas.DataFrame.from_arrow(table), pyarrow.table(table) and DuckDB
/// take it without a copy.
///
/// len(table) is its number of rows, table["drive"] a column as a list.
#[pyclass(frozen, module = "hoistway")]
#[derive(Debug)]
pub struct Table {
    schema: Schema,
    columns: Vec<ArrayData>,
    rows: usize,
}

impl Table {
    /// Columns of one length.
    pub fn of(columns: Vec<Column>) -> Table {
        let rows = columns.first().map_or(0, |c| c.data.len());
        let (fields, columns): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|c| (c.field, c.data)).unzip();
        Table { schema: Schema::new(fields), columns, rows }
    }

    /// The column of that name.
    pub fn find(&self, name: &str) -> PyResult<&ArrayData> {
        let at = self.schema.fields().iter().position(|f| f.name() == name);
        let known = || format!("no column '{name}'; there are: {}", self.column_names().join(", "));
        at.map(|at| &self.columns[at]).ok_or_else(|| PyKeyError::new_err(known()))
    }
}

#[pymethods]
impl Table {
    /// The table for programs that read Arrow's stream in C. requested_schema is not followed: the types are the table's own.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let kind = DataType::Struct(self.schema.fields().clone());
        let batch = ArrayData::builder(kind).len(self.rows).child_data(self.columns.clone());
        let batch = batch.build().expect("columns of one length");
        PyCapsule::new_with_value(py, Stream::of(self.schema.clone(), batch), c"arrow_array_stream")
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows
    }

    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// A column as a list; what is missing is None.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.find(name)?;
        let cells: PyResult<Vec<_>> = (0..self.rows).map(|row| cell(py, column, row)).collect();
        PyList::new(py, cells?)
    }

    /// Every row as a dictionary. For small tables: it copies.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut rows = Vec::with_capacity(self.rows);
        for row in 0..self.rows {
            let dict = PyDict::new(py);
            for (field, column) in self.schema.fields().iter().zip(&self.columns) {
                dict.set_item(field.name(), cell(py, column, row)?)?;
            }
            rows.push(dict);
        }
        Ok(rows)
    }

    fn __repr__(&self) -> String {
        format!("<hoistway.Table of {} rows: {}>", self.rows, self.column_names().join(", "))
    }
}

/// One value for Python.
fn cell<'py>(py: Python<'py>, column: &ArrayData, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match column.data_type() {
        DataType::Int64 => column.buffer::<i64>(0)[row].into_pyobject(py)?.into_any(),
        DataType::UInt64 => column.buffer::<u64>(0)[row].into_pyobject(py)?.into_any(),
        DataType::UInt32 => column.buffer::<u32>(0)[row].into_pyobject(py)?.into_any(),
        DataType::Float64 => column.buffer::<f64>(0)[row].into_pyobject(py)?.into_any(),
        DataType::Boolean => {
            let set = column.buffers()[0].as_slice()[row / 8] >> (row % 8) & 1 == 1;
            set.into_pyobject(py)?.to_owned().into_any()
        }
        DataType::Dictionary(..) => {
            let word = column.buffer::<i32>(0)[row] as usize;
            PyString::new(py, text(&column.child_data()[0], word)).into_any()
        }
        _ => PyString::new(py, text(column, row)).into_any(),
    })
}

/// One text of a column of texts.
pub fn text(column: &ArrayData, row: usize) -> &str {
    let ends = column.buffer::<i64>(0);
    let bytes = &column.buffers()[1].as_slice()[ends[row] as usize..ends[row + 1] as usize];
    std::str::from_utf8(bytes).expect("it was made from a text")
}
