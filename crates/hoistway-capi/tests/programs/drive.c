/* The load of tests/support/drive.rs through the C interface: drive SCHEDULER TOTAL one|batch.
 * Prints what it has done, and the processor time of an I/O. */
#include "hoistway.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 32, OPEN = 64, ROOM = 256 };

struct drive {
    hw_stack *stack;
    uint32_t procs[4];
    uint64_t random, now, next, open, wait, total;
    uint64_t device[1024]; /* A ring: never more than the device's depth is in it. */
    unsigned head, tail;
    hw_io io; /* What all have in common stays. */
    uint64_t order, issued, finished;
};

static void fail(struct drive *d, const char *what, int32_t code) {
    fprintf(stderr, "%s: %s: %s\n", what, hw_code_text(code), hw_error(d->stack));
    exit(1);
}

static void fill(struct drive *d, hw_io *io) {
    uint64_t x = d->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    d->random = x;
    io->op = x >> 60 ? HW_READ : HW_WRITE;
    io->id = d->next;
    io->sector = x % (1 << 26) * 16;
    io->proc = d->procs[d->next & 3];
    d->next++;
    d->open++;
}

static void take(struct drive *d, const hw_event *e) {
    switch (e->kind) {
    case HW_ISSUE:
        d->order = d->order * 31 + e->sector;
        d->issued++;
        d->device[d->tail++ % 1024] = e->req;
        break;
    case HW_FINISHED:
        d->finished++;
        d->open--;
        break;
    case HW_WAIT:
        d->wait = e->until_ns;
        break;
    case HW_REFUSED:
        fail(d, "refused", e->error);
    }
}

static void tick(struct drive *d) {
    if (d->wait != HW_NEVER && d->wait > d->now)
        d->now = d->wait;
}

static void turn(struct drive *d) {
    hw_event events[ROOM];
    int32_t code, n = ROOM;
    d->now += 1000;
    if (d->open < OPEN && d->next < d->total) {
        fill(d, &d->io);
        code = hw_submit(d->stack, d->now, &d->io);
    } else if (d->head != d->tail) {
        code = hw_done(d->stack, d->now, d->device[d->head++ % 1024], 0);
    } else {
        tick(d);
        code = hw_tick(d->stack, d->now);
    }
    if (code < 0)
        fail(d, "input", code);
    do {
        n = hw_poll(d->stack, events, ROOM);
        if (n < 0)
            fail(d, "hw_poll", n);
        for (int32_t i = 0; i < n; i++)
            take(d, &events[i]);
    } while (events[n - 1].kind != HW_WAIT);
}

static void batch(struct drive *d, hw_input *inputs) {
    hw_event events[ROOM];
    uint32_t count = 0, taken = 0;
    while (count < BATCH / 2 && d->head != d->tail) {
        hw_input *in = &inputs[count++];
        in->now_ns = d->now += 1000;
        in->kind = HW_IN_DONE;
        in->req = d->device[d->head++ % 1024];
    }
    while (count < BATCH && d->open < OPEN && d->next < d->total) {
        hw_input *in = &inputs[count++];
        in->now_ns = d->now += 1000;
        in->kind = HW_IN_SUBMIT;
        fill(d, &in->io);
    }
    if (count == 0) {
        d->now += 1000;
        tick(d);
        inputs[count].now_ns = d->now;
        inputs[count++].kind = HW_IN_TICK;
    }
    for (;;) {
        int32_t n = hw_step(d->stack, inputs, count, sizeof *inputs, events, ROOM, &taken);
        if (n < 0)
            fail(d, "hw_step", n);
        for (int32_t i = 0; i < n; i++)
            take(d, &events[i]);
        if (events[n - 1].kind == HW_WAIT)
            break;
        inputs += taken;
        count -= taken;
    }
}

static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int batches = !strcmp(argv[3], "batch");
    struct drive d = {.random = 88172645463325252u, .wait = HW_NEVER, .io = {.size = sizeof d.io, .sectors = 8}};
    hw_device device = {.size = sizeof device, .queue_depth = 32, .sectors = 1 << 30};
    char why[256];
    if (hw_stack_new(&device, argv[1], NULL, &d.stack, why, sizeof why) < 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    for (int i = 0; i < 4; i++)
        d.procs[i] = hw_add_proc(d.stack, HW_GROUP_ROOT, 0);
    d.total = strtoull(argv[2], NULL, 10);
    hw_input inputs[BATCH];
    for (int i = 0; i < BATCH; i++)
        inputs[i] = (hw_input){.io = d.io};
    double begin = used();
    while (d.finished < d.total)
        if (batches)
            batch(&d, inputs);
        else
            turn(&d);
    double taken = (used() - begin) / d.total;
    printf("order %016" PRIx64 " issued %" PRIu64 " finished %" PRIu64 "\n%.2f ns\n", d.order, d.issued,
           d.finished, taken);
    return hw_stack_free(d.stack);
}
