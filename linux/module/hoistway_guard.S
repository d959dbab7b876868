/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The way into the core, and the way out where it panics.
 *
 * hw_NAME(view, ...) notes in the view where the stack is and what its caller keeps in registers, and calls the core. hw_panic,
 * which the core calls at the end of a panic, marks the queue as dead and goes to hw_leave: that takes back what was noted, and
 * hw_NAME returns 0. A call that returns by itself has kept the registers.
 * What the core had on the stack is forgotten, its memory is on a list of the shim's, and nobody enters this core again.
 *
 * The core is compiled for a stack that is aligned to 16 bytes; the kernel's is to 8.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>

.macro GUARDED name
SYM_FUNC_START(hw_\name)
	push	%rbp
	mov	%rsp, %rbp
	mov	%rsp, (%rdi)
	mov	%rbx, 8(%rdi)
	mov	%r12, 16(%rdi)
	mov	%r13, 24(%rdi)
	mov	%r14, 32(%rdi)
	mov	%r15, 40(%rdi)
	and	$-16, %rsp
	call	hw_core_\name
	leave
	RET
SYM_FUNC_END(hw_\name)
.endm

	.text
.irp name, new, end, arrive, insert, dispatch, closed, complete, bypassed, forget, unmergeable, requeue, wants, flush, may_merge, find_merge, neighbour, merged_bio, merged, proc, proc_is, proc_exits, group, group_goes, weight, target, target_of, depth, timer, value, set, resized, sizes, break
	GUARDED \name
.endr

/* void __noreturn hw_leave(struct hw_view *view) */
SYM_FUNC_START(hw_leave)
	mov	(%rdi), %rsp
	mov	8(%rdi), %rbx
	mov	16(%rdi), %r12
	mov	24(%rdi), %r13
	mov	32(%rdi), %r14
	mov	40(%rdi), %r15
	pop	%rbp
	xor	%eax, %eax
	RET
SYM_FUNC_END(hw_leave)
STACK_FRAME_NON_STANDARD hw_leave

	.section .note.GNU-stack, "", @progbits
