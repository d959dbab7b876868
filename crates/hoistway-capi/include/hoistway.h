/* The C interface of hoistway: I/O schedulers and controllers as state machines.
 * What each call promises and asks: docs/guide/c.md.
 * Made by cbindgen from crates/hoistway-capi/src; do not edit. MIT OR Apache-2.0. */

#ifndef HOISTWAY_H
#define HOISTWAY_H

#include <stddef.h>
#include <stdint.h>

// Version of the binary interface: a program built for one works with each library of the same.
#define HW_ABI 1

// The root group. In hw_io: the group of the process.
#define HW_GROUP_ROOT 0

// Nobody, in hw_io: an I/O of no process.
#define HW_PROC_NONE UINT32_MAX

// No time at all: a stack that waits for the next input only.
#define HW_NEVER UINT64_MAX

// Times are below this (9 years), so that nothing that is calculated from them overflows: CLOCK_MONOTONIC, or
// the time since the program began, not that of the calendar.
#define HW_TIME_END 288230376151711744

// One I/O has fewer sectors than this (4 GiB).
#define HW_IO_SECTORS_END 8388608

// CPUs are numbered below this.
#define HW_CPUS 4096

// A stack knows at most so many processes, those that have gone included.
#define HW_PROCS 1048576

// A stack knows at most so many groups, those that are removed included.
#define HW_GROUPS 65536

// Groups lie at most so deep below the root.
#define HW_GROUP_DEPTH 64

// Texts are at most so many bytes long.
#define HW_TEXT 4096

// What calls return: HW_OK or a count, or one of the errors, which are negative. A refused call has done
// nothing.
typedef enum hw_code {
  // Done.
  HW_OK = 0,
  // A pointer is null that must not be, or is not aligned.
  HW_E_NULL = -1,
  // The size field of a struct is none that this library knows.
  HW_E_SIZE = -2,
  // A text is not UTF-8, or too long.
  HW_E_TEXT = -3,
  // A number is outside its range.
  HW_E_RANGE = -4,
  // There is no scheduler, controller, stage, setting or file of that name.
  HW_E_NAME = -5,
  // A value or a line is not what the setting or the file takes.
  HW_E_VALUE = -6,
  // The time is earlier than that of the call before, or beyond HW_TIME_END.
  HW_E_TIME = -7,
  // Events wait: poll until HW_WAIT first.
  HW_E_UNDRAINED = -8,
  // The device does not take this I/O: empty, beyond its end, or of a kind it does not know.
  HW_E_IO = -9,
  // The request is not with the device: never issued, or done already.
  HW_E_REQUEST = -10,
  // There is no such process, or it has gone.
  HW_E_PROC = -11,
  // There is no such group, or it was removed.
  HW_E_GROUP = -12,
  // A group still has groups or processes, or a process has not closed its plug section.
  HW_E_IN_USE = -13,
  // Another thread is in a call with this stack.
  HW_E_THREAD = -14,
  // The stack has all the processes or groups it can have.
  HW_E_FULL = -15,
  // The core has failed: a bug of hoistway. The stack is good for hw_error and hw_stack_free only.
  HW_E_PANIC = -16,
} hw_code;

// What an I/O does (hw_io.op, hw_event.op).
typedef enum hw_op {
  // Read.
  HW_READ = 0,
  // Write.
  HW_WRITE = 1,
  // Discard.
  HW_DISCARD = 2,
  // Flush the device's cache; no sectors.
  HW_FLUSH = 3,
  // Write zeroes.
  HW_WRITE_ZEROES = 4,
} hw_op;

// Flags of an I/O (hw_io.flags, hw_event.flags).
typedef enum hw_flag {
  // Somebody waits for this write.
  HW_SYNC = 1,
  // Metadata.
  HW_META = 2,
  // Preferred.
  HW_PRIO = 4,
  // No I/O that depends on this one will follow.
  HW_NOIDLE = 8,
  // More I/O will follow soon.
  HW_IDLE = 16,
  // Read-ahead.
  HW_RAHEAD = 32,
  // Starts the queue of the device at once (legacy).
  HW_UNPLUG_NOW = 64,
  // Full ordering point (legacy).
  HW_BARRIER = 128,
  // Flush the device's cache first.
  HW_PREFLUSH = 256,
  // On the medium before it is done.
  HW_FUA = 512,
  // Never merge.
  HW_NOMERGE = 1024,
  // Write-back in the background.
  HW_BACKGROUND = 2048,
  // Swapping.
  HW_SWAP = 4096,
  // The root group pays, whatever group the process is in (hw_io only).
  HW_OF_ROOT = 65536,
} hw_flag;

