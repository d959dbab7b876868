// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Flush commands, of which no elevator hears: two tracepoints of the kernel tell when one goes to the device and when it is
 * over. They are looked up by name, for modules are not given their symbols.
 *
 * They fire for every request of every queue: we are behind them only while a queue has a scheduler that wants to hear. That
 * begins and ends in a work, for the queue is frozen while its scheduler changes, and patching code waits for other processors.
 */
#include <linux/tracepoint.h>
#include <linux/workqueue.h>
#include "hoistway.h"
#include "blk-mq-sched.h"

static struct tracepoint *at_issue, *at_completion;
/* Queues with a scheduler that wants to hear; whether we hear, which the work alone knows. */
static atomic_t hearers = ATOMIC_INIT(0);
static bool listening;

/* A command of the kernel's flush machine, on a queue of ours. Such a queue keeps its elevator while the command is out. */
static void tell(struct request *rq, bool began)
{
	struct elevator_queue *eq;
	struct hw_sched *h;
	unsigned long flags;
	u64 runs;

	if (req_op(rq) != REQ_OP_FLUSH || !(rq->rq_flags & RQF_FLUSH_SEQ))
		return;
	eq = READ_ONCE(rq->q->elevator);
	if (!eq || hw_number(eq->type) == SIZE_MAX)
		return;
	h = eq->elevator_data;
	if (!(h->wants & HW_FLUSHES))
		return;
	flags = hw_lock(h);
	CORE(h, hw_flush(&h->view, ktime_get_ns(), began));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
}

static void issued(void *unused, struct request *rq)
{
	tell(rq, true);
}

static void completed(void *unused, struct request *rq, blk_status_t error, unsigned int bytes)
{
	tell(rq, false);
}

static void look(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "block_rq_issue"))
		at_issue = tp;
	else if (!strcmp(tp->name, "block_rq_complete"))
		at_completion = tp;
}

static void listen(void)
{
	if (tracepoint_probe_register(at_completion, completed, NULL))
		goto not_told;
	if (!tracepoint_probe_register(at_issue, issued, NULL)) {
		listening = true;
		return;
	}
	tracepoint_probe_unregister(at_completion, completed, NULL);
not_told:
	pr_warn_once("hoistway: no place at a tracepoint: schedulers do not hear of flush commands\n");
}

static void end(void)
{
	tracepoint_probe_unregister(at_issue, issued, NULL);
	tracepoint_probe_unregister(at_completion, completed, NULL);
	listening = false;
}

static void follow(struct work_struct *work)
{
	bool wanted = atomic_read(&hearers);

	if (wanted && !listening)
		listen();
	else if (!wanted && listening)
		end();
}

static DECLARE_WORK(following, follow);

void hw_flush_on(struct hw_sched *h)
{
	if (!at_issue || !(h->wants & HW_FLUSHES))
		return;
	atomic_inc(&hearers);
	schedule_work(&following);
}

void hw_flush_off(struct hw_sched *h)
{
	if (!at_issue || !(h->wants & HW_FLUSHES))
		return;
	atomic_dec(&hearers);
	schedule_work(&following);
}

void hw_flush_init(void)
{
	for_each_kernel_tracepoint(look, NULL);
	if (at_issue && at_completion)
		return;
	at_issue = NULL;
	pr_warn("hoistway: this kernel does not tell of flush commands: schedulers do not hear of them\n");
}

/* No queue has a scheduler of ours any more. */
void hw_flush_exit(void)
{
	cancel_work_sync(&following);
	if (listening)
		end();
	tracepoint_synchronize_unregister();
}
