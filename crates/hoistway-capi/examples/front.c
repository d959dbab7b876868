/* BFQ in front of pread: two tenants read one file, each with 16 reads open; one has priority 0, the other 7.
 * The device takes 8 reads at a time and serves one after the other.  front [FILE [SCHEDULER [READS]]] */
#include <fcntl.h>
#include <hoistway.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { TENANTS = 2, OPEN = 16, SECTORS = 1 << 17, QUEUE = 64 };

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void check(hw_stack *stack, int32_t code) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", hw_code_text(code), hw_error(stack));
        exit(1);
    }
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "front.img", *scheduler = argc > 2 ? argv[2] : "bfq";
    uint64_t each = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, SECTORS * 512))
        return perror(path), 1;
    hw_device device = {.size = sizeof device, .queue_depth = 8, .sectors = SECTORS};
    hw_stack *stack;
    char why[256], *buffer = malloc(1 << 21);
    if (hw_stack_new(&device, scheduler, NULL, &stack, why, sizeof why) < 0)
        return fprintf(stderr, "%s\n", why), 1;
    hw_io io = {.size = sizeof io, .op = HW_READ, .sectors = 8};
    uint32_t proc[TENANTS];
    for (int t = 0; t < TENANTS; t++)
        check(stack, proc[t] = hw_add_proc(stack, HW_GROUP_ROOT, 2 << 13 | (t ? 7 : 0)));
    uint64_t sent[TENANTS] = {0}, got[TENANTS] = {0}, waited[TENANTS] = {0}, begun[TENANTS][1024];
    hw_event queue[QUEUE], events[32]; /* A ring of what is with the device: 8 at most. */
    unsigned head = 0, tail = 0;
    uint64_t wake = HW_NEVER, begin = now();
    while (got[0] + got[1] < TENANTS * each) {
        int t = sent[0] - got[0] < OPEN && sent[0] < each ? 0 : 1;
        if (sent[t] - got[t] < OPEN && sent[t] < each) {
            io.id = sent[t] * TENANTS + t;
            io.proc = proc[t];
            io.sector = (t ? sent[t] * 8 : (uint64_t)rand() * 8) % SECTORS;
            begun[t][sent[t]++ % 1024] = now();
            check(stack, hw_submit(stack, now(), &io));
        } else if (head != tail) { /* The device: the oldest read. */
            hw_event *r = &queue[head++ % QUEUE];
            ssize_t n = pread(fd, buffer, r->sectors * 512, r->sector * 512);
            check(stack, hw_done(stack, now(), r->req, n == r->sectors * 512 ? 0 : HW_EIO));
        } else { /* BFQ idles: it expects the next read of a tenant. */
            while (now() < wake)
                ;
            check(stack, hw_tick(stack, now()));
        }
        int32_t n;
        do {
            check(stack, n = hw_poll(stack, events, 32));
            for (int32_t i = 0; i < n; i++)
                if (events[i].kind == HW_ISSUE) {
                    queue[tail++ % QUEUE] = events[i];
                } else if (events[i].kind == HW_FINISHED) {
                    unsigned of = events[i].io % TENANTS;
                    waited[of] += now() - begun[of][events[i].io / TENANTS % 1024];
                    got[of]++;
                } else if (events[i].kind == HW_WAIT) {
                    wake = events[i].until_ns;
                }
        } while (events[n - 1].kind != HW_WAIT);
    }
    printf("%s: %.0f reads/s; priority 0 waits %.0f us, priority 7 %.0f us\n", scheduler,
           TENANTS * each * 1e9 / (now() - begin), waited[0] / 1e3 / each, waited[1] / 1e3 / each);
    free(buffer);
    close(fd);
    return hw_stack_free(stack);
}
