//! Settings as data: one row per setting, next to the code that reads it, is the only place in which its
//! name, unit, default, range, text, field and effect stand. The command line, the documents, the bindings,
//! `set`, `value` and a fresh instance are all made from these rows.
//!
//! ```
//! use hoistway::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};
//! use hoistway::Nanos;
//!
//! #[derive(Default)]
//! struct Conf {
//!     idle: Nanos,
//!     merging: bool,
//! }
//!
//! const ROWS: &[Setting<Conf>] = &[
//!     Tunable::new("idle", Unit::Millis, 8, (0, 1_000), "How long the device is kept idle.")
//!         .on_change(OnChange::Waits)
//!         .field(|c| c.idle.as_ms(), |c, v| c.idle = Nanos::ms(v)),
//!     Tunable::switch("merging", true, "Whether neighbours are joined.")
//!         .field(|c| c.merging.into(), |c, v| c.merging = v != 0),
//! ];
//! static SETTINGS: Settings<Conf> = Settings::new("example", ROWS);
//! // For the registry entry, where the type of what is set does not count.
//! static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);
//!
//! let mut conf = SETTINGS.defaults();
//! assert_eq!((conf.idle, conf.merging), (Nanos::ms(8), true));
//! SETTINGS.set(&mut conf, "idle", 20).unwrap();
//! assert_eq!(SETTINGS.value(&conf, "idle"), Some(20));
//! assert!(SETTINGS.set(&mut conf, "idle", 2_000).is_err());
//! assert_eq!(TUNABLES[0].parse("2s"), Ok(2_000));
//! ```
//!
//! A row whose promise ([`OnChange`]) needs more than the new value has the function that keeps it, an *effect*:
//! `Setting<Conf, Effect>` and `.field_then(get, set, effect)`, where `Effect` is the function that its owner calls.
//!
//! A setting whose value is no number (a path, a name, a fraction) is a [`TextSetting`].

use crate::quantity::{self, QuantityError};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Unit of a tunable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Secs,
    /// 512-byte sectors.
    Sectors,
    /// Bytes.
    Bytes,
    /// KiB.
    Kib,
    /// Bytes per second.
    BytesPerSec,
    /// A number of requests.
    Requests,
    /// A number of anything else.
    Count,
    /// A factor.
    Factor,
    /// A weight.
    Weight,
    /// 0 or 1.
    Switch,
    /// The value is an index into the words, and the words are accepted.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// The suffix shown behind a value.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Nanos => "ns",
            Unit::Micros => "us",
            Unit::Millis => "ms",
            Unit::Secs => "s",
            Unit::Sectors => "sectors",
            Unit::Bytes => "B",
            Unit::Kib => "KiB",
            Unit::BytesPerSec => "B/s",
            Unit::Requests => "requests",
            Unit::Factor => "x",
            Unit::Count | Unit::Weight | Unit::Switch | Unit::Choice(_) => "",
        }
    }
}

/// Effect of a change of a tunable on waits, stamps, limits and budgets made under the old value.
///
/// Whatever it is, no change strands I/O: as long as something is queued, something is with the device, or a
/// time is named at which the stage is asked again, and that time is within what the *new* value allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Nothing was made from it in advance: it is looked at in each decision.
    Decides,
    /// Requests that wait keep the deadline they were given, which orders them but holds nobody back; later
    /// ones get the new one.
    LaterRequests,
    /// The deadlines of requests that wait move with it.
    WaitingRequests,
    /// A wait that is armed ends no later than one armed under the new value; it is never lengthened.
    Waits,
    /// A wait that is armed ends when it was to; later ones end by the new value.
    LaterWaits,
    /// The slot, slice or window under way ends by the new value if that is sooner, budgets given are cut to
    /// it; nothing is lengthened.
    Limits,
    /// The slot, slice or window under way and budgets given stay; later ones are made by the new value.
    LaterLimits,
    /// Samples already taken stay as they were counted; later ones are counted by it.
    LaterSamples,
    /// Makes a state of its own anew, as its text says.
    Resets,
    /// Comes into force when no request exists; until then requests leave by `drain` and new I/O waits.
    Frozen,
}

