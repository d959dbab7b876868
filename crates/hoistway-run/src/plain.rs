//! Types of the core as numbers and names: it has no dependencies, and so no serde. Fields are written so by
//! `#[serde(with = "hoistway_run::plain")]`.

use crate::DecodeError;
use hoistway::sched::{Entry, find_or_twin};
use hoistway::{Class, Instant, IoPrio, Nanos};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is written as something simpler.
pub trait Plain: Sized {
    /// The simpler thing.
    type Form: Serialize + DeserializeOwned;

    /// As it is written.
    fn form(&self) -> Self::Form;

    /// As it was before.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    fn read(form: Self::Form) -> Result<Self, DecodeError>;
}

/// For `#[serde(with = "hoistway_run::plain")]`.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<T: Plain, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.form().serialize(to)
}

/// The reverse.
///
/// # Errors
///
/// Those of the deserializer, and what is none of these.
pub fn deserialize<'de, T: Plain, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::read(T::Form::deserialize(from)?).map_err(D::Error::custom)
}

impl Plain for Nanos {
    type Form = u64;

    fn form(&self) -> u64 {
        self.0
    }

    fn read(ns: u64) -> Result<Nanos, DecodeError> {
        Ok(Nanos(ns))
    }
}

impl Plain for Option<Nanos> {
    type Form = Option<u64>;

    fn form(&self) -> Option<u64> {
        self.map(|time| time.0)
    }

    fn read(ns: Option<u64>) -> Result<Option<Nanos>, DecodeError> {
        Ok(ns.map(Nanos))
    }
}

impl Plain for Instant {
    type Form = u64;

    fn form(&self) -> u64 {
        self.as_nanos()
    }

    fn read(ns: u64) -> Result<Instant, DecodeError> {
        Ok(Instant::from_nanos(ns))
    }
}

/// The kernel's word.
impl Plain for IoPrio {
    type Form = u16;

    fn form(&self) -> u16 {
        self.word()
    }

    fn read(word: u16) -> Result<IoPrio, DecodeError> {
        let class = match word >> 13 {
            0 => Some(Class::None),
            1 => Some(Class::Rt),
            2 => Some(Class::Be),
            3 => Some(Class::Idle),
            _ => None,
        };
        let prio = class.and_then(|class| IoPrio::new(class, (word & 0xff) as u8));
        prio.ok_or_else(|| DecodeError(format!("{word} is no I/O priority")))
    }
}

/// The name in the registry: one from outside of it is not read back.
impl Plain for &'static Entry {
    type Form = String;

    fn form(&self) -> String {
        self.name.into()
    }

    fn read(name: String) -> Result<&'static Entry, DecodeError> {
        let known = find_or_twin(&name);
        known.ok_or_else(|| DecodeError(format!("no scheduler {name}")))
    }
}
