//! What is changed in a kernel's own files, arch/um first of all, and why.

/// A change of a file of the kernel, of arch/um with few exceptions: one of the texts is there and is replaced.
pub(super) struct Edit {
    /// Names of the file, from new versions to old ones; the first that is there counts.
    pub files: &'static [&'static str],
    /// Why it has to be.
    pub why: &'static str,
    /// Text and replacement; the first that is found counts.
    pub texts: &'static [(&'static str, &'static str)],
    /// Sources without any of the texts are as they should be.
    pub optional: bool,
}

/// Up to 5.5 it had another name.
const TIME_INTERNAL: &[&str] =
    &["arch/um/include/linux/time-internal.h", "arch/um/include/shared/timer-internal.h"];

pub(super) const EDITS: &[Edit] = &[
    Edit {
        files: TIME_INTERNAL,
        why: "the clock would go by 256 ns",
        texts: &[("#define TIMER_MULTIPLIER 256", "#define TIMER_MULTIPLIER 1\n")],
        optional: false,
    },
    Edit {
        files: TIME_INTERNAL,
        why: "a timer would be late by up to 500 ns",
        texts: &[("#define TIMER_MIN_DELTA  500", "#define TIMER_MIN_DELTA  1\n")],
        optional: false,
    },
    Edit {
        files: &["arch/um/kernel/time.c"],
        why: "every timer would be late by one unit of the clock",
        texts: &[("\tdelta += 1;\n", "\tdelta += time_travel_mode == TT_MODE_OFF;\n")],
        optional: false,
    },
    Edit {
        files: &["arch/um/kernel/process.c"],
        why: "the clock would go back by the times at which it was read since a timer was due",
        texts: &[(
            "\t\tif (time_travel_mode != TT_MODE_BASIC)\n\t\t\ttime_travel_set_time(",
            "\t\tif (time_travel_mode != TT_MODE_BASIC &&\n\t\t    time_travel_timer_expiry > time_travel_time)\n\
             \t\t\ttime_travel_set_time(",
        )],
        // From 5.6 on the kernel sees to it.
        optional: true,
    },
    Edit {
        files: &["crypto/xor.c"],
        why: "what btrfs needs would be timed at boot, by a clock that stands still meanwhile",
        texts: &[(
            "#define XOR_SELECT_TEMPLATE(x) (x)\n",
            "#define XOR_SELECT_TEMPLATE(x) (&xor_block_8regs)\n",
        )],
        // Before arch/um had a choice of its own, in 5.10 at the latest.
        optional: true,
    },
    Edit {
        files: &["arch/um/os-Linux/util.c"],
        why: "random numbers would be the host's",
        texts: &[(
            "\treturn getrandom(buf, len, flags);\n",
            "\textern long hoistway_host_random(void *, unsigned long);\n\n\
             \treturn hoistway_host_random(buf, len);\n",
        )],
        // Before 5.19 the kernel does not ask the host.
        optional: true,
    },
    Edit {
        files: &["init/main.c"],
        why: "random numbers would depend on the names of folders in the command line",
        texts: &[
            ("random_init_early(command_line);", "random_init_early(\"\");"),
            ("random_init(command_line);", "random_init(\"\");"),
        ],
        // Before 5.19 the kernel does not use it.
        optional: true,
    },
    Edit {
        files: &["arch/um/os-Linux/skas/process.c"],
        why: "processes of a guest that was killed would go on as the host's",
        texts: &[(
            "(void *) PTRACE_O_TRACESYSGOOD)",
            "(void *) (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))",
        )],
        optional: false,
    },
    Edit {
        files: &["arch/um/os-Linux/skas/process.c"],
        why: "the same for those that another process began",
        texts: &[(
            "(void *)PTRACE_O_TRACESYSGOOD)",
            "(void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))",
        )],
        optional: true,
    },
    Edit {
        files: &["arch/x86/um/user-offsets.c"],
        why: "the registers of processors with AMX would not fit",
        texts: &[("DEFINE_LONGS(HOST_FP_SIZE, 2696);", "DEFINE_LONGS(HOST_FP_SIZE, 11264);")],
        // From 6.13 on the size is asked for.
        optional: true,
    },
    Edit {
        files: &["arch/um/Makefile"],
        why: "nothing would tell what io.max is asked",
        texts: &[(
            "LINK_WRAPS = -Wl,--wrap,malloc",
            "LINK_WRAPS = -Wl,--wrap,__blk_throtl_bio -Wl,--wrap,submit_bio_noacct_nocheck -Wl,--wrap,malloc",
        )],
        // Without it io.max cannot be recorded, which is said when it is asked for.
        optional: true,
    },
    Edit {
        files: &["arch/um/Kconfig"],
        why: "schedulers that keep time in ticks would do so by 10 ms",
        texts: &[("config HZ\n\tint\n\tdefault 100\n", "config HZ\n\tint\n\tdefault 250\n")],
        optional: true,
    },
];

/// What a kernel with the module is changed in.
pub(super) const OF_MODULE: &[Edit] = &[Edit {
    files: &["arch/um/Kconfig"],
    why: "the module's reserve of memory is of a kind that nothing else asks for",
    texts: &[(
        "config UML\n\tbool\n\tdefault y\n",
        "config UML\n\tbool\n\tdefault y\n\tselect GENERIC_ALLOCATOR\n",
    )],
    optional: false,
}];

/// The text with the first of the edit's replacements that fits; `None`: none does.
pub(super) fn edited(edit: &Edit, text: &str) -> Option<String> {
    if edit.texts.iter().any(|(_, new)| text.contains(new)) {
        return Some(text.into());
    }
    let (old, new) = edit.texts.iter().find(|(old, _)| text.contains(old))?;
    Some(text.replacen(old, new, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_made_once() {
        let edit = EDITS.iter().find(|edit| edit.why.contains("256 ns")).unwrap();
        let once = edited(edit, "a\n#define TIMER_MULTIPLIER 256\nb\n").unwrap();
        assert_eq!(once, "a\n#define TIMER_MULTIPLIER 1\n\nb\n");
        assert_eq!(edited(edit, &once).unwrap(), once);
        assert_eq!(edited(edit, "nothing of the kind"), None);
    }
}