// Flags of a device.
typedef enum hw_device_flag {
  // A spinning disk.
  HW_ROTATIONAL = 1,
  // It has a volatile write cache: flushes reach it.
  HW_WRITE_CACHE = 2,
  // It knows HW_FUA itself; otherwise a flush follows the write.
  HW_HAS_FUA = 4,
  // A flush runs alone.
  HW_FLUSH_ALONE = 8,
  // The single-queue block layer of Linux 2.6 around the scheduler: large I/O is refused, not split.
  HW_LEGACY = 16,
} hw_device_flag;

// What an event says (hw_event.kind).
typedef enum hw_event_kind {
  // Nothing more: call again at `until_ns` (hw_tick), or with the next input. HW_NEVER: no time.
  HW_WAIT = 0,
  // Hand request `req` to the device: `op`, `sector`, `sectors`, `flags`, `queue`. `pieces` is the number
  // of I/Os or parts of them that it is made of (hw_pieces names them); `io` is the first one's id. With 0
  // pieces it is a flush of the stack's own.
  HW_ISSUE = 1,
  // The submission of `io` is over: its process may submit the next one.
  HW_ACCEPTED = 2,
  // `io` is finished; `error` is 0 or one of hw_errno.
  HW_FINISHED = 3,
  // A controller wants process `proc` to submit nothing before `until_ns`.
  HW_DELAY = 4,
  // hw_step only: an input was refused with code `error`; `io` or `req` says which.
  HW_REFUSED = 5,
} hw_event_kind;

// What an input of hw_step is (hw_input.kind): the function that does the same alone.
typedef enum hw_input_kind {
  // hw_tick.
  HW_IN_TICK = 0,
  // hw_submit: `io`.
  HW_IN_SUBMIT = 1,
  // hw_done: `req`, `error`.
  HW_IN_DONE = 2,
  // hw_requeue: `req`.
  HW_IN_REQUEUE = 3,
  // hw_plug: `proc`.
  HW_IN_PLUG = 4,
  // hw_unplug: `proc`.
  HW_IN_UNPLUG = 5,
  // hw_sleep: `proc`.
  HW_IN_SLEEP = 6,
} hw_input_kind;

// How an I/O failed: the numbers of Linux. Every other error that hw_done is told counts as HW_EIO.
typedef enum hw_errno {
  // Medium or transport error.
  HW_EIO = 5,
  // Beyond the end, or misaligned.
  HW_EINVAL = 22,
  // The device cannot do it.
  HW_EOPNOTSUPP = 95,
} hw_errno;

// A device's queue with its scheduler and its controllers. Used by one thread at a time.
typedef struct hw_stack hw_stack;

// A device. Zero is the usual in every field but the first three.
typedef struct hw_device {
  // sizeof(struct hw_device).
  uint32_t size;
  // Requests it takes at a time: 1 to 16384.
  uint32_t queue_depth;
  // Its size in sectors of 512 bytes: 1 to 2^54.
  uint64_t sectors;
  // hw_device_flag, added up.
  uint32_t flags;
  // I/Os for which there is room from the start, up to 65536; 0: 256. More may be submitted.
  uint32_t ios;
  // Hardware queues, up to 256; 0: 1. With the larger of queue_depth, nr_requests and 256 not above 65536.
  uint32_t hw_queues;
  // Requests that may exist for each hardware queue, 4 to 2048; 0: by depth and scheduler, as in Linux.
  uint32_t nr_requests;
  // Largest request in sectors, 8 to 131072; 0: 2560.
  uint32_t max_sectors;
  // Most segments of a request, up to 65535; 0: 128.
  uint32_t max_segments;
  // No request crosses a multiple of so many sectors, at least 8; 0: no such rule.
  uint32_t chunk_sectors;
  // Largest discard in sectors, below HW_IO_SECTORS_END; 0: it knows no discard.
  uint32_t discard_sectors;
  // Unit of discards in sectors, up to 65536; 0: 8.
  uint32_t discard_granularity;
  // Zero.
  uint32_t reserved;
} hw_device;