impl OnChange {
    /// Each of them.
    pub const ALL: [OnChange; 10] = [
        OnChange::Decides,
        OnChange::LaterRequests,
        OnChange::WaitingRequests,
        OnChange::Waits,
        OnChange::LaterWaits,
        OnChange::Limits,
        OnChange::LaterLimits,
        OnChange::LaterSamples,
        OnChange::Resets,
        OnChange::Frozen,
    ];

    /// A word or two for a column, which `text` explains.
    pub const fn word(self) -> &'static str {
        match self {
            OnChange::Decides => "at once",
            OnChange::LaterRequests => "later requests",
            OnChange::WaitingRequests => "waiting requests",
            OnChange::Waits => "waits",
            OnChange::LaterWaits => "later waits",
            OnChange::Limits => "limits",
            OnChange::LaterLimits => "later limits",
            OnChange::LaterSamples => "later samples",
            OnChange::Resets => "resets",
            OnChange::Frozen => "drains",
        }
    }

    /// One line for people.
    pub const fn text(self) -> &'static str {
        match self {
            OnChange::Decides => "looked at in each decision",
            OnChange::LaterRequests => "for later requests; those that wait keep their deadlines",
            OnChange::WaitingRequests => "deadlines of waiting requests move with it",
            OnChange::Waits => "an armed wait is shortened to it, never lengthened",
            OnChange::LaterWaits => "for later waits; an armed one ends when it was to",
            OnChange::Limits => {
                "slots, windows and budgets under way are cut to it, never lengthened"
            }
            OnChange::LaterLimits => "for later slots, windows and budgets; those under way stay",
            OnChange::LaterSamples => "for later samples; those taken stay as they were counted",
            OnChange::Resets => "makes what it is about anew",
            OnChange::Frozen => "in force when no request exists; until then requests drain",
        }
    }
}

/// The values of a tunable under each value of the setting that stands for many (its *selector*: `base`,
/// `preset`), by that value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presets {
    /// There is no selector, or it leaves this one alone.
    None,
    /// Put down whenever the selector is written.
    Always(&'static [u64]),
    /// Put down when it differs from what the old value of the selector stands for: what was set by hand stays
    /// between selections that agree.
    IfDifferent(&'static [u64]),
}

/// The one value of a selector under which a change does what [`Tunable::on_change`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlyWith {
    /// The selector: `base`.
    pub selector: &'static str,
    /// Its value.
    pub value: u64,
    /// Effect of a change under the other values.
    pub otherwise: OnChange,
}

/// One tunable.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Its name, the kernel's where there is one.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Value of a fresh instance.
    pub default: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// One or two sentences.
    pub doc: &'static str,
    /// Effect of a change on what was made under the old value.
    pub on_change: OnChange,
    /// Under which value of a selector that holds; `None`: always.
    pub only_with: Option<OnlyWith>,
    /// Its value under each value of the setting that stands for many.
    pub presets: Presets,
    /// The value under which requests may stand still for ever, as published; `None`: there is none.
    pub stops_at: Option<u64>,
}

