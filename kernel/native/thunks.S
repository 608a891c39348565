/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel's retpolines are in user space. */
.globl __x86_return_thunk, __x86_indirect_thunk_rax, __x86_indirect_thunk_r11
__x86_return_thunk: ret
__x86_indirect_thunk_rax: jmp *%rax
__x86_indirect_thunk_r11: jmp *%r11
.section .note.GNU-stack,"",@progbits
