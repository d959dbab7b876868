//! `{"command":"stats"}`: what devices have done so far and for whom, as JSON
//! (docs/guide/observe.md).

use super::metrics::{METRICS, Read};
use hoistway_serve::device::{
    DeviceStats, GroupSum, IoCounters, LatencyHistogram, OPS, StateFigure,
};
use hoistway_serve::storage::EmulationFigures;
use serde_json::{Map, Value, json};

/// Version of what `stats` answers.
pub const SCHEMA: u32 = 1;

/// Adds what `stats` knows beyond `list` to the object of a device.
pub fn add(object: &mut Value, stats: &DeviceStats) {
    for (group, weight) in lines(object, "groups").zip(&stats.weights) {
        group["weight"] = json!(weight);
    }
    for (client, of) in lines(object, "clients").zip(&stats.client_stats) {
        client["weight"] = json!(of.weight);
        client["measure"] = measure(&of.counters);
    }
    let changed: Map<_, _> =
        stats.changed.iter().map(|(name, value)| (name.to_string(), (*value).into())).collect();
    let c = stats.counters;
    object["time_ns"] = stats.time.0.into();
    object["sums"] = stats.sums.iter().map(sum).collect();
    object["changed"] = changed.into();
    object["requests"] = stats.requests.into();
    object["in_service"] = stats.in_service.clone().into();
    object["counters"] = json!({
        "submitted": c.submitted,
        "finished": c.finished,
    });
    object["stall"] = stats.stall.as_ref().map_or(Value::Null, |stall| {
        json!({
            "lasts_ns": stall.lasts.0,
            "unfinished": stall.unfinished,
            "reason": stall.reason,
        })
    });
    for metric in METRICS {
        let Read::Device(field, value) = metric.read else { continue };
        match field.split_once('.') {
            _ if field.is_empty() => {}
            Some((outer, inner)) => object[outer][inner] = value(stats).into(),
            None => object[field] = value(stats).into(),
        }
    }
    object["state"] = stats.state.iter().map(figure).collect();
    object["emulation"] = stats.emulation.as_ref().map_or(Value::Null, emulation);
}

fn lines<'a>(object: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    object[list].as_array_mut().into_iter().flatten()
}

fn sum(sum: &GroupSum) -> Value {
    json!({
        "export": sum.export,
        "group": sum.group,
        "clients": sum.clients,
        "measure": measure(&sum.counters),
    })
}

fn measure(m: &IoCounters) -> Value {
    let mut ops = Map::new();
    for (of, (_, name)) in m.ops.iter().zip(OPS).filter(|(of, _)| of.count > 0) {
        let object = json!({
            "count": of.count,
            "errors": of.errors,
            "bytes": of.bytes,
            "time_ns": of.time.0,
            "times": spread(&of.times),
        });
        ops.insert(name.into(), object);
    }
    json!({
        "outstanding": m.outstanding,
        "depth_ns": m.depth.0,
        "wait_ns": m.wait.0,
        "waits": spread(&m.waits),
        "ops": ops,
    })
}

fn spread(spread: &LatencyHistogram) -> Value {
    spread.slots().map(|(top, count)| json!([top, count])).collect()
}

fn figure(f: &StateFigure) -> Value {
    json!({
        "stage": f.stage,
        "name": f.name,
        "unit": f.unit,
        "group": f.group,
        "of": f.of,
        "gauge": f.gauge,
        "value": f.value,
    })
}

fn emulation(f: &EmulationFigures) -> Value {
    json!({
        "commands": f.commands,
        "modelled_mean_ns": f.modelled_mean.0,
        "achieved_mean_ns": f.achieved_mean.0,
        "late_p50_ns": f.late_p50.0,
        "late_p99_ns": f.late_p99.0,
    })
}