impl Tunable {
    /// A tunable with its range, looked at in each decision.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        default: u64,
        (min, max): (u64, u64),
        doc: &'static str,
    ) -> Tunable {
        Tunable {
            name,
            unit,
            default,
            min,
            max,
            doc,
            on_change: OnChange::Decides,
            only_with: None,
            presets: Presets::None,
            stops_at: None,
        }
    }

    /// Off (0) or on (1).
    pub const fn switch(name: &'static str, default: bool, doc: &'static str) -> Tunable {
        Tunable::new(name, Unit::Switch, default as u64, (0, 1), doc)
    }

    /// One of `words`, by its place among them.
    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        default: u64,
        doc: &'static str,
    ) -> Tunable {
        Tunable::new(name, Unit::Choice(words), default, (0, words.len() as u64 - 1), doc)
    }

    /// The same with another effect of a change.
    pub const fn on_change(self, on_change: OnChange) -> Tunable {
        Tunable { on_change, ..self }
    }

    /// The same, where `on_change` holds only while `selector` has `value`, and `otherwise` elsewhere.
    pub const fn only_with(
        self,
        selector: &'static str,
        value: u64,
        otherwise: OnChange,
    ) -> Tunable {
        Tunable { only_with: Some(OnlyWith { selector, value, otherwise }), ..self }
    }

    /// The same, where requests may stand still for ever under `value`.
    pub const fn stops_at(self, value: u64) -> Tunable {
        Tunable { stops_at: Some(value), ..self }
    }

    /// Whether a change does what `on_change` says while its selector has this value.
    pub fn keeps_promise(&self, selected: u64) -> bool {
        self.only_with.is_none_or(|only| only.value == selected)
    }

    /// Effect of a change while its selector has this value.
    pub fn on_change_under(&self, selected: u64) -> OnChange {
        match self.only_with {
            Some(only) if only.value != selected => only.otherwise,
            _ => self.on_change,
        }
    }

    /// The same with another default, for another version of what it belongs to.
    pub const fn with_default(self, default: u64) -> Tunable {
        Tunable { default, ..self }
    }

    /// The same, put down with each selection; the default is that of selection `default`.
    pub const fn presets(self, values: &'static [u64], default: u64) -> Tunable {
        let default = values[default as usize];
        Tunable { default, presets: Presets::Always(values), ..self }
    }

    /// The same, put down when selections differ in it; the default is that of selection `default`.
    pub const fn presets_if_different(self, values: &'static [u64], default: u64) -> Tunable {
        let default = values[default as usize];
        Tunable { default, presets: Presets::IfDifferent(values), ..self }
    }

    /// The row of a table: where the value is kept.
    pub const fn field<C, E>(self, get: fn(&C) -> u64, set: fn(&mut C, u64)) -> Setting<C, E> {
        Setting { tunable: self, get, set, effect: None }
    }

    /// The same with what its owner calls when the row was written.
    pub const fn field_then<C, E: Copy>(
        self,
        get: fn(&C) -> u64,
        set: fn(&mut C, u64),
        effect: E,
    ) -> Setting<C, E> {
        Setting { tunable: self, get, set, effect: Some(effect) }
    }

    /// The value that `text` stands for: a plain number in the tunable's own unit, a quantity with a unit, a
    /// word of a choice, on or off for a switch. The range is not checked here.
    ///
    /// # Errors
    ///
    /// Not a value of this unit; the message names the tunable and says what may be written.
    pub fn parse(&self, text: &str) -> Result<u64, ValueError> {
        let error = |why| ValueError { name: self.name, text: text.to_string(), why };
        if let Ok(plain) = text.parse::<u64>() {
            return match self.unit {
                // Nobody who writes a number there thinks of the words' order.
                Unit::Choice(words) if plain >= words.len() as u64 => {
                    Err(error(Unreadable::NoWord(words)))
                }
                _ => Ok(plain),
            };
        }
        let quantity = |e| error(Unreadable::Quantity(e));
        let exactly = |total: u64, unit: u64| {
            let whole = total.is_multiple_of(unit).then(|| total / unit);
            whole.ok_or_else(|| error(Unreadable::NotWhole(self.unit.suffix())))
        };
        let time = |unit| exactly(quantity::duration(text).map_err(quantity)?.0, unit);
        let size = |unit| exactly(quantity::bytes(text).map_err(quantity)?, unit);
        match self.unit {
            Unit::Nanos => time(1),
            Unit::Micros => time(1_000),
            Unit::Millis => time(1_000_000),
            Unit::Secs => time(1_000_000_000),
            Unit::Sectors => size(512),
            Unit::Bytes => size(1),
            Unit::Kib => size(1024),
            Unit::BytesPerSec => quantity::rate(text).map_err(quantity),
            Unit::Switch => match text {
                "on" | "true" => Ok(1),
                "off" | "false" => Ok(0),
                _ => Err(error(Unreadable::NoSwitch)),
            },
            Unit::Choice(words) => {
                let at = words.iter().position(|w| *w == text);
                at.map(|at| at as u64).ok_or_else(|| error(Unreadable::NoWord(words)))
            }
            Unit::Requests | Unit::Count | Unit::Factor | Unit::Weight => {
                Err(error(Unreadable::NoNumber))
            }
        }
    }
}

/// A text that is no value of a tunable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The tunable.
    pub name: &'static str,
    /// Text as it was written.
    pub text: String,
    /// The error.
    pub why: Unreadable,
}

