//! A stack from a description of the device, the name of a scheduler, and controllers.

use crate::control::find;
use crate::flow::range;
use crate::guard::{Failure, Inner, OK, c_text, guarded, hw_stack, panic_text};
use crate::memory::{check, get_sized, optional_text, put, put_text, text};
use crate::types::{HW_IO_SECTORS_END, hw_code, hw_device, hw_device_flag};
use hoistway::device::Profile;
use hoistway::setting::nearest;
use hoistway::{Device, Sectors, Stack, ctl, sched};
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Request slots that a stack may have: tables of all stages are as long.
const MOST_SLOTS: u64 = 65_536;

fn within(what: u32, low: u32, high: u32, text: &'static str) -> Result<u32, Failure> {
    if (low..=high).contains(&what) { Ok(what) } else { Err(range(text)) }
}

/// `what`, or the usual for 0.
fn or(what: u32, usual: u32) -> u32 {
    if what == 0 { usual } else { what }
}

/// The device of a description, if one of its kind can exist.
fn device_of(d: &hw_device) -> Result<Device, Failure> {
    let has = |flag: hw_device_flag| d.flags & flag as u32 != 0;
    if d.flags >= 32 || d.reserved != 0 {
        return Err(range("hw_device: a flag that does not exist, or reserved is not zero"));
    }
    if !(1..=1 << 54).contains(&d.sectors) {
        return Err(range("hw_device: sectors is 1 to 2^54"));
    }
    let depth = within(d.queue_depth, 1, 16_384, "hw_device: queue_depth is 1 to 16384")?;
    let queues = within(or(d.hw_queues, 1), 1, 256, "hw_device: hw_queues is 1 to 256, or 0")?;
    let requests = within(
        or(d.nr_requests, 4),
        4,
        2048,
        "hw_device: nr_requests is 4 to 2048, or 0 for the usual",
    )?;
    if u64::from(queues) * u64::from(depth.max(requests).max(256)) > MOST_SLOTS {
        return Err(range(
            "hw_device: hw_queues times the larger of queue_depth, nr_requests and 256 is at most 65536",
        ));
    }
    let mut device = Device::new(Sectors(d.sectors), depth);
    device.hw_queues = queues as u16;
    device.nr_requests = d.nr_requests;
    device.profile = match has(hw_device_flag::HW_LEGACY) {
        true => Profile::Legacy,
        false => Profile::MultiQueue,
    };
    device.rotational = has(hw_device_flag::HW_ROTATIONAL);
    device.write_cache = has(hw_device_flag::HW_WRITE_CACHE);
    device.fua = has(hw_device_flag::HW_HAS_FUA);
    device.flush_nonqueued = has(hw_device_flag::HW_FLUSH_ALONE);
    limits(d, &mut device)?;
    Ok(device)
}

/// The sizes of requests.
fn limits(d: &hw_device, device: &mut Device) -> Result<(), Failure> {
    let text = "hw_device: max_sectors is 8 to 131072, or 0 for 2560";
    device.max_sectors = Sectors(within(or(d.max_sectors, 2560), 8, 131_072, text)?.into());
    let text = "hw_device: max_segments is 1 to 65535, or 0 for 128";
    device.max_segments = within(or(d.max_segments, 128), 1, 65_535, text)?;
    if d.chunk_sectors != 0 {
        let text = "hw_device: chunk_sectors is 8 or more, or 0 for none";
        device.chunk_sectors = Sectors(within(d.chunk_sectors, 8, u32::MAX, text)?.into());
    }
    let text = "hw_device: discard_sectors is below HW_IO_SECTORS_END";
    let discard = within(d.discard_sectors, 0, HW_IO_SECTORS_END - 1, text)?;
    device.max_discard_sectors = Sectors(discard.into());
    let text = "hw_device: discard_granularity is 1 to 65536, or 0 for 8";
    device.discard_granularity =
        Sectors(within(or(d.discard_granularity, 8), 1, 65_536, text)?.into());
    Ok(())
}

/// A name with settings in braces: `bfq{slice_idle=0,low_latency=off}`.
struct Spec<'a> {
    name: &'a str,
    settings: Vec<(&'a str, &'a str)>,
}

