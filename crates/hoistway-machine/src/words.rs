//! Parts of a job as values of TOML: what one process of this program tells another.

use hoistway::{IoPrio, Nanos};
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::{ProcSpec, Role};
use std::fmt::Display;
use toml::{Table, Value};

/// A number; above TOML's largest it is a text.
pub(crate) fn int(n: u64) -> Value {
    i64::try_from(n).map_or_else(|_| Value::String(n.to_string()), Value::Integer)
}

pub(crate) fn said(error: impl Display) -> String {
    error.to_string()
}

pub(crate) fn number(table: &Table, name: &str) -> Result<u64, String> {
    unsigned(table.get(name).ok_or_else(|| format!("no {name}"))?)
        .map_err(|e| format!("{name}: {e}"))
}

pub(crate) fn nanos(table: &Table, name: &str) -> Result<Nanos, String> {
    number(table, name).map(Nanos)
}

pub(crate) fn flag(table: &Table, name: &str) -> Result<bool, String> {
    table.get(name).and_then(Value::as_bool).ok_or(format!("no {name}"))
}

pub(crate) fn text_of<'a>(table: &'a Table, name: &str) -> Result<&'a str, String> {
    table.get(name).and_then(Value::as_str).ok_or(format!("no {name}"))
}

pub(crate) fn list_of<'a>(table: &'a Table, name: &str) -> Result<&'a [Value], String> {
    let list = table.get(name).and_then(Value::as_array).ok_or(format!("no {name}"))?;
    Ok(list)
}

pub(crate) fn table_of(value: &Value) -> Result<&Table, String> {
    value.as_table().ok_or_else(|| format!("{value} is no table"))
}

pub(crate) fn unsigned(value: &Value) -> Result<u64, String> {
    let text = value.as_str().and_then(|text| text.parse::<u64>().ok());
    if let Some(n) = text {
        return Ok(n);
    }
    let n = value.as_integer().ok_or_else(|| format!("{value} is no number"))?;
    u64::try_from(n).map_err(|_| format!("{n} is below 0"))
}

pub(crate) fn string(value: &Value) -> Result<String, String> {
    Ok(value.as_str().ok_or_else(|| format!("{value} is no text"))?.to_string())
}

/// The two or more values of a list.
pub(crate) fn parts<const N: usize>(value: &Value) -> Result<[&Value; N], String> {
    let list = value.as_array().ok_or_else(|| format!("{value} is no list"))?;
    let list: Vec<&Value> = list.iter().collect();
    list.try_into().map_err(|_| format!("{value} has not {N} parts"))
}

/// The host's profile and what differs from it.
pub(crate) fn put_host(table: &mut Table, host: &HostConfig) {
    let differences = host.differences().into_iter().map(|(n, v)| (n.into(), v.into()));
    table.insert("profile".into(), host.profile_name().into());
    table.insert("host".into(), Value::Table(differences.collect()));
}

pub(crate) fn host_of(table: &Table) -> Result<HostConfig, String> {
    let mut host = HostConfig::profile(text_of(table, "profile")?).map_err(said)?;
    for (name, value) in table.get("host").and_then(Value::as_table).ok_or("no host")? {
        host.set(name, value).map_err(said)?;
    }
    Ok(host)
}

pub(crate) fn proc_table(spec: &ProcSpec) -> Value {
    let mut table = Table::new();
    let mut set = |name: &str, value: Value| drop(table.insert(name.into(), value));
    set("name", spec.name.clone().into());
    set("target", (spec.role == Role::Target).into());
    if let Some(group) = spec.group {
        set("group", int(group as u64));
    }
    set("class", int(spec.prio.word().into()));
    set("start", int(spec.start.0));
    set("load", spec.load.clone().into());
    set("params", Value::Table(spec.params.clone()));
    Value::Table(table)
}

pub(crate) fn proc_of(value: &Value) -> Result<ProcSpec, String> {
    let table = table_of(value)?;
    let word = number(table, "class")?;
    let class = match word >> 13 {
        1 => hoistway::Class::Rt,
        2 => hoistway::Class::Be,
        3 => hoistway::Class::Idle,
        _ => hoistway::Class::None,
    };
    let group = table.get("group").map(unsigned).transpose()?;
    Ok(ProcSpec {
        name: text_of(table, "name")?.into(),
        role: if flag(table, "target")? { Role::Target } else { Role::Interferer },
        group: group.map(|g| g as usize),
        prio: IoPrio::new(class, (word & 7) as u8).ok_or("no priority")?,
        start: nanos(table, "start")?,
        load: text_of(table, "load")?.into(),
        params: table.get("params").and_then(Value::as_table).ok_or("no parameters")?.clone(),
    })
}

/// Names with numbers, in order.
pub(crate) fn settings(set: &[(String, u64)]) -> Value {
    let pair = |(name, n): &(String, u64)| Value::Array(vec![name.clone().into(), int(*n)]);
    Value::Array(set.iter().map(pair).collect())
}

pub(crate) fn settings_of(table: &Table, name: &str) -> Result<Vec<(String, u64)>, String> {
    let pair = |value: &Value| {
        let [name, n] = parts(value)?;
        Ok((string(name)?, unsigned(n)?))
    };
    list_of(table, name)?.iter().map(pair).collect()
}

/// Names with texts, in order.
pub(crate) fn lines(lines: &[(String, String)]) -> Value {
    let pair = |(name, text): &(String, String)| {
        Value::Array(vec![name.clone().into(), text.clone().into()])
    };
    Value::Array(lines.iter().map(pair).collect())
}

pub(crate) fn lines_of(table: &Table, name: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |value: &Value| {
        let [name, text] = parts(value)?;
        Ok((string(name)?, string(text)?))
    };
    list_of(table, name)?.iter().map(pair).collect()
}

/// Texts, in order.
pub(crate) fn text_list(texts: &[String]) -> Value {
    Value::Array(texts.iter().map(|text| text.clone().into()).collect())
}

pub(crate) fn each_text(value: &Value) -> Result<Vec<String>, String> {
    let list = value.as_array().ok_or_else(|| format!("{value} is no list"))?;
    list.iter().map(string).collect()
}