/// Error in the text of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Not a quantity.
    Quantity(QuantityError),
    /// Not a whole number of the tunable's unit.
    NotWhole(&'static str),
    /// Not a number.
    NoNumber,
    /// Neither on nor off.
    NoSwitch,
    /// None of these words.
    NoWord(&'static [&'static str]),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValueError { name, text, why } = self;
        if let Unreadable::Quantity(error) = why {
            return write!(f, "{name} = {error}");
        }
        write!(f, "{name} = '{text}': ")?;
        match why {
            Unreadable::Quantity(_) => Ok(()),
            Unreadable::NotWhole(unit) => write!(f, "not a whole number of {unit}"),
            Unreadable::NoNumber => f.write_str("write a whole number"),
            Unreadable::NoSwitch => f.write_str("a switch is 0 or 1"),
            Unreadable::NoWord(words) => write!(f, "choose one of {}", words.join(", ")),
        }
    }
}

impl core::error::Error for ValueError {}

impl From<ValueError> for String {
    fn from(error: ValueError) -> String {
        error.to_string()
    }
}

/// A tunable and where its value is kept in a `C`: one row of a table. `E`: a function that its owner calls when
/// the row was written.
#[derive(Debug)]
pub struct Setting<C: 'static, E: 'static = ()> {
    /// Name, unit, default, range, text, effect of a change.
    pub tunable: Tunable,
    /// The value in force, in the tunable's unit.
    pub get: fn(&C) -> u64,
    /// Puts down a value of the range.
    pub set: fn(&mut C, u64),
    /// Makes what the tunable says of a change true; `None`: the new value alone does.
    pub effect: Option<E>,
}

impl<C, E: Copy> Clone for Setting<C, E> {
    fn clone(&self) -> Setting<C, E> {
        *self
    }
}

impl<C, E: Copy> Copy for Setting<C, E> {}

/// All settings of one stage, kept in a `C`.
#[derive(Clone, Copy, Debug)]
pub struct Settings<C: 'static, E: 'static = ()> {
    /// Their owner, for messages.
    pub of: &'static str,
    /// The rows, in the order of listing.
    pub rows: &'static [Setting<C, E>],
}

impl<C, E> Settings<C, E> {
    /// The table of `of`.
    pub const fn new(of: &'static str, rows: &'static [Setting<C, E>]) -> Settings<C, E> {
        Settings { of, rows }
    }

    /// A `C` with every setting at its default, and zeros where no row reaches.
    pub fn defaults(&self) -> C
    where
        C: Default,
    {
        let mut all = C::default();
        self.apply_defaults(&mut all);
        all
    }

    /// Puts every default down, in the order of the rows.
    pub fn apply_defaults(&self, to: &mut C) {
        for row in self.rows {
            (row.set)(to, row.tunable.default);
        }
    }

    /// Sets one; on an error nothing changes. Returns its row, for the effect of the change.
    ///
    /// # Errors
    ///
    /// No such setting, or outside its range.
    pub fn set(
        &self,
        of: &mut C,
        name: &str,
        value: u64,
    ) -> Result<&'static Setting<C, E>, TunableError> {
        let row = self.check(name, value)?;
        (row.set)(of, value);
        Ok(row)
    }

    /// The rows whose effects follow when `written` was set: that one, and those whose values it changed with its
    /// own, as a selector does.
    pub fn touched<'a>(
        &self,
        written: &'a Setting<C, E>,
        before: &'a C,
        after: &'a C,
    ) -> impl Iterator<Item = &'static Setting<C, E>> + 'a {
        let is_touched = move |row: &&'static Setting<C, E>| {
            row.tunable.name == written.tunable.name || (row.get)(before) != (row.get)(after)
        };
        self.rows.iter().filter(is_touched)
    }

    /// The value in force; `None` if there is no such setting.
    pub fn value(&self, of: &C, name: &str) -> Option<u64> {
        self.find(name).map(|row| (row.get)(of))
    }

    /// The row of that name.
    pub fn find(&self, name: &str) -> Option<&'static Setting<C, E>> {
        self.rows.iter().find(|row| row.tunable.name == name)
    }

    /// The row of that name, if `value` is in its range.
    ///
    /// # Errors
    ///
    /// No such setting, or outside its range.
    pub fn check(&self, name: &str, value: u64) -> Result<&'static Setting<C, E>, TunableError> {
        let row = self.find(name);
        let row = row.ok_or_else(|| TunableError::Unknown { name: name.into(), stage: self.of })?;
        row.tunable.check(value)?;
        Ok(row)
    }

    /// Puts down what the rows' presets say of `new`, where the selector had `old`.
    pub fn select(&self, of: &mut C, old: u64, new: u64) {
        for row in self.rows {
            match row.tunable.presets {
                Presets::Always(values) => (row.set)(of, values[new as usize]),
                Presets::IfDifferent(v) if v[old as usize] != v[new as usize] => {
                    (row.set)(of, v[new as usize]);
                }
                Presets::IfDifferent(_) | Presets::None => {}
            }
        }
    }
}