// An I/O. Zero is the usual in every field but size, id, sector and sectors.
typedef struct hw_io {
  // sizeof(struct hw_io).
  uint32_t size;
  // hw_op.
  uint32_t op;
  // The caller's name for it, which events repeat; need not be unique for the stack.
  uint64_t id;
  // First sector (512 bytes).
  uint64_t sector;
  // Length in sectors: 1 to HW_IO_SECTORS_END - 1; HW_FLUSH: 0.
  uint32_t sectors;
  // Segments of memory; 0: one for 8 sectors.
  uint32_t segments;
  // Who submits it (hw_add_proc), or HW_PROC_NONE.
  uint32_t proc;
  // Who pays (hw_add_group); 0: the group of the process.
  uint32_t group;
  // Where it is submitted, below HW_CPUS; chooses the hardware queue.
  uint32_t cpu;
  // hw_flag, added up.
  uint32_t flags;
  // Its priority, class << 13 | level as for ioprio_set; 0: that of the process.
  uint32_t priority;
  // Zero.
  uint32_t reserved;
} hw_io;

// One event. Fields that its kind does not name are zero.
typedef struct hw_event {
  // hw_event_kind.
  uint32_t kind;
  // HW_FINISHED: 0 or hw_errno; HW_REFUSED: hw_code.
  int32_t error;
  // The request, for hw_done. Its number comes again only after 2^32 others in the same place.
  uint64_t req;
  // The caller's id of the I/O.
  uint64_t io;
  // HW_WAIT, HW_DELAY: a time.
  uint64_t until_ns;
  // HW_ISSUE: first sector.
  uint64_t sector;
  // HW_ISSUE: length in sectors.
  uint32_t sectors;
  // HW_ISSUE: hw_op.
  uint32_t op;
  // HW_ISSUE: hw_flag of the first piece.
  uint32_t flags;
  // HW_ISSUE: I/Os, or parts of them, that the request is made of.
  uint32_t pieces;
  // HW_ISSUE: hardware queue.
  uint32_t queue;
  // HW_ISSUE: who submitted the first piece; HW_DELAY: who is to wait.
  uint32_t proc;
} hw_event;

// One input of hw_step.
typedef struct hw_input {
  // When, as in all calls; not earlier than the input before.
  uint64_t now_ns;
  // hw_input_kind.
  uint32_t kind;
  // HW_IN_DONE: 0, or how it failed.
  int32_t error;
  // HW_IN_DONE, HW_IN_REQUEUE: the request.
  uint64_t req;
  // HW_IN_PLUG, HW_IN_UNPLUG, HW_IN_SLEEP: the process.
  uint32_t proc;
  // Zero.
  uint32_t reserved;
  // HW_IN_SUBMIT: the I/O.
  struct hw_io io;
} hw_input;

// A part of a request that belongs to one I/O.
typedef struct hw_piece {
  // The caller's id of the I/O.
  uint64_t io;
  // First sector on the device.
  uint64_t sector;
  // Length in sectors.
  uint32_t sectors;
  // Zero.
  uint32_t reserved;
} hw_piece;

// What a stack has done so far.
typedef struct hw_counters {
  // sizeof(struct hw_counters).
  uint32_t size;
  // Requests with the device now.
  uint32_t in_flight;
  // I/Os submitted.
  uint64_t submitted;
  // I/Os finished.
  uint64_t finished;
  // I/Os that joined a request.
  uint64_t merged;
  // Requests that joined another request.
  uint64_t joined;
  // Requests handed to the device, flushes of the stack's own included.
  uint64_t issued;
  // Requests that the device has completed.
  uint64_t completed;
  // Times a submitter had to wait for a free request.
  uint64_t tag_waits;
  // Requests that the scheduler chose among at least two.
  uint64_t chosen;
} hw_counters;

