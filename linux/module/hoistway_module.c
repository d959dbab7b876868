// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The registry of the core as elevators of this kernel, with their files below queue/iosched.
 */
#include <linux/module.h>
#include <linux/string.h>
#include "hoistway.h"
#include "blk-mq-sched.h"

#define TYPES 24
#define TUNABLES 48
#define NAME 40

static struct elevator_type types[TYPES];
static size_t numbers[TYPES];
static char names[TYPES][ELV_NAME_MAX];
static struct elv_fs_entry entries[TYPES][TUNABLES + 2];
static char attributes[TYPES][TUNABLES][NAME];
static unsigned int type_count;

size_t hw_number(const struct elevator_type *type)
{
	return type >= types && type < types + TYPES ? numbers[type - types] : SIZE_MAX;
}

/* --- files ----------------------------------------------------------------------------------------- */

static ssize_t show(struct elevator_queue *eq, char *page, size_t t)
{
	struct hw_sched *h = eq->elevator_data;
	unsigned long flags = hw_lock(h);
	u64 value = 0;
	bool done = CORE(h, hw_value(&h->view, t, &value));

	hw_unlock(h, flags);
	return done ? sprintf(page, "%llu\n", value) : -EIO;
}

static ssize_t store(struct elevator_queue *eq, const char *page, size_t count, size_t t)
{
	struct hw_sched *h = eq->elevator_data;
	unsigned long flags;
	u64 value, runs;
	bool done;

	if (kstrtou64(page, 0, &value))
		return -EINVAL;
	flags = hw_lock(h);
	done = CORE(h, hw_set(&h->view, ktime_get_ns(), t, value));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
	return done ? count : -EINVAL;
}

/* Whether the scheduler lives or why it does not, and what it has. */
static ssize_t show_state(struct elevator_queue *eq, char *page)
{
	struct hw_sched *h = eq->elevator_data;
	unsigned long flags = hw_lock(h);
	u32 sizes[4] = {}, waiting = h->view.waiting;

	CORE(h, hw_sizes(&h->view, &sizes));
	hw_unlock(h, flags);
	if (h->dead)
		return sprintf(page, "failed: %s\n", h->reason);
	return sprintf(page, "alive: procs %u of %u, groups %u, requests %u, waiting %u, max_sectors %u\n", sizes[0],
		       sizes[1], sizes[2], sizes[3], waiting, h->cut);
}

/* The kernel does not say which file it is about. */
#define FILE_OF(n)                                                                                 \
	static ssize_t show_##n(struct elevator_queue *eq, char *page)                             \
	{                                                                                          \
		return show(eq, page, n);                                                          \
	}                                                                                          \
	static ssize_t store_##n(struct elevator_queue *eq, const char *page, size_t count)        \
	{                                                                                          \
		return store(eq, page, count, n);                                                  \
	}
#define EACH(x)                                                                                    \
	x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11) x(12) x(13) x(14) x(15)      \
	x(16) x(17) x(18) x(19) x(20) x(21) x(22) x(23) x(24) x(25) x(26) x(27) x(28) x(29) x(30)  \
	x(31) x(32) x(33) x(34) x(35) x(36) x(37) x(38) x(39) x(40) x(41) x(42) x(43) x(44) x(45)  \
	x(46) x(47)
EACH(FILE_OF)
#define ENTRY_OF(n) { .show = show_##n, .store = store_##n },
static const struct elv_fs_entry files[TUNABLES] = { EACH(ENTRY_OF) };

/* --- types ----------------------------------------------------------------------------------------- */

static void __init describe(unsigned int at, size_t n)
{
	struct elevator_type *type = &types[at];
	size_t t;

	numbers[at] = n;
	type->ops = hw_ops;
	type->icq_size = hw_icq_size;
	type->icq_align = hw_icq_align;
	type->elevator_name = names[at];
	type->elevator_attrs = entries[at];
	type->elevator_owner = THIS_MODULE;
	for (t = 0; t < TUNABLES && hw_core_tunable(n, t, attributes[at][t], NAME); t++) {
		entries[at][t] = files[t];
		entries[at][t].attr.name = attributes[at][t];
		entries[at][t].attr.mode = 0644;
	}
	entries[at][t].attr.name = "state";
	entries[at][t].attr.mode = 0444;
	entries[at][t].show = show_state;
}

static void unregister(void)
{
	while (type_count)
		elv_unregister(&types[--type_count]);
}

static int __init register_all(void)
{
	size_t n;

	for (n = 0; n < hw_core_count() && type_count < TYPES; n++) {
		int error;

		if (!hw_core_name(n, names[type_count], ELV_NAME_MAX))
			continue;
		describe(type_count, n);
		error = elv_register(&types[type_count]);
		if (error)
			pr_warn("hoistway: %s: %d\n", names[type_count], error);
		else
			type_count++;
	}
	return type_count ? 0 : -EBUSY;
}

static int __init hw_init(void)
{
	int error = hw_tags_init();

	if (!error)
		error = hw_memory_init();
	if (error)
		return error;
	error = hw_groups_init();
	if (error)
		goto no_groups;
	/* Before a scheduler can be chosen. */
	hw_flush_init();
	error = register_all();
	if (error)
		goto no_types;
	pr_info("hoistway: %u schedulers\n", type_count);
	return 0;
no_types:
	hw_flush_exit();
	hw_groups_exit();
no_groups:
	hw_memory_exit();
	return error;
}

static void __exit hw_exit(void)
{
	unregister();
	hw_flush_exit();
	hw_groups_exit();
	hw_memory_exit();
}

module_init(hw_init);
module_exit(hw_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("I/O schedulers of hoistway");
/* Modules of some of its schedulers have longer names, and one of all is in place at a time. */
MODULE_ALIAS("hoistway");
