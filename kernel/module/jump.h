/* SPDX-License-Identifier: GPL-2.0-only */
/* Leaves a policy that panicked: jump.S. */
#ifndef DWELL_JUMP_H
#define DWELL_JUMP_H

struct dwell_jump {
	unsigned long saved[8]; /* rbx rbp r12 r13 r14 r15 rsp rip */
};

int dwell_setjmp(struct dwell_jump *jump) __attribute__((returns_twice));
/* Does not return. Not declared so: objtool must see code behind the call. */
void dwell_longjmp(struct dwell_jump *jump);

#endif
