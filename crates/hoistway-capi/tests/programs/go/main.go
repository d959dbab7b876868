// The load of tests/support/drive.rs through cgo: drive SCHEDULER TOTAL one|batch.
// Prints what it has done, and the processor time of an I/O.
package main

/*
#cgo noescape hw_step
#cgo nocallback hw_step
#cgo noescape hw_submit
#cgo nocallback hw_submit
#cgo noescape hw_done
#cgo nocallback hw_done
#cgo noescape hw_poll
#cgo nocallback hw_poll
#include <stdlib.h>
#include "hoistway.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	batchSize = 32
	openMost  = 64
	room      = 256
)

type drive struct {
	stack                                *C.hw_stack
	procs                                [4]C.uint32_t
	random, now, next, open, wait, total uint64
	device                               [1024]uint64
	head, tail                           uint
	order, issued, finished              uint64
	inputs                               [batchSize]C.hw_input
	events                               [room]C.hw_event
	io                                   C.hw_io
	taken                                C.uint32_t
}

func (d *drive) fail(what string, code C.int32_t) {
	text := C.GoString(C.hw_code_text(code))
	fmt.Fprintf(os.Stderr, "%s: %s: %s\n", what, text, C.GoString(C.hw_error(d.stack)))
	os.Exit(1)
}

func (d *drive) fill(io *C.hw_io) {
	x := d.random
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	d.random = x
	io.id = C.uint64_t(d.next)
	io.proc = d.procs[d.next&3]
	io.op = C.HW_READ
	if x>>60 == 0 {
		io.op = C.HW_WRITE
	}
	io.sector = C.uint64_t(x % (1 << 26) * 16)
	d.next++
	d.open++
}

func (d *drive) take(e *C.hw_event) {
	switch e.kind {
	case C.HW_ISSUE:
		d.order = d.order*31 + uint64(e.sector)
		d.issued++
		d.device[d.tail%1024] = uint64(e.req)
		d.tail++
	case C.HW_FINISHED:
		d.finished++
		d.open--
	case C.HW_WAIT:
		d.wait = uint64(e.until_ns)
	case C.HW_REFUSED:
		d.fail("refused", e.error)
	}
}

func (d *drive) tick() {
	if d.wait != ^uint64(0) {
		d.now = max(d.now, d.wait)
	}
}

func (d *drive) turn() {
	d.now += 1000
	now := C.uint64_t(d.now)
	var code C.int32_t
	if d.open < openMost && d.next < d.total {
		d.fill(&d.io)
		code = C.hw_submit(d.stack, now, &d.io)
	} else if d.head != d.tail {
		code = C.hw_done(d.stack, now, C.uint64_t(d.device[d.head%1024]), 0)
		d.head++
	} else {
		d.tick()
		code = C.hw_tick(d.stack, C.uint64_t(d.now))
	}
	if code < 0 {
		d.fail("input", code)
	}
	for {
		n := C.hw_poll(d.stack, &d.events[0], room)
		if n < 0 {
			d.fail("hw_poll", n)
		}
		for i := range d.events[:n] {
			d.take(&d.events[i])
		}
		if d.events[n-1].kind == C.HW_WAIT {
			return
		}
	}
}

func (d *drive) input(n int) *C.hw_input {
	d.now += 1000
	in := &d.inputs[n]
	in.now_ns = C.uint64_t(d.now)
	return in
}

func (d *drive) batch() {
	n := 0
	for ; n < batchSize/2 && d.head != d.tail; n++ {
		in := d.input(n)
		in.kind = C.HW_IN_DONE
		in.req = C.uint64_t(d.device[d.head%1024])
		d.head++
	}
	for ; n < batchSize && d.open < openMost && d.next < d.total; n++ {
		in := d.input(n)
		in.kind = C.HW_IN_SUBMIT
		d.fill(&in.io)
	}
	if n == 0 {
		in := d.input(n)
		d.tick()
		in.now_ns = C.uint64_t(d.now)
		in.kind = C.HW_IN_TICK
		n = 1
	}
	for first := 0; ; first += int(d.taken) {
		in := &d.inputs[min(first, batchSize-1)]
		size := C.size_t(C.sizeof_hw_input)
		k := C.hw_step(d.stack, in, C.uint32_t(n-first), size, &d.events[0], room, &d.taken)
		if k < 0 {
			d.fail("hw_step", k)
		}
		for i := range d.events[:k] {
			d.take(&d.events[i])
		}
		if d.events[k-1].kind == C.HW_WAIT {
			return
		}
	}
}

func used() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func main() {
	total, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	d := &drive{random: 88172645463325252, wait: ^uint64(0), total: total}
	name := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(name))
	device := C.hw_device{size: C.sizeof_hw_device, queue_depth: 32, sectors: 1 << 30}
	if code := C.hw_stack_new(&device, name, nil, &d.stack, nil, 0); code < 0 {
		d.fail("hw_stack_new", code)
	}
	for i := range d.procs {
		d.procs[i] = C.uint32_t(C.hw_add_proc(d.stack, C.HW_GROUP_ROOT, 0))
	}
	d.io = C.hw_io{size: C.sizeof_hw_io, sectors: 8}
	for i := range d.inputs {
		d.inputs[i].io = d.io
	}
	begin := used()
	for d.finished < d.total {
		if os.Args[3] == "batch" {
			d.batch()
		} else {
			d.turn()
		}
	}
	taken := (used() - begin) / float64(total)
	fmt.Printf("order %016x issued %d finished %d\n%.2f ns\n", d.order, d.issued, d.finished, taken)
	C.hw_stack_free(d.stack)
}
