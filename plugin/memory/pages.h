/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtual addresses of pages of user memory. A line of user memory is counted by its physical address, which is the
 * same for all tasks that share it. Its name follows from its virtual address.
 */
#ifndef PAGES_H
#define PAGES_H

#include <stdint.h>
#include <stdio.h>

/* The user's address `virtual` is mapped to `physical`. */
void pages_note(uint64_t physical, uint64_t virtual);

/* How often a page found no room. */
uint64_t pages_lost(void);

/* Write each page as CSV: its first virtual address, and whether it had others, too. Returns 0 or -1. */
int pages_write(FILE *out);

#endif