// A setting. Its texts live as long as the program.
typedef struct hw_tunable {
  // sizeof(struct hw_tunable).
  uint32_t size;
  // Zero.
  uint32_t reserved;
  // Its name.
  const char *name;
  // The unit of its value, empty for a plain number, a switch or a choice.
  const char *unit;
  // The words of a choice, separated by commas; the value is the index of one. NULL: no choice.
  const char *words;
  // What it does.
  const char *doc;
  // What a change does to what is under way.
  const char *effect;
  // Value of a new stack.
  uint64_t usual;
  // Smallest value.
  uint64_t min;
  // Largest value.
  uint64_t max;
} hw_tunable;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A stack for `device` with a scheduler, such as "bfq" or "bfq{slice_idle=0,low_latency=off}", and controllers,
// such as "io.max,wbt{target=2ms}"; NULL: none. Times begin at 0.
//
// `*stack` is the stack, to be freed by hw_stack_free, or NULL after an error. `why`, which has room for
// `why_room` bytes and may be NULL, then holds the error as a text.
int32_t hw_stack_new(const struct hw_device *device,
                     const char *scheduler,
                     const char *controllers,
                     struct hw_stack **stack,
                     char *why,
                     size_t why_room);

// The text of the last error of this stack, empty before the first. Valid until the next call with the stack.
// NULL for no stack, or while another thread is in a call.
const char *hw_error(const struct hw_stack *stack);

// Frees a stack. NULL does nothing; a stack that another thread uses is left alone: HW_E_THREAD.
int32_t hw_stack_free(struct hw_stack *stack);

// Submits an I/O. Then poll.
//
// Its process should submit nothing before HW_ACCEPTED: until then its task would sleep in Linux.
int32_t hw_submit(struct hw_stack *stack, uint64_t now_ns, const struct hw_io *io);

// The device has completed `req`: `error` 0, or why it failed (hw_errno). Then poll.
int32_t hw_done(struct hw_stack *stack, uint64_t now_ns, uint64_t req, int32_t error);

// The device gives `req` back unserved; it will be issued again. Then poll.
int32_t hw_requeue(struct hw_stack *stack, uint64_t now_ns, uint64_t req);

// Time has passed: due when HW_WAIT said so, harmless at any other time. Then poll.
int32_t hw_tick(struct hw_stack *stack, uint64_t now_ns);

// A process is about to submit several I/Os: they are collected, and merged, until hw_unplug. Then poll.
int32_t hw_plug(struct hw_stack *stack,
                uint64_t now_ns,
                uint32_t proc);

// The process has submitted them. Then poll.
int32_t hw_unplug(struct hw_stack *stack, uint64_t now_ns, uint32_t proc);

// The process goes to sleep: what it has collected goes on, the section stays open. Then poll.
int32_t hw_sleep(struct hw_stack *stack, uint64_t now_ns, uint32_t proc);

// Whatever there is and whatever still comes goes to the device as soon as that has room, without limits,
// idling and delays. There is no way back. Then poll, and go on until nothing is with the device.
int32_t hw_end(struct hw_stack *stack,
               uint64_t now_ns);

// Takes the next events, at most `room`; how many. There are no more when the last is HW_WAIT.
int32_t hw_poll(struct hw_stack *stack, struct hw_event *events, uint32_t count);

// Many inputs and their events in one call: each input is made and all its events are taken before the
// next one. How many events; `taken` is how many inputs were made.
//
// The last event is HW_WAIT if all was done. Otherwise the room was used up: call again with the inputs
// that are left, perhaps none. An input that is refused gives HW_REFUSED, and the next one follows.
// `input_size` is sizeof(struct hw_input).
int32_t hw_step(struct hw_stack *stack,
                const struct hw_input *inputs,
                uint32_t count,
                size_t input_size,
                struct hw_event *events,
                uint32_t event_room,
                uint32_t *taken);

// The I/Os, or parts of them, that a request with the device is made of, in the order of their sectors: at
// most `count` are written; how many there are. The number is that of `hw_event.pieces`.
int32_t hw_pieces(struct hw_stack *stack,
                  uint64_t req,
                  struct hw_piece *pieces,
                  uint32_t count);

// A group below `parent` (HW_GROUP_ROOT: directly below the root); its number. Then poll.
int32_t hw_add_group(struct hw_stack *stack, uint64_t now_ns, uint32_t parent, const char *name);

