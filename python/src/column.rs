//! Columns of tables in Arrow's layout.

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use std::collections::BTreeMap;

/// A column: its name and type, and its values.
#[derive(Clone, Debug)]
pub struct Column {
    pub field: Field,
    pub data: ArrayData,
}

fn column(name: &str, nullable: bool, data: ArrayData) -> Column {
    Column { field: Field::new(name, data.data_type().clone(), nullable), data }
}

/// Checked when it is made: what these functions put together is a column, or an error of this crate.
fn built(kind: DataType, len: usize, nulls: Option<NullBuffer>, buffers: Vec<Buffer>) -> ArrayData {
    let data = ArrayData::builder(kind).len(len).nulls(nulls).buffers(buffers);
    data.build().expect("buffers of equal lengths")
}

/// Numbers of a fixed width.
trait Number: ArrowNativeType {
    const KIND: DataType;
}

impl Number for i64 {
    const KIND: DataType = DataType::Int64;
}

impl Number for u32 {
    const KIND: DataType = DataType::UInt32;
}

impl Number for u64 {
    const KIND: DataType = DataType::UInt64;
}

impl Number for f64 {
    const KIND: DataType = DataType::Float64;
}

fn numbers<T: Number>(name: &str, values: Vec<T>) -> Column {
    let len = values.len();
    column(name, false, built(T::KIND, len, None, vec![Buffer::from_vec(values)]))
}

fn optional<T: Number>(name: &str, values: &[Option<T>]) -> Column {
    let nulls: NullBuffer = values.iter().map(Option::is_some).collect();
    let plain: Vec<T> = values.iter().map(|v| v.unwrap_or_default()).collect();
    let data = built(T::KIND, values.len(), Some(nulls), vec![Buffer::from_vec(plain)]);
    column(name, true, data)
}

/// Signed whole numbers.
pub fn i64s(name: &str, values: Vec<i64>) -> Column {
    numbers(name, values)
}

/// Whole numbers.
pub fn u64s(name: &str, values: Vec<u64>) -> Column {
    numbers(name, values)
}

/// Small whole numbers.
pub fn u32s(name: &str, values: Vec<u32>) -> Column {
    numbers(name, values)
}

/// Small whole numbers, of which some may be missing.
pub fn optional_u32s(name: &str, values: &[Option<u32>]) -> Column {
    optional(name, values)
}

/// Numbers, of which some may be missing.
pub fn optional_f64s(name: &str, values: &[Option<f64>]) -> Column {
    optional(name, values)
}

/// True or false.
pub fn flags(name: &str, values: &[bool]) -> Column {
    let bits: BooleanBuffer = values.iter().copied().collect();
    let data = built(DataType::Boolean, values.len(), None, vec![bits.into_inner()]);
    column(name, false, data)
}

/// Texts that differ from row to row.
pub fn texts<T: AsRef<str>>(name: &str, values: &[T]) -> Column {
    column(name, false, text_data(values.iter().map(AsRef::as_ref)))
}

fn text_data<'a>(values: impl Iterator<Item = &'a str>) -> ArrayData {
    let (mut ends, mut bytes) = (vec![0_i64], Vec::new());
    for value in values {
        bytes.extend_from_slice(value.as_bytes());
        ends.push(bytes.len() as i64);
    }
    let len = ends.len() - 1;
    built(DataType::LargeUtf8, len, None, vec![Buffer::from_vec(ends), Buffer::from_vec(bytes)])
}

/// A column of few different words: each is kept once, rows have its number.
#[derive(Debug, Default)]
pub struct Words {
    rows: Vec<i32>,
    known: BTreeMap<String, i32>,
    /// Missing rows, if the column may have some.
    present: Option<Vec<bool>>,
}

impl Words {
    /// A column in which words may be missing.
    pub fn optional() -> Words {
        Words { present: Some(Vec::new()), ..Words::default() }
    }

    /// The number of a word, for rows to come.
    fn number(&mut self, word: &str) -> i32 {
        if let Some(&number) = self.known.get(word) {
            return number;
        }
        let number = i32::try_from(self.known.len()).expect("a grid has fewer names");
        self.known.insert(word.to_string(), number);
        number
    }

    /// A row.
    pub fn push(&mut self, word: &str) {
        self.push_times(word, 1);
    }

    /// So many rows alike.
    pub fn push_times(&mut self, word: &str, times: usize) {
        let number = self.number(word);
        self.rows.resize(self.rows.len() + times, number);
        if let Some(present) = &mut self.present {
            present.resize(self.rows.len(), true);
        }
    }

    /// So many rows, alike or missing.
    pub fn push_optional(&mut self, word: Option<&str>, times: usize) {
        if let Some(word) = word {
            return self.push_times(word, times);
        }
        self.rows.resize(self.rows.len() + times, 0);
        let present = self.present.as_mut().expect("words may be missing in this column");
        present.resize(self.rows.len(), false);
    }

    /// The column.
    pub fn finish(self, name: &str) -> Column {
        let mut words: Vec<(&String, &i32)> = self.known.iter().collect();
        words.sort_by_key(|(_, number)| **number);
        let words = text_data(words.into_iter().map(|(word, _)| word.as_str()));
        let kind = DataType::Dictionary(DataType::Int32.into(), DataType::LargeUtf8.into());
        let nullable = self.present.is_some();
        let nulls = self.present.map(|p| p.into_iter().collect::<NullBuffer>());
        let data = ArrayData::builder(kind).len(self.rows.len()).nulls(nulls);
        let data = data.add_buffer(Buffer::from_vec(self.rows)).add_child_data(words);
        column(name, nullable, data.build().expect("every row has the number of a word"))
    }
}
