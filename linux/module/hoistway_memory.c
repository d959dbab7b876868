// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Memory of the core, and its end in a panic.
 *
 * A core is built where one may sleep. Later it is under a spin lock: it asks the kernel for what is there at once, and if
 * there is nothing, a reserve. What it has stands on a list of its queue, so that the memory of a core that has panicked goes
 * back without it. In the steady state nothing is asked for; tables grow with processes and groups.
 */
#include <linux/genalloc.h>
#include <linux/llist.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include "hoistway.h"

void __noreturn hw_leave(struct hw_view *view);

DEFINE_PER_CPU(struct hw_sched *, hw_here);

/* One core is built or ended at a time, by a task that may sleep. */
static DEFINE_MUTEX(building);
static struct task_struct *builder;
static struct hw_sched *built;

#define RESERVE (512 << 10)
static struct gen_pool *reserve;
static void *reserve_memory;

static atomic_long_t allocs, frees, failed, empty;

static unsigned int fail_every;
module_param(fail_every, uint, 0644);
MODULE_PARM_DESC(fail_every, "For tests: each so-manieth allocation that may not sleep is taken from the reserve");
static bool no_reserve;
module_param(no_reserve, bool, 0644);
MODULE_PARM_DESC(no_reserve, "For tests: the reserve is taken for empty");
unsigned int hw_panic_every;
module_param_named(panic_every, hw_panic_every, uint, 0644);
MODULE_PARM_DESC(panic_every, "For tests: the core panics at each so-manieth dispatch");

static int get_counts(char *to, const struct kernel_param *kp)
{
	return sprintf(to, "allocs %ld frees %ld failed %ld reserve_free %zu reserve_empty %ld\n",
		       atomic_long_read(&allocs), atomic_long_read(&frees), atomic_long_read(&failed),
		       gen_pool_avail(reserve), atomic_long_read(&empty));
}
static const struct kernel_param_ops counts_ops = { .get = get_counts };
module_param_cb(memory, &counts_ops, NULL, 0444);
MODULE_PARM_DESC(memory, "Allocations, and how many the kernel could not give at once");

/* In front of each allocation. */
struct block {
	struct list_head node;
	/* What the kernel gave, which is aligned less strictly. */
	void *base;
	size_t size;
};

/* vfree may sleep. */
static LLIST_HEAD(late);
static void free_late(struct work_struct *work)
{
	struct llist_node *node = llist_del_all(&late), *next;

	for (; node; node = next) {
		next = node->next;
		vfree(node);
	}
}
static DECLARE_WORK(late_work, free_late);

static bool is_building(void)
{
	return in_task() && READ_ONCE(builder) == current;
}

static struct hw_sched *owner(void)
{
	return is_building() ? built : this_cpu_read(hw_here);
}

static void *take(size_t size)
{
	void *base = NULL;

	if (is_building())
		return kvmalloc(size, GFP_KERNEL);
	if (!fail_every || atomic_long_read(&allocs) % fail_every)
		base = kmalloc(size, GFP_ATOMIC | __GFP_NOWARN);
	if (base)
		return base;
	atomic_long_inc(&failed);
	if (!READ_ONCE(no_reserve))
		base = (void *)gen_pool_alloc(reserve, size);
	if (!base)
		atomic_long_inc(&empty);
	return base;
}

void *hw_alloc(size_t size, size_t align)
{
	struct hw_sched *h = owner();
	struct block *block;
	void *base;

	align = max(align, __alignof__(*block));
	if (WARN_ON_ONCE(!h) || check_add_overflow(size, sizeof(*block) + align, &size))
		return NULL;
	base = take(size);
	if (!base)
		return NULL;
	atomic_long_inc(&allocs);
	block = PTR_ALIGN(base + sizeof(*block), align) - sizeof(*block);
	block->base = base;
	block->size = size;
	list_add(&block->node, &h->memory);
	return block + 1;
}

static void give_back(struct block *block)
{
	void *base = block->base;

	list_del(&block->node);
	atomic_long_inc(&frees);
	if (gen_pool_has_addr(reserve, (unsigned long)base, 1))
		gen_pool_free(reserve, (unsigned long)base, block->size);
	else if (!is_vmalloc_addr(base))
		kfree(base);
	else if (llist_add(base, &late))
		schedule_work(&late_work);
}

void hw_free(void *at)
{
	give_back((struct block *)at - 1);
}

void __noreturn hw_panic(const char *text, size_t len)
{
	struct hw_sched *h = owner();

	/* The core is entered with an owner only. */
	BUG_ON(!h);
	WRITE_ONCE(h->dead, true);
	snprintf(h->reason, sizeof(h->reason), "%.*s", (int)len, text);
	strreplace(h->reason, '\n', ' ');
	pr_err("hoistway: %s: the scheduler has failed (%s); requests are served in the order of arrival from now on\n",
	       h->queue->disk ? h->queue->disk->disk_name : "?", h->reason);
	hw_leave(&h->view);
}

static void begin_building(struct hw_sched *h)
{
	mutex_lock(&building);
	built = h;
	WRITE_ONCE(builder, current);
}

static void end_building(void)
{
	WRITE_ONCE(builder, NULL);
	built = NULL;
	mutex_unlock(&building);
}

bool hw_build(struct hw_sched *h, const struct hw_setup *setup)
{
	/* The queue is frozen: to wait for I/O could mean to wait for this queue. */
	unsigned int noio = memalloc_noio_save();
	bool done;

	begin_building(h);
	done = hw_new(&h->view, h->number, setup);
	end_building();
	memalloc_noio_restore(noio);
	if (!done)
		hw_unbuild(h);
	return done;
}

void hw_unbuild(struct hw_sched *h)
{
	struct block *block, *next;
	bool whole = !h->dead && h->view.core;

	if (whole) {
		begin_building(h);
		hw_end(&h->view);
		end_building();
	}
	/* A core that has ended by itself has given everything back. */
	WARN_ON_ONCE(whole && !h->dead && !list_empty(&h->memory));
	list_for_each_entry_safe(block, next, &h->memory, node)
		give_back(block);
}

bool hw_time_to_break(void)
{
	static atomic_t count;
	unsigned int every = READ_ONCE(hw_panic_every);

	return unlikely(every) && !(atomic_inc_return(&count) % every);
}

int hw_memory_init(void)
{
	reserve = gen_pool_create(5, NUMA_NO_NODE);
	reserve_memory = vmalloc(RESERVE);
	if (reserve && reserve_memory &&
	    !gen_pool_add(reserve, (unsigned long)reserve_memory, RESERVE, NUMA_NO_NODE))
		return 0;
	if (reserve)
		gen_pool_destroy(reserve);
	vfree(reserve_memory);
	return -ENOMEM;
}

void hw_memory_exit(void)
{
	flush_work(&late_work);
	pr_info("hoistway: allocs %ld frees %ld\n", atomic_long_read(&allocs), atomic_long_read(&frees));
	gen_pool_destroy(reserve);
	vfree(reserve_memory);
}
