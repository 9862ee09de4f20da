/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which functions addresses lie in. */
#ifndef SYMBOLIZE_H
#define SYMBOLIZE_H

#include <stdint.h>

/*
 * The kernel's: first add all that are to be looked up, then resolve them. Its symbols come in no order, and are many
 * more than a stack's addresses. Returns 0, or -1 with errno.
 */
void symbolize_add_kernel(const uint64_t *addresses, int number);
int symbolize_resolve_kernel(void);

/* The path that a stack's return addresses (innermost first) tell, outermost function first, ";" between them. */
char *symbolize_kernel_path(const uint64_t *addresses, int number);
/* Functions of the process's program and libraries, while it lives; "[unknown]" where they have no symbol. */
char *symbolize_user_path(uint32_t tgid, const uint64_t *addresses, int number);

#endif