/// The tunables of a table's rows, for lists in which the type of what is set does not count:
/// `static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);`. Panics, when it is compiled, if `N` is not the
/// number of rows.
pub const fn listed<C, E, const N: usize>(rows: &[Setting<C, E>]) -> [Tunable; N] {
    assert!(rows.len() == N, "as many tunables as rows");
    let mut all = [Tunable::switch("", false, ""); N];
    let mut i = 0;
    while i < N {
        all[i] = rows[i].tunable;
        i += 1;
    }
    all
}

/// A setting whose value is text, kept in a `C`: a path, a name, a quantity of its own kind. `E`: why a text
/// was refused, without the name.
#[derive(Debug)]
pub struct TextSetting<C: 'static, E: 'static = String> {
    /// Its name, as in files; the flag's, if there is one.
    pub name: &'static str,
    /// Form of the value, for people: `SIZE`, `be/4`, `PATH`.
    pub form: &'static str,
    /// Default, in words.
    pub default: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// Value in force, as it would be written; `None`: not given.
    pub get: fn(&C) -> Option<String>,
    /// Reads and puts down a value; on an error nothing changes.
    pub set: fn(&mut C, &str) -> Result<(), E>,
}

impl<C, E> Clone for TextSetting<C, E> {
    fn clone(&self) -> TextSetting<C, E> {
        *self
    }
}

impl<C, E> Copy for TextSetting<C, E> {}

/// Why a tunable was not set. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TunableError {
    /// Outside the range.
    OutOfRange {
        /// The tunable.
        name: &'static str,
        /// Value that was given.
        got: u64,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// No such tunable.
    Unknown {
        /// Name that was asked for.
        name: String,
        /// The stage that was asked.
        stage: &'static str,
    },
}

impl fmt::Display for TunableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TunableError::OutOfRange { name, got, min, max } => {
                write!(f, "{name} = {got} is outside {min}..={max}; choose a value in that range")
            }
            TunableError::Unknown { name, stage } => {
                write!(f, "{stage} has no tunable '{name}'; `hoistway show {stage}` lists them")
            }
        }
    }
}

impl core::error::Error for TunableError {}

impl Tunable {
    /// Whether `value` is in its range.
    ///
    /// # Errors
    ///
    /// It is not.
    pub fn check(&self, value: u64) -> Result<(), TunableError> {
        let Tunable { name, min, max, .. } = *self;
        let fits = (min..=max).contains(&value);
        if fits { Ok(()) } else { Err(TunableError::OutOfRange { name, got: value, min, max }) }
    }
}

/// Finds `name` in `table` and checks `value` against its range.
///
/// # Errors
///
/// No such tunable in it, or outside its range.
pub fn check(
    table: &'static [Tunable],
    stage: &'static str,
    name: &str,
    value: u64,
) -> Result<&'static Tunable, TunableError> {
    let tunable = table.iter().find(|t| t.name == name);
    let tunable = tunable.ok_or_else(|| TunableError::Unknown { name: name.to_string(), stage })?;
    tunable.check(value)?;
    Ok(tunable)
}

