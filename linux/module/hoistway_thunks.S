/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The core's returns and indirect branches go through places that a stock kernel patches by its processor. A kernel in user mode
 * has none, nor the need: it is a process. Here they are, so that the core is the same object in both.
 */
#include <linux/linkage.h>

	.text
.irp register, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
SYM_FUNC_START(__x86_indirect_thunk_\register)
	jmp	*%\register
SYM_FUNC_END(__x86_indirect_thunk_\register)
.endr

SYM_FUNC_START(__x86_return_thunk)
	ret
SYM_FUNC_END(__x86_return_thunk)

	.section .note.GNU-stack, "", @progbits
