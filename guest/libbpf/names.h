/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions that addresses lie in. */
#ifndef NAMES_H
#define NAMES_H

#include <stdint.h>

/*
 * The kernel's: first say which are wanted, then have all of them found. Its symbols come in no order, and are many
 * more than a stack's addresses. Returns 0, or -1 with errno.
 */
void names_want_kernel(const uint64_t *addresses, int number);
int names_find_kernel(void);

/* The path that a stack's return addresses (innermost first) tell, outermost function first, ";" between them. */
char *names_kernel_path(const uint64_t *addresses, int number);
/* Functions of the process's program and libraries, while it lives; "[unknown]" where they have no symbol. */
char *names_user_path(uint32_t tgid, const uint64_t *addresses, int number);

#endif
