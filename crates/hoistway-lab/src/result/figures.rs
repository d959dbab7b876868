//! Figures of repetitions. Thousands of repetitions have figures of the same names, which they share.

use hoistway_run::NamedFigure;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// Of each figure its name, and whose it is.
type FigureNames = Arc<[(String, Option<u32>)]>;

/// Figures of host, scheduler and controllers in one repetition.
#[derive(Clone, Debug, Default)]
pub struct RepFigures {
    names: FigureNames,
    values: Box<[i64]>,
}

/// One of them, as it is written.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    of: Option<u32>,
    value: i64,
}

impl RepFigures {
    /// The first of a name.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.of_name(name).next()
    }

    /// All of a name.
    pub fn of_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = i64> + 'a {
        self.iter().filter(move |f| f.0 == name).map(|f| f.1)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.names.iter().zip(&self.values).map(|(name, &value)| (name.0.as_str(), value))
    }
}

impl From<Vec<NamedFigure>> for RepFigures {
    fn from(all: Vec<NamedFigure>) -> RepFigures {
        let values = all.iter().map(|f| f.value).collect();
        RepFigures { names: all.into_iter().map(|f| (f.name, f.of)).collect(), values }
    }
}

impl Serialize for RepFigures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let all = self.names.iter().zip(&self.values);
        to.collect_seq(all.map(|((name, of), &value)| Written { name, of: *of, value }))
    }
}

impl<'de> Deserialize<'de> for RepFigures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RepFigures, D::Error> {
        Vec::<NamedFigure>::deserialize(from).map(RepFigures::from)
    }
}

/// Names that are known already: few different lists, since who runs decides which figures there are.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Vec<FigureNames>);

impl KnownNames {
    /// More different lists are not looked through.
    const MAX: usize = 64;

    /// Lets the figures share names that are known.
    pub(crate) fn share(&mut self, figures: &mut RepFigures) {
        match self.0.iter().find(|known| **known == figures.names) {
            Some(known) => figures.names = Arc::clone(known),
            None if self.0.len() < KnownNames::MAX => self.0.push(Arc::clone(&figures.names)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shared_and_figures_are_written_like_named_ones() {
        let of = |names: &[&str]| -> Vec<NamedFigure> {
            let figure = |(value, name): (i64, &&str)| NamedFigure {
                name: name.to_string(),
                of: (value > 1).then_some(7),
                value,
            };
            (1..).zip(names).map(figure).collect()
        };
        let mut known = KnownNames::default();
        let mut all = [&["a", "b", "a"][..], &["a", "b", "a"], &["a", "b"]].map(|names| {
            let mut figures = RepFigures::from(of(names));
            known.share(&mut figures);
            figures
        });
        assert!(Arc::ptr_eq(&all[0].names, &all[1].names));
        assert!(!Arc::ptr_eq(&all[0].names, &all[2].names));
        assert_eq!((all[0].get("a"), all[0].get("c")), (Some(1), None));
        assert_eq!(all[0].of_name("a").collect::<Vec<_>>(), [1, 3]);
        let text = serde_json::to_string(&all[0]).unwrap();
        assert_eq!(text, serde_json::to_string(&of(&["a", "b", "a"])).unwrap());
        all[2] = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{:?}", all[2]), format!("{:?}", all[0]));
    }
}