/// The known word nearest to `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = 2.max(word.chars().count() / 3);
    let near = known.into_iter().map(|k| (distance(word, k), k)).filter(|&(d, _)| d <= limit);
    near.min().map(|(_, k)| k)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(unit: Unit) -> Tunable {
        Tunable::new("x", unit, 0, (0, 10), "")
    }

    #[test]
    fn values_are_numbers_quantities_and_words() {
        assert_eq!(of(Unit::Millis).parse("500"), Ok(500));
        assert_eq!(of(Unit::Millis).parse("2s"), Ok(2000));
        assert!(of(Unit::Millis).parse("5us").is_err());
        assert_eq!(of(Unit::Sectors).parse("4k"), Ok(8));
        assert_eq!(of(Unit::Switch).parse("on"), Ok(1));
        let choice = of(Unit::Choice(&["direction", "sync", "full"]));
        assert_eq!(choice.parse("full"), Ok(2));
        let message = choice.parse("ful").unwrap_err().to_string();
        assert_eq!(message, "x = 'ful': choose one of direction, sync, full");
        assert_eq!(choice.parse("2"), Ok(2));
        let message = choice.parse("3").unwrap_err().to_string();
        assert_eq!(message, "x = '3': choose one of direction, sync, full");
        let message = of(Unit::Count).parse("8ms").unwrap_err().to_string();
        assert_eq!(message, "x = '8ms': write a whole number");
    }

    #[derive(Debug, Default, PartialEq)]
    struct Conf {
        base: u64,
        quirk: u64,
        rule: u64,
    }

    const ROWS: &[Setting<Conf>] = &[
        Tunable::choice("base", &["old", "older", "new"], 2, "")
            .field(|c| c.base, |c, v| c.base = v),
        Tunable::switch("quirk", false, "")
            .presets(&[1, 1, 0], 2)
            .field(|c| c.quirk, |c, v| c.quirk = v),
        Tunable::new("rule", Unit::Count, 0, (0, 9), "")
            .presets_if_different(&[7, 9, 7], 2)
            .field(|c| c.rule, |c, v| c.rule = v),
    ];
    static TABLE: Settings<Conf> = Settings::new("test", ROWS);
    static LIST: [Tunable; ROWS.len()] = listed(ROWS);

    #[test]
    fn a_fresh_instance_and_the_list_come_from_the_rows() {
        let conf = TABLE.defaults();
        assert_eq!(conf, Conf { base: 2, quirk: 0, rule: 7 });
        for (row, listed) in ROWS.iter().zip(&LIST) {
            assert_eq!(row.tunable.name, listed.name);
            assert_eq!((row.get)(&conf), listed.default);
        }
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut conf = TABLE.defaults();
        let range = TunableError::OutOfRange { name: "rule", got: 10, min: 0, max: 9 };
        assert_eq!(TABLE.set(&mut conf, "rule", 10).err(), Some(range));
        let unknown = TunableError::Unknown { name: "rul".into(), stage: "test" };
        assert_eq!(TABLE.set(&mut conf, "rul", 1).err(), Some(unknown));
        assert_eq!(TABLE.value(&conf, "rul"), None);
        assert_eq!(conf, TABLE.defaults());
    }

    #[test]
    fn a_selection_leaves_alone_what_both_agree_in() {
        let mut conf = TABLE.defaults();
        (conf.quirk, conf.rule) = (1, 3);
        TABLE.select(&mut conf, 2, 0);
        assert_eq!((conf.quirk, conf.rule), (1, 3));
        TABLE.select(&mut conf, 0, 1);
        assert_eq!((conf.quirk, conf.rule), (1, 9));
        TABLE.select(&mut conf, 1, 2);
        assert_eq!((conf.quirk, conf.rule), (0, 7));
    }

    #[test]
    fn the_row_written_and_those_it_changed_are_touched() {
        let (before, mut after) = (TABLE.defaults(), TABLE.defaults());
        let touched = |written: &'static Setting<Conf>, before: &Conf, after: &Conf| {
            TABLE.touched(written, before, after).map(|row| row.tunable.name).collect::<Vec<_>>()
        };
        let row = TABLE.set(&mut after, "rule", 7).unwrap();
        assert_eq!(touched(row, &before, &after), ["rule"], "though it is what it was");
        let row = TABLE.set(&mut after, "base", 1).unwrap();
        TABLE.select(&mut after, 2, 1);
        assert_eq!(touched(row, &before, &after), ["base", "quirk", "rule"]);
    }

    #[test]
    fn a_promise_may_hold_under_one_value_of_a_selector() {
        let always = of(Unit::Millis).on_change(OnChange::Waits);
        let once = always.only_with("base", 2, OnChange::LaterWaits);
        assert!((0..4).all(|base| always.keeps_promise(base)));
        assert_eq!([1, 2].map(|base| once.keeps_promise(base)), [false, true]);
        let under = [1, 2].map(|base| once.on_change_under(base));
        assert_eq!(under, [OnChange::LaterWaits, OnChange::Waits]);
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        assert_eq!(nearest("wieght", ["weight", "latency"]), Some("weight"));
        assert_eq!(nearest("prio", ["weight", "latency"]), None);
    }
}
