// BFQ in front of pread, as examples/front.c: two tenants read one file, each with 16 reads open; one has
// priority 0, the other 7. All that is to be said to the stack goes there in one call: hw_step.
// front [FILE [SCHEDULER [READS]]]
package main

/*
#cgo pkg-config: hoistway
#cgo noescape hw_step
#cgo nocallback hw_step
#include <stdlib.h>
#include <hoistway.h>
*/
import "C"

import (
	"fmt"
	"log"
	"math/rand"
	"os"
	"strconv"
	"time"
	"unsafe"
)

const (
	tenants = 2
	open    = 16
	sectors = 1 << 17
	batch   = 32
)

var start = time.Now()

// now is the time of the monotonic clock since the program began.
func now() C.uint64_t { return C.uint64_t(time.Since(start).Nanoseconds()) }

type front struct {
	stack                     *C.hw_stack
	file                      *os.File
	proc                      [tenants]C.uint32_t
	sent, got, waited, target [tenants]uint64
	begun                     map[uint64]C.uint64_t
	device                    []C.hw_event // What is with the device, the oldest first.
	inputs                    [batch]C.hw_input
	events                    [64]C.hw_event
	taken                     C.uint32_t
	wake                      C.uint64_t
}

func (f *front) check(code C.int32_t) {
	if code < 0 {
		log.Fatalf("%s: %s", C.GoString(C.hw_code_text(code)), C.GoString(C.hw_error(f.stack)))
	}
}

// submission asks for the next read of tenant t.
func (f *front) submission(in *C.hw_input, t uint64) {
	id := f.sent[t]*tenants + t
	at := f.sent[t]
	if t == 0 {
		at = uint64(rand.Int63())
	}
	*in = C.hw_input{now_ns: now(), kind: C.HW_IN_SUBMIT}
	in.io = C.hw_io{size: C.sizeof_hw_io, id: C.uint64_t(id), proc: f.proc[t], sectors: 8}
	in.io.sector = C.uint64_t(at % (sectors / 8) * 8)
	f.begun[id] = in.now_ns
	f.sent[t]++
}

// serve reads the oldest request of the device.
func (f *front) serve(in *C.hw_input, buffer []byte) {
	r := f.device[0]
	f.device = f.device[1:]
	*in = C.hw_input{kind: C.HW_IN_DONE, req: r.req}
	if _, err := f.file.ReadAt(buffer[:r.sectors*512], int64(r.sector)*512); err != nil {
		in.error = C.HW_EIO
	}
	in.now_ns = now()
}

// gather fills the inputs of a turn: one read of the device, and what the tenants may ask for.
func (f *front) gather(buffer []byte) int {
	n := 0
	if len(f.device) > 0 {
		f.serve(&f.inputs[0], buffer)
		n = 1
	}
	for t := uint64(0); t < tenants; t++ {
		for n < batch && f.sent[t] < f.target[t] && f.sent[t]-f.got[t] < open {
			f.submission(&f.inputs[n], t)
			n++
		}
	}
	if n == 0 { // BFQ idles: it expects the next read of a tenant.
		for now() < f.wake {
		}
		f.inputs[0] = C.hw_input{now_ns: now(), kind: C.HW_IN_TICK}
		n = 1
	}
	return n
}

func (f *front) take(e *C.hw_event) {
	switch e.kind {
	case C.HW_ISSUE:
		f.device = append(f.device, *e)
	case C.HW_FINISHED:
		t := uint64(e.io) % tenants
		f.waited[t] += uint64(now() - f.begun[uint64(e.io)])
		delete(f.begun, uint64(e.io))
		f.got[t]++
	case C.HW_WAIT:
		f.wake = e.until_ns
	case C.HW_REFUSED:
		f.check(e.error)
	}
}

func (f *front) turn(buffer []byte) {
	inputs := f.inputs[:f.gather(buffer)]
	for {
		in, n := &f.inputs[0], C.uint32_t(len(inputs))
		if n > 0 {
			in = &inputs[0]
		}
		k := C.hw_step(f.stack, in, n, C.sizeof_hw_input, &f.events[0], 64, &f.taken)
		f.check(k)
		for i := range f.events[:k] {
			f.take(&f.events[i])
		}
		if f.events[k-1].kind == C.HW_WAIT {
			return
		}
		inputs = inputs[f.taken:]
	}
}

func argument(n int, usual string) string {
	if len(os.Args) > n {
		return os.Args[n]
	}
	return usual
}

func main() {
	path, scheduler := argument(1, "front.img"), argument(2, "bfq")
	each, err := strconv.ParseUint(argument(3, "20000"), 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = file.Truncate(sectors * 512)
	}
	if err != nil {
		log.Fatal(err)
	}
	f := &front{file: file, begun: map[uint64]C.uint64_t{}, target: [tenants]uint64{each, each}}
	name := C.CString(scheduler)
	defer C.free(unsafe.Pointer(name))
	why := (*C.char)(C.malloc(256))
	defer C.free(unsafe.Pointer(why))
	device := C.hw_device{size: C.sizeof_hw_device, queue_depth: 8, sectors: sectors}
	if C.hw_stack_new(&device, name, nil, &f.stack, why, 256) < 0 {
		log.Fatal(C.GoString(why))
	}
	for t := range f.proc {
		number := C.hw_add_proc(f.stack, C.HW_GROUP_ROOT, C.uint32_t(2<<13|7*t))
		f.check(number)
		f.proc[t] = C.uint32_t(number)
	}
	buffer := make([]byte, 2<<20)
	for f.got[0]+f.got[1] < tenants*each {
		f.turn(buffer)
	}
	us := func(t int) uint64 { return f.waited[t] / 1000 / each }
	rate := float64(tenants*each) / time.Since(start).Seconds()
	fmt.Printf("%s: %.0f reads/s; priority 0 waits %d us, priority 7 %d us\n", scheduler, rate, us(0), us(1))
	C.hw_stack_free(f.stack)
}
