/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The way into the core, and the way out where it panics.
 *
 * hw_NAME(view, ...) notes in view->stack where the stack is, and calls the core. hw_panic, which the core calls at the end of a
 * panic, marks the queue as dead and goes to hw_leave: that takes the stack back to the place noted, and hw_NAME returns 0.
 * What the core had on the stack is forgotten, its memory is on a list of the shim's, and nobody enters this core again.
 *
 * The core is compiled for a stack that is aligned to 16 bytes; the kernel's is to 8.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>

/* What GUARDED has put on the stack, and back to its caller. */
.macro LEAVE
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	RET
.endm

.macro GUARDED name
SYM_FUNC_START(hw_\name)
	push	%rbp
	mov	%rsp, %rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, (%rdi)
	and	$-16, %rsp
	call	hw_core_\name
	lea	-40(%rbp), %rsp
	LEAVE
SYM_FUNC_END(hw_\name)
.endm

	.text
.irp name, new, end, arrive, insert, dispatch, closed, complete, bypassed, forget, unmergeable, requeue, wants, flush, may_merge, find_merge, neighbour, merged_bio, merged, proc, proc_is, proc_exits, group, group_goes, weight, target, target_of, depth, timer, value, set, resized, sizes, break
	GUARDED \name
.endr

/* void __noreturn hw_leave(struct hw_view *view) */
SYM_FUNC_START(hw_leave)
	mov	(%rdi), %rsp
	xor	%eax, %eax
	LEAVE
SYM_FUNC_END(hw_leave)
STACK_FRAME_NON_STANDARD hw_leave

	.section .note.GNU-stack, "", @progbits