impl<'a> Spec<'a> {
    fn parse(text: &'a str) -> Result<Spec<'a>, Failure> {
        let wrong = || {
            let text = format!("'{text}' is not NAME or NAME{{setting=value,...}}");
            Failure::new(hw_code::HW_E_VALUE, text)
        };
        let text = text.trim();
        let Some((name, rest)) = text.split_once('{') else {
            return Ok(Spec { name: text, settings: Vec::new() });
        };
        let inside = rest.strip_suffix('}').ok_or_else(wrong)?;
        let parts = inside.split(',').filter(|part| !part.trim().is_empty());
        let settings = parts.map(|part| part.split_once('=').ok_or_else(wrong));
        let settings: Vec<_> = settings.collect::<Result<_, _>>()?;
        let settings = settings.into_iter().map(|(n, v)| (n.trim(), v.trim())).collect();
        Ok(Spec { name: name.trim(), settings })
    }
}

/// The parts of a list between commas that are not in braces.
fn outside_braces(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn controller(name: &str) -> Result<&'static ctl::Entry, Failure> {
    ctl::find(name).ok_or_else(|| {
        let near = nearest(name, ctl::CONTROLLERS.iter().map(|e| e.name));
        let hint =
            near.map_or_else(|| "hw_controller_name lists them".into(), |n| format!("meant {n}?"));
        Failure::new(hw_code::HW_E_NAME, format!("there is no controller '{name}'; {hint}"))
    })
}

fn create(device: &hw_device, scheduler: &str, controllers: &str) -> Result<Inner, Failure> {
    let ios = within(or(device.ios, 256), 1, 65_536, "hw_device: ios is up to 65536")?;
    let spec = Spec::parse(scheduler)?;
    let entry: &'static sched::Entry = find(spec.name)?;
    let device = device_of(device)?;
    if entry.direct && device.profile == Profile::Legacy {
        return Err(range("HW_LEGACY has no scheduler 'none'"));
    }
    let mut stack = Stack::new(device, entry, ios as usize);
    let parts = outside_braces(controllers);
    let others: Vec<Spec> = parts.into_iter().map(Spec::parse).collect::<Result<_, _>>()?;
    for other in &others {
        let entry = controller(other.name)?;
        if stack.controllers().any(|(e, _)| e.gate == entry.gate && e.name == entry.name) {
            let text = format!("controller '{}' is named twice", entry.name);
            return Err(Failure::new(hw_code::HW_E_VALUE, text));
        }
        stack.install(entry);
    }
    let mut inner = Inner::new(stack);
    for spec in std::iter::once(&spec).chain(&others) {
        for (name, value) in &spec.settings {
            inner.set_text(0, spec.name, name, value)?;
            inner.forget_events();
        }
    }
    Ok(inner)
}

/// A stack for `device` with a scheduler, such as "bfq" or "bfq{slice_idle=0,low_latency=off}", and controllers,
/// such as "io.max,wbt{target=2ms}"; NULL: none. Times begin at 0.
///
/// `*stack` is the stack, to be freed by hw_stack_free, or NULL after an error. `why`, which has room for
/// `why_room` bytes and may be NULL, then holds the error as a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_stack_new(
    device: *const hw_device,
    scheduler: *const c_char,
    controllers: *const c_char,
    stack: *mut *mut hw_stack,
    why: *mut c_char,
    why_room: usize,
) -> i32 {
    let say = |failure: &Failure| {
        // SAFETY: as in `hw_submit`.
        unsafe { put_text(why, why_room, &c_text(failure.text()).to_string_lossy()) };
    };
    guarded(|| {
        // SAFETY: as in `hw_submit`.
        let made = catch_unwind(AssertUnwindSafe(|| unsafe {
            check(stack, "stack is NULL")?;
            put(stack, std::ptr::null_mut(), "stack is NULL")?;
            let device = get_sized(device, "device is NULL")?;
            let scheduler = text(scheduler, "scheduler is NULL")?;
            create(&device, scheduler, optional_text(controllers)?)
        }));
        let made = made.unwrap_or_else(|panic| {
            let text =
                format!("hoistway has failed, which is a bug of it: {}", panic_text(&*panic));
            Err(Failure::new(hw_code::HW_E_PANIC, text))
        });
        let inner = made.inspect_err(say)?;
        // SAFETY: as in `hw_submit`.
        unsafe { put(stack, hw_stack::boxed(inner), "stack is NULL") }?;
        OK
    })
}