// Removes a group without groups and processes; what it has under way goes on. Then poll.
int32_t hw_remove_group(struct hw_stack *stack, uint64_t now_ns, uint32_t group);

// A process (thread, client, tenant) of a group with an I/O priority, class << 13 | level, 0: best-effort 4; its
// number, for hw_io.proc. Numbers are not used again: give one to a tenant rather than to a connection.
int32_t hw_add_proc(struct hw_stack *stack,
                    uint32_t group,
                    uint32_t prio);

// The process ends; what it has under way goes on. Its plug section must be closed. Then poll.
int32_t hw_remove_proc(struct hw_stack *stack, uint64_t now_ns, uint32_t proc);

// Moves a process to another group. Then poll.
int32_t hw_move_proc(struct hw_stack *stack, uint64_t now_ns, uint32_t proc, uint32_t group);

// Changes the priority of a process. Then poll.
int32_t hw_set_priority(struct hw_stack *stack, uint64_t now_ns, uint32_t proc, uint32_t prio);

// Sets a setting of a stage: `queue`, a controller by name, or the scheduler (its name, or NULL). Then poll.
int32_t hw_set(struct hw_stack *stack,
               uint64_t now_ns,
               const char *stage,
               const char *name,
               uint64_t value);

// The same with the value as text: "8ms", "64KiB", "on", a word of a choice. Then poll.
int32_t hw_set_text(struct hw_stack *stack,
                    uint64_t now_ns,
                    const char *stage,
                    const char *name,
                    const char *value);

// The value of a setting in force.
int32_t hw_get(struct hw_stack *stack, const char *stage, const char *name, uint64_t *value);

// Sets a setting of a group, such as its weight (hw_group_tunable_of lists them). Then poll.
int32_t hw_set_group(struct hw_stack *stack,
                     uint64_t now_ns,
                     uint32_t group,
                     const char *stage,
                     const char *name,
                     uint64_t value);

// Puts a setting of a group back to its default. Then poll.
int32_t hw_reset_group(struct hw_stack *stack,
                       uint64_t now_ns,
                       uint32_t group,
                       const char *stage,
                       const char *name);

// Writes a line to a cgroup file of a group, as a shell would: "io.max", "8:0 rbps=1048576". Then poll.
int32_t hw_write(struct hw_stack *stack,
                 uint64_t now_ns,
                 uint32_t group,
                 const char *file,
                 const char *line);

// What a cgroup file of a group prints, such as "io.stat": cut to `room` bytes with the zero at the end. Its
// whole length; `room` may be 0.
int32_t hw_read(struct hw_stack *stack,
                uint32_t group,
                const char *file,
                char *to,
                size_t room);

// Another scheduler takes over when what exists is done; new I/O waits until then. Then poll.
int32_t hw_switch(struct hw_stack *stack, uint64_t now_ns, const char *scheduler);

// The name of the scheduler in force; it lives as long as the program. NULL for no stack.
const char *hw_scheduler(struct hw_stack *stack);

// What the stack has done so far.
int32_t hw_count(struct hw_stack *stack, struct hw_counters *counters);

// The library's version, "MAJOR.MINOR.PATCH".
const char *hw_version(void);

// The library's HW_ABI, to be compared with that of the header.
uint32_t hw_abi(void);

// A code in words.
const char *hw_code_text(int32_t code);

// The name of a scheduler, by its number from 0; NULL behind the last.
const char *hw_scheduler_name(uint32_t index);

// The name of a controller, by its number from 0; NULL behind the last.
const char *hw_controller_name(uint32_t index);

// A scheduler, controller or `queue` in one line; NULL if there is none of that name.
const char *hw_summary(const char *stage);

// A setting of a scheduler, of a controller or of `queue`, by its number from 0: 1 if `tunable` was filled, 0
// behind the last. `tunable->size` is set by the caller.
int32_t hw_tunable_of(const char *stage,
                      uint32_t index,
                      struct hw_tunable *tunable);

// The same of the settings that groups have (hw_set_group).
int32_t hw_group_tunable_of(const char *stage, uint32_t index, struct hw_tunable *tunable);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HOISTWAY_H */
