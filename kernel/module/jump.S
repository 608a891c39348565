/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>

/* int dwell_setjmp(struct dwell_jump *): returns 0, and once more, with 1, when dwell_longjmp() is called. */
SYM_FUNC_START(dwell_setjmp)
	movq	(%rsp), %rax
	leaq	8(%rsp), %rdx
	movq	%rbx, 0(%rdi)
	movq	%rbp, 8(%rdi)
	movq	%r12, 16(%rdi)
	movq	%r13, 24(%rdi)
	movq	%r14, 32(%rdi)
	movq	%r15, 40(%rdi)
	movq	%rdx, 48(%rdi)
	movq	%rax, 56(%rdi)
	xorl	%eax, %eax
	RET
SYM_FUNC_END(dwell_setjmp)

SYM_FUNC_START(dwell_longjmp)
	movq	0(%rdi), %rbx
	movq	8(%rdi), %rbp
	movq	16(%rdi), %r12
	movq	24(%rdi), %r13
	movq	32(%rdi), %r14
	movq	40(%rdi), %r15
	movq	48(%rdi), %rsp
	pushq	56(%rdi)
	movl	$1, %eax
	RET
SYM_FUNC_END(dwell_longjmp)
STACK_FRAME_NON_STANDARD dwell_longjmp
.section .note.GNU-stack,"",@progbits
